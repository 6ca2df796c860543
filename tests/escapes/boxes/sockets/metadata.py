# {"expect": {"namespace": "ENETUNREACH", "gvisor": "EHOSTUNREACH"}, "works": "connected"}
import socket


def attack():
    socket.create_connection(("169.254.169.254", 80), 5).close()
    return "connected"


def control():
    with socket.create_server(("127.0.0.1", 0)) as one:
        socket.create_connection(one.getsockname(), 5).close()
    return "connected"
