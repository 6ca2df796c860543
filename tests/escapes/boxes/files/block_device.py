# {"expect": "EPERM", "outside": "made", "as": "root", "works": "made"}
import os
import stat
import tempfile

from kit import given


def attack():
    path = os.path.join(tempfile.mkdtemp(), "disk")
    os.mknod(path, stat.S_IFBLK | 0o600, given["disk"])
    os.unlink(path)
    return "made"


def control():
    os.mkfifo(os.path.join(tempfile.mkdtemp(), "pipe"))
    return "made"
