# {"expect": "gone memory", "works": "written", "limits": {"memory_mb": 128}, "users": ["user"], "drivers": ["gvisor"], "needs": "memory"}
# Files of a machine of gVisor are in its memory, and counted there.


def written(megabytes):
    with open("/workspace/f", "wb") as file:
        for _ in range(megabytes):
            file.write(b"x" * (1 << 20))
    return "written"


def attack():
    return written(480)


def control():
    return written(8)
