# {"expect": "ENOSPC", "works": "made", "limits": {"open_files": 4096}, "users": ["user"], "other": "made", "drivers": ["namespace"]}
# The host has 4096 for everybody.
import os


def made(count):
    kept = [os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY) for _ in range(count)]
    return "made" if kept else "none"


def attack():
    return made(1000)


def control():
    return made(5)


def other():
    return made(5)
