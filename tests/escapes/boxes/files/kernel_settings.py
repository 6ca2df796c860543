# {"expect": {"namespace": "EROFS", "gvisor/user": "EACCES", "gvisor/root": "EPERM"}, "works": "read"}
from kit import read


def attack():
    with open("/proc/sys/kernel/core_pattern", "w") as file:
        file.write("|/tmp/x")
    return "written"


def control():
    return read("/proc/sys/kernel/hostname")
