# {"expect": {"namespace": "ENOSYS", "gvisor": "made"}, "outside": "made"}
# gVisor has users of its own to give, for which the kernel of the host has no word.
# Its flags are in memory, where no filter looks.
import ctypes
import os

from kit import call


def attack():
    arguments = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0)
    pid = call("clone3", arguments, 64)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "made"
