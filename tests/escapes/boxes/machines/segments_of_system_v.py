# {"expect": "there", "other": "ENOENT", "drivers": ["namespace", "gvisor"]}
from kit import call


def attack():
    call("shmget", 0x6C0E, 4096, 0o1666)
    call("shmget", 0x6C0E, 4096, 0)
    return "there"


def other():
    call("shmget", 0x6C0E, 4096, 0)
    return "there"
