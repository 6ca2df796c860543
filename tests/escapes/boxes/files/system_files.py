# {"expect": "ENOENT", "outside": "read"}
# gVisor has a /sys of its own, with little in it.
from kit import read


def attack():
    return read("/sys/kernel/uevent_seqnum")
