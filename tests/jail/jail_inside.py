"""Runs in a process of its own: puts up a jail, as the first argument (JSON) says, and prints what is possible in it.

leave_out / only: layers; worker: whether the tested process hardens itself as a worker does; sabotage: a step that pretends to work
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

from gloveport.engines.jail import enter, filters, landlock, namespaces, seccomp, selftest, syscalls
from gloveport.engines.jail.layers import LAYERS
from gloveport.engines.jail.probes import Surroundings

NAMES = [layer.name for layer in LAYERS]


def sabotage(what: str) -> None:
    """Makes one step accept its work and not do it, as a kernel or a surrounding sandbox might."""
    if what == "unshare":
        honest = syscalls.attempt
        syscalls.attempt = lambda name, *a: 0 if name == "unshare" else honest(name, *a)
    elif what == "landlock":
        landlock.restrict = lambda rules=(), **options: 7
    elif what == "seccomp":
        seccomp.install = lambda program: None
    elif what == "root":
        namespaces.build_root = lambda *a: None
    elif what == "capabilities":
        honest_call = syscalls.call
        syscalls.call = lambda name, *a: 0 if name == "capset" else honest_call(name, *a)
    elif what == "no-new-privileges":
        honest_prctl = syscalls.call
        syscalls.call = lambda name, *a: 0 if name == "prctl" and a[0] == 38 else honest_prctl(name, *a)
    elif what == "limits":
        enter.resource.setrlimit = lambda which, limits: None


def main() -> None:
    plan: dict[str, Any] = json.loads(sys.argv[1])
    victim = os.getpid()
    leave_out = set(plan.get("leave_out", ()))
    if "only" in plan:
        leave_out = set(NAMES) - set(plan["only"])
    if plan.get("sabotage"):
        sabotage(plan["sabotage"])
    os.environ.clear()
    if plan.get("victim") == "unhidden":
        victim = os.getppid()
    entered = enter.enter(enter.WORKERS, keeper, seed=os.getpid(), leave_out=frozenset(leave_out))
    here, there = socket.socketpair()
    if fork(leave_out) == 0:
        here.close()
        keep = {0, 1, 2, there.fileno()}
        for fd in range(3, 64):
            if fd not in keep:
                syscalls.attempt("close", fd)
        program = filters.shared_worker() if plan.get("worker") == "shared" else filters.worker()
        if plan.get("worker"):
            enter.harden_child(
                program, with_landlock="landlock" not in leave_out, with_seccomp="seccomp" not in leave_out
            )
        aim = Surroundings(victim, there.fileno(), frozenset(keep))
        expected = selftest.SHARED if plan.get("worker") == "shared" else ()
        there.sendall(json.dumps(selftest.possible(aim, expected=expected)).encode())
        os._exit(0)
    there.close()
    text = b""
    while more := here.recv(65536):
        text += more
    os.write(1, json.dumps({"missing": [m.layer for m in entered.missing], "possible": json.loads(text)}).encode())
    os._exit(0)


def fork(leave_out: set[str]) -> int:
    return os.fork()


def keeper(pid: int) -> None:
    status = os.waitpid(pid, 0)[1]
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main()
