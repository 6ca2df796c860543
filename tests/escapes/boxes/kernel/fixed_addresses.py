# {"expect": {"namespace": "EPERM", "gvisor": "EINVAL"}, "outside": "0"}
from kit import call


def attack():
    call("personality", 0x0040000)
    return call("personality", 0xFFFFFFFF) & ~0x0040000
