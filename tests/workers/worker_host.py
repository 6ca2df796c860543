"""A host with workers idle, spinning, shared and spare. Prints the processes it made, then waits to be killed.

With `fork`, a copy of it is forked that holds every socket and lives on; `raw` forks behind Python's back, so that no hook runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time

from fake_guest import GUESTS
from worker_frames import Line, descendants, frame

from gloveport.engines.wasm.pool import WorkerPool

plan = json.loads(sys.argv[1])
pool = WorkerPool(guests=GUESTS, sandbox=plan.get("sandbox", "require"))
idle = Line(pool.take())
assert idle.step(b"x").output == b"x"
spinning = Line(pool.take())
spinning.worker.sock.sendall(frame("S", b"spin"))
shared = Line(pool.open_shared("group"))
assert shared.step(b"x").output == b"x"
for _ in range(3):
    pool.take()  # dropped at once
time.sleep(0.1)
made = descendants(os.getpid())
copy = 0
if plan.get("fork"):
    copy = ctypes.CDLL(None).fork() if plan["fork"] == "raw" else os.fork()
    if copy == 0:
        os.close(1)
        time.sleep(30)
        os._exit(0)
print(json.dumps({"processes": sorted(made), "copy": copy}), flush=True)
if plan.get("end") == "exit":
    sys.stdin.readline()
    sys.exit(0)
sys.stdin.readline()
time.sleep(30)
