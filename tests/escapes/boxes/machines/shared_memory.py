# {"expect": "there", "other": "ENOENT"}
import os


def attack():
    open(f"/dev/shm/mine-{os.getuid()}", "w").close()
    os.stat(f"/dev/shm/mine-{os.getuid()}")
    return "there"


def other():
    os.stat(f"/dev/shm/mine-{os.getuid()}")
    return "there"
