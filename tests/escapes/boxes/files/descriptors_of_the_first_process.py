# {"expect": {"namespace": "EACCES", "gvisor": "listed"}, "works": "listed"}
# In gVisor it is a process of the sentry's, as everything is that it can see.
import os


def attack():
    os.listdir("/proc/1/fd")
    return "listed"


def control():
    os.listdir("/proc/self/fd")
    return "listed"
