# {"expect": "EMFILE", "works": "made", "limits": {"open_files": 128}, "users": ["user"]}
# Pipes, each of which may hold 64 KiB of the kernel's memory.
import os


def made(count):
    kept = [os.pipe() for _ in range(count)]
    return "made" if kept else "none"


def attack():
    return made(400)


def control():
    return made(5)
