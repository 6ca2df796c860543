# {"expect": {"namespace": "ENOENT", "gvisor/user": "EACCES", "gvisor/root": "EIO"}, "works": "read"}
from kit import read


def attack():
    with open("/proc/sysrq-trigger", "w") as file:
        file.write("h")
    return "written"


def control():
    return read("/proc/uptime")
