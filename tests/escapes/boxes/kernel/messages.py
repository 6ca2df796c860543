# {"expect": {"namespace": "EPERM", "gvisor": "none"}, "outside": "found", "as": "root"}
# gVisor has a kernel of its own, with messages of its own.
import ctypes

from kit import call


def attack():
    buffer = ctypes.create_string_buffer(1 << 20)
    size = call("syslog", 3, buffer, len(buffer))
    return "found" if b"Linux version" in buffer.raw[:size] or size > 20000 else "none"
