# {"expect": "EPERM", "works": "8"}
import ctypes
import os

from kit import call


def taken(pid):
    source, target = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
    far = (ctypes.c_void_p * 2)(ctypes.addressof(source), 8)
    near = (ctypes.c_void_p * 2)(ctypes.addressof(target), 8)
    return call("process_vm_readv", pid, near, 1, far, 1, 0)


def attack():
    return taken(1)


def control():
    return taken(os.getpid())
