# {"expect": "EPERM", "works": "0"}
# A dump goes where the host says, as the host.
import ctypes

from kit import call


def attack():
    return call("prlimit64", 0, 4, (ctypes.c_ulong * 2)(1 << 20, 1 << 20), None)


def control():
    return call("prlimit64", 0, 4, (ctypes.c_ulong * 2)(0, 0), None)
