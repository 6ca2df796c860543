# {"expect": "ENOSPC", "works": "made", "limits": {"memory_mb": 96}, "users": ["user"], "drivers": ["namespace"]}
import shutil
import tempfile


def made(count):
    folder = tempfile.mkdtemp(dir="/dev/shm")
    try:
        for number in range(count):
            open(f"{folder}/{number}", "w").close()
    finally:
        shutil.rmtree(folder)
    return "made"


def attack():
    return made(100_000)


def control():
    return made(100)
