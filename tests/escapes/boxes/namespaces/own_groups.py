# {"expect": {"namespace": "EPERM", "gvisor": "0"}, "outside": "0"}
# gVisor has users of its own to give, for which the kernel of the host has no word.
from kit import call


def attack():
    return call("unshare", 0x02000000)


def outside():
    call("unshare", 0x10000000)
    return attack()
