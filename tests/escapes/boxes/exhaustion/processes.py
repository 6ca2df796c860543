# {"expect": "EAGAIN", "works": "made", "limits": {"pids": 40}, "users": ["user"]}
import os
import time


def made(count):
    for _ in range(count):
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
    return "made"


def attack():
    return made(400)


def control():
    return made(5)
