# {"expect": {"namespace": "EPERM ENOENT", "gvisor": "EPERM ENOENT", "gvisor/user": "EPERM EACCES", "gvisor/root": "EPERM EPERM"}, "works": "read"}
from kit import call, read, said


def written():
    with open("/sys/fs/cgroup/cgroup.procs", "w") as file:
        file.write("0")


def attack():
    return " ".join((said(lambda: call("mount", b"none", b"/tmp", b"cgroup2", 0, None)), said(written)))


def control():
    return read("/proc/self/stat")
