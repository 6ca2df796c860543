# {"expect": "EPERM", "outside": "0"}
from kit import call


def attack():
    return call("mount", b"none", b"/tmp", b"tmpfs", 0, None)


def outside():
    call("unshare", 0x10000000 | 0x00020000)
    return attack()
