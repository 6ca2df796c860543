# {"expect": {"namespace": "EACCES", "gvisor": "opened"}, "works": "opened"}
# gVisor has users of its own to give, for which the kernel of the host has no word.
import os


def attack():
    os.open("/proc/1/ns/mnt", os.O_RDONLY)
    return "opened"


def control():
    os.open("/proc/self/ns/mnt", os.O_RDONLY)
    return "opened"
