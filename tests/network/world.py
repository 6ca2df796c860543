"""A world for the gateway: its program, in a network namespace where every address there is answers, and is written down.

Started in place of `gloveport.egress.gateway.process`, of which it is a shell. Servers on some ports say whom they were reached as.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import re
import socket
import ssl
import threading

from gloveport.egress.gateway import process
from gloveport.engines.jail import network, syscalls

PLAIN, SECURE = (80, 22, 8080, 8443, 9000), (443, 4443)
OPEN, OTHER, SIX = "93.184.216.34", "93.184.216.35", "2606:4700::1111"
NAMES = {
    "open.test": [OPEN],
    "other.test": [OTHER],
    "wild.open.test": [OPEN],
    "six.test": [SIX],
    "intranet.test": ["10.0.0.5"],
    "loop.test": ["127.0.0.1"],
    "localhost": ["127.0.0.1"],
    "zero.test": ["0.0.0.0"],
    "meta.test": ["169.254.169.254"],
    "metadata.google.internal": ["169.254.169.254"],
    "mixed.test": [OPEN, "10.0.0.5"],
    "mapped.test": ["::ffff:10.0.0.5"],
    "compatible.test": ["::10.0.0.5"],
    "nat64.test": ["64:ff9b::a00:5"],
    "ula.test": ["fd00::5"],
}
REBINDING = itertools.cycle([[OPEN], ["10.0.0.5"]])


def resolve(host, port):
    if host == "rebinding.test":
        return next(REBINDING)
    if host not in NAMES:
        raise OSError("no such name")
    return NAMES[host]


class World:
    def __init__(self, log, certificate):
        self._log = open(log, "a", buffering=1)
        self._context = None
        if certificate:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate)
        for port in (*PLAIN, *(SECURE if certificate else ())):
            listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=256)
            threading.Thread(target=self._accept, args=(listener, port), daemon=True).start()

    def _accept(self, listener, port):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._serve, args=(connection, port), daemon=True).start()

    def _serve(self, connection, port):
        reached = connection.getsockname()[0].removeprefix("::ffff:")
        self._log.write(f"{reached} {port}\n")
        try:
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if port == 9000:
                    while data := connection.recv(65536):
                        connection.sendall(data)
                    connection.sendall(b"bye")
                    return
                if port in SECURE:
                    connection = self._context.wrap_socket(connection, server_side=True)
                self._http(connection, reached)
        except OSError:
            pass

    def _http(self, connection, reached):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                more = connection.recv(65536)
                if not more:
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            path = head.split(b" ")[1]
            key = re.search(rb"(?i)sec-websocket-key: *(\S+)", head)
            if key:
                accept = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
                connection.sendall(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
                    + accept
                    + b"\r\n\r\n\x81\x05hello"
                )
                connection.recv(100)
                return
            if b"/to?" in path:
                location = path.partition(b"/to?")[2]
                connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n")
            elif b"/bytes/" in path:
                self._bytes(connection, int(path.rpartition(b"/")[2]))
            else:
                body = reached.encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    @staticmethod
    def _bytes(connection, count):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % count)
        block = bytes(1 << 16)
        while count > 0:
            count -= connection.send(block[: min(count, len(block))])


def main(arguments):
    *given, log, certificate = arguments
    syscalls.call("unshare", 0x4000_0000)
    network.open_sockets().close()  # every address is here
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w") as file:
        file.write("0")
    World(log, certificate if os.path.exists(certificate) else "")
    process.main(given, resolve)
