# {"expect": {"namespace": "EINVAL", "gvisor": "EINVAL"}, "works": "1"}
from kit import call


def attack():
    return call("prctl", 38, 0, 0, 0, 0)


def control():
    return call("prctl", 39, 0, 0, 0, 0)
