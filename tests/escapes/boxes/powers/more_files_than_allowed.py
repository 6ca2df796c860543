# {"expect": "EPERM", "works": "0"}
import ctypes

from kit import call


def attack():
    return call("prlimit64", 0, 7, (ctypes.c_ulong * 2)(1 << 19, 1 << 19), None)


def control():
    return call("prlimit64", 0, 7, (ctypes.c_ulong * 2)(100, 100), None)
