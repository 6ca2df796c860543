# {"expect": "EACCES", "works": "listed"}
import os


def attack():
    os.listdir("/proc/1/fd")
    return "listed"


def control():
    os.listdir("/proc/self/fd")
    return "listed"
