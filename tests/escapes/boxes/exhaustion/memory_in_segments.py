# {"expect": "limit memory", "works": "written", "limits": {"memory_mb": 96}, "users": ["user"], "drivers": ["namespace"]}
# Of System V, which outlives whoever made it.
import ctypes

from kit import call


def written(megabytes):
    for number in range(megabytes // 8):
        place = call("shmat", call("shmget", 77 + number, 8 << 20, 0o1600), None, 0)
        ctypes.memset(place, 1, 8 << 20)
    return "written"


def attack():
    return written(480)


def control():
    return written(16)
