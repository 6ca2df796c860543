# {"expect": "EPERM", "works": "traced"}
from kit import call, child, end


def attack():
    call("ptrace", 0x4206, 1, 0, 0)
    return "traced"


def control():
    pid = child()
    try:
        call("ptrace", 0x4206, pid, 0, 0)
    finally:
        end(pid)
    return "traced"
