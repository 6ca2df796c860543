# {"expect": {"namespace": "", "gvisor": "fuse net/tun"}, "works": "null"}
# Those that gVisor shows are its own.
import os


def found(*names):
    return " ".join(name for name in names if os.path.exists("/dev/" + name))


def attack():
    return found(
        "mem",
        "kmem",
        "port",
        "kmsg",
        "vda",
        "sda",
        "nvme0n1",
        "loop0",
        "loop-control",
        "fuse",
        "kvm",
        "vsock",
        "net/tun",
    )


def control():
    return found("null")
