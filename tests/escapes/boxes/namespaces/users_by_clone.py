# {"expect": {"namespace": "EPERM", "gvisor": "made"}, "outside": "made"}
# gVisor has users of its own to give, for which the kernel of the host has no word.
import os

from kit import call


def attack():
    pid = call("clone", 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "made"
