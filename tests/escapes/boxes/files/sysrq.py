# {"expect": "ENOENT", "works": "read"}
from kit import read


def attack():
    with open("/proc/sysrq-trigger", "w") as file:
        file.write("h")
    return "written"


def control():
    return read("/proc/uptime")
