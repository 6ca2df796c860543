# {"expect": "EPERM", "outside": "0", "drivers": ["namespace"]}
from kit import call


def attack():
    return call("umount2", b"/proc/sys", 2)


def outside():
    call("unshare", 0x10000000 | 0x00020000)
    call("mount", b"none", b"/tmp", b"tmpfs", 1, None)
    return call("umount2", b"/tmp", 2)
