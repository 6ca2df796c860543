# {"expect": "EPERM", "outside": "0"}
# MS_REMOUNT | MS_BIND without MS_RDONLY, of what is bound read-only; its control is of a mount of its own.
from kit import call


def attack():
    return call("mount", None, b"/usr", None, 32 | 4096, None)


def outside():
    call("unshare", 0x10000000 | 0x00020000)
    call("mount", b"none", b"/tmp", b"tmpfs", 1, None)
    return call("mount", None, b"/tmp", None, 32 | 4096, None)
