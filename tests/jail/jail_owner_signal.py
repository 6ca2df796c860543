"""In a jail: one child tries to kill its sibling by making it the owner of a socket's signals. Prints whether it could."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import time

from jail_inside import keeper

from gloveport.engines.jail import enter, filters

how = json.loads(sys.argv[1])["hardening"]
# The zygote's own filter would refuse the attack as well: leave it out, so that only the workers' hardening is in the way.
entered = enter.enter(enter.WORKERS, keeper, seed=os.getpid(), leave_out=frozenset({"seccomp", "landlock"}))
libc = ctypes.CDLL(None)


def harden() -> None:
    enter.harden_child(filters.worker(), with_landlock=how == "landlock", with_seccomp=how == "seccomp")


victim = os.fork()
if victim == 0:
    harden()
    time.sleep(30)
    os._exit(0)
mine, peer = socket.socketpair()
attacker = os.fork()
if attacker == 0:
    harden()
    libc.fcntl(mine.fileno(), 8, victim)  # F_SETOWN
    libc.fcntl(mine.fileno(), 10, 9)  # F_SETSIG: SIGKILL
    libc.fcntl(mine.fileno(), 4, 0x2000)  # F_SETFL: O_ASYNC
    peer.send(b"x")
    os._exit(0)
os.waitpid(attacker, 0)
time.sleep(0.05)
gone, _ = os.waitpid(victim, os.WNOHANG)
os.write(1, json.dumps({"killed": gone == victim, "missing": [m.layer for m in entered.missing]}).encode())
os._exit(0)
