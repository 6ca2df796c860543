# {"expect": "EPERM", "works": "works"}
# With a command that no kernel knows.
import os

from kit import call


def attack():
    return call("reboot", 0xFEE1DEAD - (1 << 32), 672274793, 0x7FFFFFF, None)


def control():
    return "works" if os.sysconf("SC_NPROCESSORS_ONLN") else "fails"
