"""The daemon in a network namespace where every address answers (`..world`). A shell of `gloveport.egress.gateway.daemon`."""

from __future__ import annotations

import json
import os

from gloveport.egress.gateway import daemon
from gloveport.engines.jail import network, syscalls


def main(arguments):
    root, idle, folder = arguments
    with open(os.path.join(folder, "world.json")) as file:
        world = json.load(file)
    trusted = world.pop("trusted")
    if trusted:  # whoever starts us gives us no environment of its own
        os.environ["SSL_CERT_FILE"] = trusted
    begun = daemon.begin([root, idle])
    if begun is None:
        return
    syscalls.call("unshare", 0x4000_0000)
    network.open_sockets().close()  # every address is here
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w") as file:
        file.write("0")
    import box_servers

    resolve = box_servers.start(folder, world)

    def asked(host, port):
        """Writes down what a resolver would be asked."""
        with open(os.path.join(folder, "asked"), "a") as file:
            file.write(f"{host}\n")
        return resolve(host, port)

    daemon.serve(*begun, asked)
