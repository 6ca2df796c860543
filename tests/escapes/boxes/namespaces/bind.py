# {"expect": "EPERM", "outside": "0"}
from kit import call


def attack():
    return call("mount", b"/proc/1/root", b"/tmp", None, 4096, None)


def outside():
    call("unshare", 0x10000000 | 0x00020000)
    return call("mount", b"/usr", b"/tmp", None, 4096 | 16384, None)
