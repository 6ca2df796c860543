# {"expect": {"namespace": "empty empty empty", "gvisor": "ENOENT ENOENT ENOENT"}, "works": "read"}
from kit import read, said


def attack():
    return " ".join(said(lambda path=path: read(path)) for path in ("/proc/kallsyms", "/proc/keys", "/proc/timer_list"))


def control():
    return read("/proc/self/status")
