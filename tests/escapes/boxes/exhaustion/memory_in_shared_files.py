# {"expect": "ENOSPC", "works": "written", "limits": {"memory_mb": 96}, "users": ["user"]}
import os


def written(megabytes):
    try:
        with open("/dev/shm/bomb", "wb", 0) as file:
            for _ in range(megabytes):
                file.write(b"x" * (1 << 20))
    finally:
        os.unlink("/dev/shm/bomb")
    return "written"


def attack():
    return written(480)


def control():
    return written(8)
