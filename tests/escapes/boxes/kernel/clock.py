# {"expect": "EPERM", "works": "works"}
import ctypes
import time

from kit import call


def attack():
    now = (ctypes.c_long * 2)(int(time.time()), 0)
    return call("clock_settime", 0, now)


def control():
    return "works" if time.clock_gettime(time.CLOCK_REALTIME) > 0 else "fails"
