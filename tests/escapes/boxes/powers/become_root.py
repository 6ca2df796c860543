# {"expect": {"namespace": "EPERM", "namespace/ordinary": "EINVAL", "gvisor": "EPERM"}, "users": ["user"], "works": "None"}
import os


def attack():
    return os.setuid(0)


def control():
    return os.setuid(os.getuid())
