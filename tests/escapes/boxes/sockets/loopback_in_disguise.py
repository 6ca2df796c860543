# {"expect": {"namespace": "ECONNREFUSED", "gvisor": "ECONNREFUSED"}, "outside": "connected"}
import socket

from kit import given


def attack():
    with socket.socket(socket.AF_INET6) as one:
        one.connect(("::ffff:127.0.0.1", given["port"]))
    return "connected"
