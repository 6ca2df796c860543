# {"expect": "can't start new thread", "works": "made", "limits": {"pids": 40}, "users": ["user"]}
import threading
import time


def made(count):
    try:
        for _ in range(count):
            threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
    except RuntimeError as error:
        return error
    return "made"


def attack():
    return made(400)


def control():
    return made(5)
