# {"expect": {"namespace": "ENOSYS", "gvisor": "ENOSYS"}, "works": "works", "machine": "x86_64"}
# x32: the same calls by other numbers.
from kit import call


def attack():
    call(0x40000000 | 272, 0x10000000)
    return "works"


def control():
    return "works" if call("getpid") > 0 else "fails"
