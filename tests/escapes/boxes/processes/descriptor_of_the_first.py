# {"expect": "EPERM", "works": "taken"}
import os

from kit import call


def taken(pid):
    os.close(call("pidfd_getfd", call("pidfd_open", pid, 0), 0, 0))
    return "taken"


def attack():
    return taken(1)


def control():
    return taken(os.getpid())
