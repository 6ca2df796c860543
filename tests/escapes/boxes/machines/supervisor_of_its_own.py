# {"expect": "ENOENT", "outside": "connected"}
import os
import socket

from kit import given


def attack():
    os.chdir(given["own"])
    with socket.socket(socket.AF_UNIX) as one:
        one.connect("ctl.sock")
    return "connected"
