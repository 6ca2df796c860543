# {"expect": "EXDEV", "users": ["root"], "works": "linked"}
import os
import tempfile


def attack():
    os.link("/usr/bin/env", os.path.join(tempfile.mkdtemp(), "env"))
    return "linked"


def control():
    folder = tempfile.mkdtemp()
    open(folder + "/one", "w").close()
    os.link(folder + "/one", folder + "/two")
    return "linked"
