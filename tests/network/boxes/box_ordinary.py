"""Run as an ordinary user by `test_box_ordinary`: a box of this user, its gateway, and a server of the host that a name leads to."""

from __future__ import annotations

import http.server
import json
import os
import sys
import threading
import time
from pathlib import Path

from gloveport.egress.gateway import daemon
from gloveport.egress.gateway.boxes.commands import Command
from gloveport.egress.gateway.boxes.journal import read_rows
from gloveport.egress.gateway.launching import DaemonClient, daemon_command
from gloveport.host.machines.network_control import SandboxNetwork
from gloveport.machines.images.host import host_image
from gloveport.machines.namespace.driver import NamespaceDriver
from gloveport.machines.spec import BoxSpec, Limits
from gloveport.policy import NetworkRules


def resolve(host, port):
    if host != "host.test":
        raise OSError("no such name")
    return ["127.0.0.1"]


def main(arguments):
    """The gateway."""
    begun = daemon.begin(arguments)
    if begun is not None:
        daemon.serve(*begun, resolve)


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *args):
        pass


def told(root, client_class):
    """What happens, as a mapping."""
    for name in ("boxes", "layers"):
        (root / name).mkdir(mode=0o700, parents=True)
    root.chmod(0o700)
    driver = NamespaceDriver()
    found = driver.probe(root)
    if found.isolation == "none":
        return {"problem": found.problem}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    folder = root / "boxes" / "ordinary"
    folder.mkdir(mode=0o700)
    network = SandboxNetwork(str(root), "ordinary")
    network.prepare(NetworkRules(allow=(f"host.test:{port}",), private=("127.0.0.0/8",)))
    command = daemon_command(str(root), program="box_ordinary", idle=10)
    spec = BoxSpec(
        id="ordinary",
        hostname="sandbox",
        image=host_image(root),
        limits=Limits(),
        env={},
        root=False,
        network=True,
        gateway_argv=tuple(command),
        gateway_socket=str(root / "gateway.sock"),
    )
    driver.start(folder, driver.prepare(folder, spec))
    client = DaemonClient(str(root), command)
    try:
        with client_class(folder) as agent:

            def curl(where):
                done = agent.run("curl", "-sS", "--max-time", "20", where, timeout_ms=30000)
                return [done["exit_code"], done["stdout"].decode(), done["stderr"].decode()]

            said = {"allowed": curl(f"http://host.test:{port}/"), "refused": curl("http://other.test/")}
            said["port"] = curl(f"http://host.test:{port + 1}/")
            os.kill(client.ask(Command("status")).pid, 9)
            said["after"] = curl(f"http://host.test:{port}/")
        said["rows"] = [[row.verdict, row.host] for row in read_rows(str(folder)) if row.kind == "connection"]
    finally:
        driver.kill(folder, "killed")
        driver.release(folder)
        for _ in range(500):
            answer = client.ask(Command("end"))
            if answer is None:
                break
            time.sleep(0.01)
    return said


if __name__ == "__main__":
    from client import Connection

    print(json.dumps(told(Path(sys.argv[1]), Connection)))
