# {"expect": {"namespace": "ENETUNREACH", "gvisor": "EHOSTUNREACH"}, "works": "1"}
import socket


def sent(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        return one.sendto(b"x", (address, 53))


def attack():
    return sent("9.9.9.9")


def control():
    return sent("127.0.0.1")
