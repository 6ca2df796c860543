# {"expect": {"namespace": "EPERM EPERM", "gvisor": "ENOTTY ENOTTY"}, "works": "resized"}
# TIOCSTI and TIOCLINUX, at a terminal of its own, also with bits above those that the kernel looks at.
import fcntl
import os
import struct
import termios

from kit import call, said


def terminal():
    _, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    return slave


def attack():
    slave = terminal()
    return " ".join(said(lambda n=n: call("ioctl", slave, n, b"x")) for n in (0x5412, 0x5412 | 0xDEAD << 32))


def control():
    slave = terminal()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 6, 0, 0))
    return "resized" if os.get_terminal_size(slave) == (6, 5) else "not resized"
