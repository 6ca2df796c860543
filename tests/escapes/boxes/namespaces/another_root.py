# {"expect": "EPERM", "outside": "EINVAL"}
# Outside, it may, and is told that the places are wrong.
from kit import call


def attack():
    return call("pivot_root", b"/tmp", b"/tmp")


def outside():
    call("unshare", 0x10000000 | 0x00020000)
    return attack()
