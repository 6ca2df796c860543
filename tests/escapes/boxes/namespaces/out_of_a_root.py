# {"expect": {"user": "EPERM", "root": "ENOENT"}, "outside": "read", "as": "root"}
# The classic: a directory that is open stays above the new root. Its control is in a root that has something above it.
import os
import tempfile

from kit import given, read


def attack():
    above = os.open("/", os.O_RDONLY)
    folder = tempfile.mkdtemp()
    os.mkdir(folder + "/tmp")
    os.chroot(folder)
    tempfile.tempdir = "/tmp"
    os.fchdir(above)
    for _ in range(40):
        os.chdir("..")
    os.chroot(".")
    return read(given["file"])


def outside():
    folder = tempfile.mkdtemp()
    os.mkdir(folder + "/tmp")
    os.chroot(folder)
    tempfile.tempdir = "/tmp"
    return attack()
