# {"expect": {"namespace": "EPERM", "gvisor": "ENOTTY"}, "outside": "set"}
import fcntl
import socket
import struct

from kit import call


def attack():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        wanted = struct.pack("16sH2s4s8s", b"lo", socket.AF_INET, b"", socket.inet_aton("192.0.2.1"), b"")
        fcntl.ioctl(one, 0x8916, wanted)
    return "set"


def outside():
    call("unshare", 0x10000000 | 0x40000000)
    return attack()
