# {"expect": "EPERM", "works": "taken", "drivers": ["namespace"]}
# gVisor knows no such call.
import os

from kit import call


def taken(pid):
    os.close(call("pidfd_getfd", call("pidfd_open", pid, 0), 0, 0))
    return "taken"


def attack():
    return taken(1)


def control():
    return taken(os.getpid())
