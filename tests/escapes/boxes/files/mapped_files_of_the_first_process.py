# {"expect": {"namespace": "EACCES", "gvisor": "read"}, "works": "read"}
# In gVisor it is a process of the sentry's, as everything is that it can see.
from kit import read


def attack():
    return read("/proc/1/maps")


def control():
    return read("/proc/self/maps")
