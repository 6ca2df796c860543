# {"expect": {"user": "EPERM", "root": "sent", "gvisor/root": "gone ended", "gvisor/user": "EPERM", "namespace/ordinary": "sent"}, "limits": {}, "works": "SIGKILL"}
# In gVisor it ends the attacker's own machine.
# Root may ask; the kernel does not kill the first process for it, and the machine goes on.
import os
import signal

from kit import child


def attack():
    os.kill(1, signal.SIGKILL)
    os.kill(1, signal.SIGSTOP)
    return "sent"


def control():
    pid = child()
    os.kill(pid, signal.SIGKILL)
    return signal.Signals(os.waitpid(pid, 0)[1]).name
