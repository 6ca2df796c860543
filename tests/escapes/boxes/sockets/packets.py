# {"expect": {"namespace": "EAFNOSUPPORT", "gvisor": "EPERM"}, "outside": "opened"}
import socket

from kit import call


def attack():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    return "opened"


def outside():
    call("unshare", 0x10000000 | 0x40000000)
    return attack()
