# {"expect": {"namespace": "EPERM", "gvisor": "ENOSYS"}, "outside": "EFAULT"}
from kit import call


def attack():
    return call("io_uring_setup", 1, None)
