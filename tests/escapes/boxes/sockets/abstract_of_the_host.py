# {"expect": "ECONNREFUSED", "outside": "connected", "works": "connected"}
import socket

from kit import given


def reach(name):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect("\0" + name)
    return "connected"


def attack():
    return reach(given["abstract"])


def control():
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("\0mine")
        one.listen()
        return reach("mine")
