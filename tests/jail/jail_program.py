"""A host that runs a program in a jail; prints what the program saw and could do."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import tempfile
import time
import warnings
from typing import Any

from gloveport.engines.jail.command import spawn_jailed
from gloveport.errors import GloveportError

PROGRAM = r"""
import sys, os, _thread, json, _socket
shown, program = sys.argv[1:3]
seen = {"refused": []}
def attempt(name, action):
    try: action()
    except OSError: seen["refused"].append(name)
def write(path, data=b"x"):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT); n = os.write(fd, data); os.close(fd)
    if n != len(data): raise OSError("short")
def run(path, *arguments):
    pid = os.posix_spawn(path, [path, *arguments], {})
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]): raise OSError("failed")
def fork():
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
seen["readable"] = open(shown).read()
seen["environment"] = dict(os.environ); seen["environment"].pop("LC_CTYPE", None)
def is_open(fd):
    try: os.fstat(fd); return True
    except OSError: return False
seen["descriptors"] = [fd for fd in range(64) if is_open(fd)]
attempt("passwd", lambda: open("/etc/passwd"))
attempt("root", lambda: os.listdir("/"))
attempt("write", lambda: write(shown))
attempt("socket", lambda: _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM))
attempt("fork", fork)
attempt("program", lambda: run("/bin/true"))
attempt("loader", lambda: run("/lib64/ld-linux-x86-64.so.2", "/.scratch/none"))
attempt("proc", lambda: open("/proc/self/status"))
attempt("kill", lambda: os.kill(int(sys.argv[3]), 0))
try: write("/.scratch/a", b"kept"); seen["scratch"] = open("/.scratch/a").read()
except OSError: seen["scratch"] = None
attempt("grow", lambda: write("/.scratch/b", bytes(1 << 22)))
done = _thread.allocate_lock(); done.acquire(); _thread.start_new_thread(done.release, ()); done.acquire(); seen["thread"] = True
line = sys.stdin.readline().strip()
seen["echo"] = line
print(json.dumps(seen), flush=True)
sys.stdin.read()
os._exit(7)
"""


def main() -> dict[str, Any]:
    plan = json.loads(sys.argv[1])
    program = os.path.realpath("/usr/bin/python3")
    library = sysconfig.get_path("stdlib", vars={"installed_base": "/usr", "installed_platbase": "/usr"})
    library = "/usr/lib/python3.11" if not os.path.isdir(library) else library
    fd, shown = tempfile.mkstemp()
    os.write(fd, b"shown")
    os.fchmod(fd, 0o644)
    os.close(fd)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        process = spawn_jailed(
            [program, "-I", "-S", "-c", PROGRAM, shown, program, str(os.getpid())],
            readable=[library, shown],
            sandbox=plan["sandbox"],
            environment={"GREETING": "hi"},
            scratch_bytes=1 << 20,
        )
    if plan.get("stay"):
        print(json.dumps({"pid": process.pid}), flush=True)
        time.sleep(60)
    os.write(process.stdin, b"hello\n")
    text = b""
    while not text.endswith(b"\n"):
        more = os.read(process.stdout, 65536)
        assert more, process.wait(5)
        text += more
    os.close(process.stdin)
    process.stdin = -1
    seen = json.loads(text)
    seen["status"] = process.wait(5)
    seen["warnings"] = len(caught)
    process.close()
    os.unlink(shown)
    return seen


try:
    print(json.dumps(main()))
except GloveportError as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
