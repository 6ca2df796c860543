# {"expect": {"namespace": "EPERM", "gvisor": "ENXIO"}, "outside": "made", "as": "root", "works": "made"}
# In gVisor a name for it can be made, and leads to nothing.
import os
import stat
import tempfile

from kit import given, read


def made():
    path = os.path.join(tempfile.mkdtemp(), "device")
    os.mknod(path, stat.S_IFBLK | 0o600, given["disk"])
    return path


def attack():
    return read(made())


def outside():
    os.unlink(made())
    return "made"


def control():
    os.mkfifo(os.path.join(tempfile.mkdtemp(), "pipe"))
    return "made"
