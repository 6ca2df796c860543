# {"expect": {"namespace": "EPERM", "gvisor": "ENODEV"}, "outside": "EFAULT"}
from kit import call


def attack():
    return call("perf_event_open", None, 0, -1, -1, 0)
