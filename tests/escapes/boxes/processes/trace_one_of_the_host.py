# {"expect": "ESRCH", "works": "traced"}
from kit import call, child, end, given


def attack():
    call("ptrace", 16, given["pid"], 0, 0)
    return "traced"


def control():
    pid = child()
    try:
        call("ptrace", 16, pid, 0, 0)
    finally:
        end(pid)
    return "traced"
