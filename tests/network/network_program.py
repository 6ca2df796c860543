"""A host whose jailed program is the system's Python; prints what the program could do with its network. As anybody."""

from __future__ import annotations

import http.server
import json
import os
import sys
import sysconfig
import threading

from gloveport.egress.gateway import Gateway, connection_rules
from gloveport.engines.jail.child import HelperProcess
from gloveport.engines.jail.command import spawn_jailed
from gloveport.errors import GloveportError

PROGRAM = r"""
import sys, os, _socket as s, json, struct, fcntl
port = int(sys.argv[1])
def attempt(action):
    try: return action()
    except OSError as error: return -error.errno
def made(family, kind, protocol=0):
    s.socket(family, kind, protocol).close(); return 0
def get(host, port):
    c = s.socket(s.AF_INET6 if ":" in host else s.AF_INET, s.SOCK_STREAM)
    try:
        c.connect((host, port)); c.send(b"GET / HTTP/1.0\r\n\r\n")
        return c.recv(15).decode()
    finally: c.close()
def bound(kind, port):
    c = s.socket(s.AF_INET, kind)
    try: c.bind(("127.0.0.1", port)); return 0
    finally: c.close()
def listening():
    c = s.socket(s.AF_INET, s.SOCK_STREAM)
    try: c.listen(1); return 0
    finally: c.close()
def devices():
    c = s.socket(s.AF_INET, s.SOCK_DGRAM); up = []
    for index in range(1, 64):
        try: name = fcntl.ioctl(c, 0x8910, bytes(16) + struct.pack("i", index) + bytes(20))[:16]
        except OSError: continue
        if struct.unpack_from("h", fcntl.ioctl(c, 0x8913, name + bytes(24)), 16)[0] & 1: up.append(name.rstrip(b"\0").decode())
    return up
def is_open(fd):
    try: os.fstat(fd); return True
    except OSError: return False
print(json.dumps({
    "descriptors": [fd for fd in range(256) if is_open(fd)],
    "allowed": attempt(lambda: get("127.0.0.1", port)), "other port": attempt(lambda: get("127.0.0.1", port + 1)),
    "six": attempt(lambda: get("2606:4700::1111", port)),
    "name": attempt(lambda: s.getaddrinfo("a.example.com", 80)[0][4][0]),
    "pair": attempt(lambda: s.socketpair(1, 2)[0].connect("/nothing")),
    "tcp": attempt(lambda: made(2, 1)), "udp": attempt(lambda: made(2, 2)), "tcp6": attempt(lambda: made(10, 1)),
    "raw": attempt(lambda: made(2, 3, 1)), "icmp": attempt(lambda: made(2, 2, 1)), "packet": attempt(lambda: made(17, 3)),
    "netlink": attempt(lambda: made(16, 3)), "unix": attempt(lambda: made(1, 1)), "vsock": attempt(lambda: made(40, 1)),
    "sctp": attempt(lambda: made(2, 1, 132)), "mptcp": attempt(lambda: made(2, 1, 262)),
    "bind tcp": attempt(lambda: bound(1, 0)), "bind udp": attempt(lambda: bound(2, 0)), "listen": attempt(listening), "devices": devices(),
}), flush=True)
"""


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    server.RequestHandlerClass.do_GET = lambda self: self.send_error(418)
    server.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    library = sysconfig.get_path("stdlib", vars={"installed_base": "/usr", "installed_platbase": "/usr"})
    library = library if os.path.isdir(library) else "/usr/lib/python3.11"
    gateway = Gateway(HelperProcess)
    argv = [os.path.realpath("/usr/bin/python3"), "-I", "-S", "-c", PROGRAM, str(server.server_port)]
    try:
        process = spawn_jailed(argv, readable=[library], network=True, sandbox=sys.argv[1], warn=False)
    except GloveportError as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        return
    attachment = gateway.attach(process.network, connection_rules([f"127.0.0.1:{server.server_port}"]))
    process.network = None
    text = b""
    while more := os.read(process.stdout, 65536):
        text += more
    seen = json.loads(text)
    seen["decisions"] = [decision.allowed for decision in attachment.decisions()]
    print(json.dumps(seen))
    attachment.close()
    process.close()
    gateway.close()


main()
