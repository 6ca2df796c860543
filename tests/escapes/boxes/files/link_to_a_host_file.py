# {"expect": "ENOENT", "outside": "read"}
import os
import tempfile

from kit import given, read


def attack():
    link = os.path.join(tempfile.mkdtemp(), "link")
    os.symlink(given["file"], link)
    return read(link)
