# {"expect": "ENOENT", "outside": "listed"}
import os

from kit import given


def attack():
    os.listdir(given["other"])
    return "listed"
