# {"expect": "EPERM", "outside": "made", "as": "root"}
import os
import stat
import tempfile


def attack():
    path = os.path.join(tempfile.mkdtemp(), "memory")
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 1))
    os.unlink(path)
    return "made"
