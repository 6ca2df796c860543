# {"expect": "none", "works": "found"}
import os
import socket
import tempfile

from kit import given


def attack():
    with open("/proc/net/unix") as file:
        return "found" if given["state"] in file.read() else "none"


def control():
    path = os.path.join(tempfile.mkdtemp(), "own.sock")
    with socket.socket(socket.AF_UNIX) as one, open("/proc/net/unix") as file:
        one.bind(path)
        one.listen()
        return "found" if path in file.read() else "none"
