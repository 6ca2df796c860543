# {"expect": "no answer", "works": "SIGKILL", "limits": {}, "users": ["root"]}
# All that root may: whoever tells of it dies as well, and the machine goes on.
import os
import signal

from kit import child


def attack():
    os.kill(-1, signal.SIGKILL)
    return "sent"


def control():
    pid = child()
    os.kill(pid, signal.SIGKILL)
    return signal.Signals(os.waitpid(pid, 0)[1]).name
