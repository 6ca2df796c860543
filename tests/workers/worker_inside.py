"""A host that asks one worker what it can do; prints the answers."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

from fake_guest import GUESTS
from worker_frames import Line

from gloveport.engines.wasm.pool import WorkerPool
from gloveport.errors import GloveportError

ATTEMPTS = {
    "environment": "import os\nresult = bool(os.environ)",
    "file": "open('/etc/passwd')",
    "socket": "import _socket\n_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)",
    "thread": "import _thread\n_thread.start_new_thread(len, ('',))",
    "fork": "import os\nif os.fork() == 0: os._exit(0)",
    "limits": (
        "import resource as r\nresult = [r.getrlimit(x) for x in (r.RLIMIT_CORE, r.RLIMIT_FSIZE, r.RLIMIT_MEMLOCK, r.RLIMIT_MSGQUEUE)]"
    ),
    "shared memory": "import mmap\nmmap.mmap(-1, 1 << 20)",
}


def main() -> dict[str, Any]:
    plan = json.loads(sys.argv[1])
    os.environ["XDG_CACHE_HOME"] = "/nonexistent/secret-in-the-environment"
    warnings.simplefilter("ignore")
    if plan.get("closed"):
        os.close(0)
        os.close(2)
    with WorkerPool(guests=GUESTS, sandbox=plan["sandbox"]) as pool, Line(pool.take()) as line:
        seen: dict[str, Any] = {name: line.python(code) for name, code in ATTEMPTS.items()}
        if plan["sandbox"] != "off":
            seen["exec"] = line.python("import os\nos.execv('/bin/true', ['true'])")
        seen["uid"] = os.stat(f"/proc/{line.worker.pid}").st_uid or _uid(line.worker.pid)
        seen["secret"] = _holds(line.worker.pid, b"secret-in-the-environment")
        seen["answer"] = line.step(b"still here").output.decode()
        return seen


def _uid(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return next(int(text.split()[1]) for text in status if text.startswith("Uid:"))


def _holds(pid: int, secret: bytes) -> bool | None:
    """Whether the environment block on the worker's stack still has the secret."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return secret in environment.read()
    except PermissionError:
        return False


try:
    print(json.dumps(main()))
except GloveportError as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
