# {"expect": "ENOENT", "outside": "listed"}
import os


def attack():
    os.listdir("/sys/kernel")
    return "listed"
