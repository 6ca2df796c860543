# {"expect": "EACCES", "works": "opened"}
import os


def attack():
    os.open("/proc/1/ns/mnt", os.O_RDONLY)
    return "opened"


def control():
    os.open("/proc/self/ns/mnt", os.O_RDONLY)
    return "opened"
