# {"expect": "EACCES", "works": "read"}
from kit import read


def attack():
    return read("/proc/1/maps")


def control():
    return read("/proc/self/maps")
