# {"expect": {"namespace": "EAFNOSUPPORT", "gvisor": "EPROTONOSUPPORT"}, "outside": "opened", "works": "opened"}
# Netlink: only of routes; here netfilter.
import socket


def attack():
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).close()
    return "opened"


def control():
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
    return "opened"
