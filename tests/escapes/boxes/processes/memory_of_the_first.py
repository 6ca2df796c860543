# {"expect": "EACCES", "works": "opened"}
import os


def attack():
    os.open("/proc/1/mem", os.O_RDONLY)
    return "opened"


def control():
    os.open("/proc/self/mem", os.O_RDONLY)
    return "opened"
