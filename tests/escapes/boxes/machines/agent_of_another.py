# {"expect": "ENOENT", "outside": "connected"}
import os
import socket

from kit import given


def attack():
    os.chdir(given["other"])
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(given["agent"])
    return "connected"
