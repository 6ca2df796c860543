# {"expect": "EPERM", "works": "0"}
import ctypes

from kit import call


def asked(value):
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    body = (ctypes.c_uint32 * 6)(value, value, 0, value >> 32, value >> 32, 0)
    return call("capset", head, body)


def attack():
    return asked(1 << 21)  # CAP_SYS_ADMIN


def control():
    return asked(0)
