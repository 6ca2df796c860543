# {"expect": "ENOENT", "outside": "connected"}
import socket

from kit import given


def attack():
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(given["socket"])
    return "connected"
