# {"expect": "ECONNREFUSED", "outside": "connected", "works": "connected"}
import socket

from kit import given


def attack():
    socket.create_connection(("127.0.0.1", given["port"]), 5).close()
    return "connected"


def control():
    with socket.create_server(("127.0.0.1", 0)) as one:
        socket.create_connection(one.getsockname(), 5).close()
    return "connected"
