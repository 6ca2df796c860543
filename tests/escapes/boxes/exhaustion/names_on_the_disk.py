# {"expect": "limit disk", "works": "made", "limits": {"disk_mb": 32}, "users": ["user"], "drivers": ["namespace"]}
# Empty files take no block, and yet something of which the host has only so many.
import os
import time


def made(count):
    os.makedirs("/workspace/many", exist_ok=True)
    for number in range(count):
        open(f"/workspace/many/{number}", "w").close()
        if number % 5000 == 4999:
            time.sleep(0.5)
    return "made"


def attack():
    return made(60_000)


def control():
    return made(100)
