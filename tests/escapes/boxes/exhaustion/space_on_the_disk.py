# {"expect": "limit disk", "works": "written", "limits": {"disk_mb": 48}, "users": ["user"], "drivers": ["namespace"]}
import time


def written(megabytes):
    for number in range(megabytes // 4):
        with open(f"/workspace/f{number}", "wb") as file:
            file.write(b"x" * (4 << 20))
        time.sleep(0.05)
    return "written"


def attack():
    return written(800)


def control():
    return written(8)
