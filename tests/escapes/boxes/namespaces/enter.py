# {"expect": "EPERM", "outside": "0"}
import os

from kit import call


def attack():
    return call("setns", os.open("/proc/self/ns/uts", os.O_RDONLY), 0)


def outside():
    call("unshare", 0x10000000 | 0x04000000)
    return attack()
