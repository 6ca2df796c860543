# {"expect": "EPERM", "outside": "opened", "works": "opened"}
import socket

from kit import call


def attack():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return "opened"


def control():
    socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
    return "opened"


def outside():
    call("unshare", 0x10000000 | 0x40000000)
    return attack()
