# {"expect": {"namespace": "EPERM", "gvisor": "ENXIO"}, "outside": "made", "as": "root"}
# In gVisor a name for it can be made, and leads to nothing.
import os
import stat
import tempfile

from kit import read


def made():
    path = os.path.join(tempfile.mkdtemp(), "device")
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 1))
    return path


def attack():
    return read(made())


def outside():
    os.unlink(made())
    return "made"
