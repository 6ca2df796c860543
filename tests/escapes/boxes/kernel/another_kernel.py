# {"expect": {"namespace": "EPERM", "gvisor": "EPERM"}, "outside": ["EINVAL", "ENOSYS"], "as": "root"}
# Too many segments: nothing is loaded wherever it may be asked.
from kit import call


def attack():
    return call("kexec_load", 0, 1000, None, 0x7FFF0000)
