# {"expect": {"namespace": "EAFNOSUPPORT EAFNOSUPPORT", "gvisor": "EAFNOSUPPORT EAFNOSUPPORT"}, "works": "opened"}
# The cryptography of the kernel, and the way to the host of a virtual machine.
import socket

from kit import said


def opened(family, kind):
    socket.socket(family, kind).close()
    return "opened"


def attack():
    return " ".join(
        said(lambda f=f, k=k: opened(f, k)) for f, k in ((38, socket.SOCK_SEQPACKET), (40, socket.SOCK_STREAM))
    )


def control():
    return opened(socket.AF_UNIX, socket.SOCK_SEQPACKET)
