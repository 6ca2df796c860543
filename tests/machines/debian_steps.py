"""Run by `test_debian_machines`, as root or as an ordinary user: machines of Debian, and a repository of packages that they install from
through their gateway. Prints what happened as JSON."""

from __future__ import annotations

import http.server
import json
import os
import socket
import sys
import threading
from functools import partial
from pathlib import Path

ENTRY = "deb [trusted=yes] {}/ ./\n"
INSTALL = "apt-get -q update && apt-get install -y -q greeter"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def main(state, repository):
    os.environ["GLOVEPORT_STATE"] = state
    from gloveport import Sandbox, Template
    from gloveport.machines.estate import estate

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect(("192.0.2.1", 9))  # sends nothing
        host = asking.getsockname()[0]
    server = http.server.ThreadingHTTPServer((host, 0), partial(Quiet, directory=repository))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"{host}:{server.server_address[1]}"
    told = {"found": Sandbox.capabilities().as_dict()}
    with Sandbox.create(image="debian") as plain:
        told["plain"] = plain.commands.run("id -u; id -un; dpkg --audit; touch mine && stat -c %U mine").stdout
    with Sandbox.create(image="debian", user="root", network=[address]) as machine:
        sources = "/etc/apt/sources.list.d"
        machine.commands.run(f"rm -f {sources}/*")
        machine.files.write(f"{sources}/test.list", ENTRY.format(f"http://{address}"))
        machine.update(network=[])
        told["refused"] = machine.commands.run(INSTALL, timeout_seconds=300).exit_code
        machine.update(network=[address])
        done = machine.commands.run(INSTALL, timeout_seconds=300)
        told["installed"] = [done.exit_code, (done.stdout + done.stderr)[-3000:]]
        told["log"] = sorted({row.verdict for row in machine.get_network_log()})
        look = "greet; dpkg-query -W -f '${Status}' greeter; stat -c ' %U' /var/lib/greeter; cat /var/lib/greeter"
        told["before"] = machine.commands.run(look).stdout
        machine.pause()
        told["after"] = Sandbox.connect(machine.id).commands.run(look).stdout
        with machine.fork()[0] as twin:
            told["twin"] = twin.commands.run(look).stdout
    steps = [{"run": f"rm -f {sources}/*; echo '{ENTRY.format('http://' + address).strip()}' > {sources}/a.list"}]
    steps.append({"run": INSTALL})
    made = Template.create("greeting", steps, from_="debian", network=[address])
    with Sandbox.create(from_template=made.name) as machine:
        told["template"] = machine.commands.run("id -u; greet").stdout
    made.delete()
    for record in estate().registry.find():
        estate().kill(record.id)
    from gloveport.egress.gateway.boxes.commands import Command
    from gloveport.egress.gateway.launching import DaemonClient

    DaemonClient(state).ask(Command("end"))
    told["left"] = os.listdir(Path(state, "boxes"))
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
