# {"expect": "EACCES", "works": "listed"}
import os


def attack():
    os.listdir("/proc/1/cwd/")
    return "listed"


def control():
    os.listdir("/proc/self/cwd/")
    return "listed"
