# {"expect": {"namespace": "EACCES", "gvisor": "EACCES"}, "works": "read"}
from kit import given, read


def attack():
    return read("/proc/1/root" + given["file"])


def control():
    return read("/proc/self/root/etc/passwd")
