# {"expect": {"namespace": "limit memory", "gvisor": "gone memory"}, "works": "written", "limits": {"memory_mb": 96}, "users": ["user"], "needs": "memory"}
# Of memory files, which no process has mapped.
import os


def written(megabytes):
    for _ in range(megabytes // 8):
        one = os.memfd_create("bomb")
        for _ in range(8):
            os.write(one, b"x" * (1 << 20))
    return "written"


def attack():
    return written(480)


def control():
    return written(16)
