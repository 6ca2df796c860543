# {"expect": "EPERM", "limits": {}, "works": "0", "drivers": ["namespace"]}
# In gVisor root can do that, to a machine of its own.
import ctypes

from kit import call


def changed(pid):
    limit = (ctypes.c_ulong * 2)(8, 8)
    return call("prlimit64", pid, 7, limit, None)


def attack():
    return changed(1)


def control():
    return changed(0)
