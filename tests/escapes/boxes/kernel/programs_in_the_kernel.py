# {"expect": "EPERM", "outside": "E2BIG"}
# bpf(2) with a size that is too large: whoever gets as far as that may ask.
import ctypes

from kit import call


def attack():
    return call("bpf", 0, ctypes.create_string_buffer(b"x" * 4096, 5000), 5000)
