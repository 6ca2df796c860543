# {"expect": {"namespace": "EPERM", "gvisor": "ENOSYS"}, "outside": "EINVAL", "as": "root"}
# Flags that no kernel knows: who may ask at all is told so.
from kit import call


def attack():
    return call("userfaultfd", 0x40000000)
