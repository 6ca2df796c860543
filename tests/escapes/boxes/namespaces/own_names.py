# {"expect": "EPERM", "outside": "0"}
from kit import call


def attack():
    return call("unshare", 0x04000000)


def outside():
    call("unshare", 0x10000000)
    return attack()
