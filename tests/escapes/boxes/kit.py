"""Runs attacks, each in a process of its own: inside of a machine, and, as their control, outside. Needs nothing but Python.

`python3 kit.py CASES` reads `CASES` (JSON: `files`, the text of each case by name; `given`; `plan`, pairs of a case and a function of it)
and prints a line of JSON for each pair: `[name, function, what it said]`. What a case says is what its function returns, or the name of
the error of the system that it met.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import select
import signal
import sys
import time
import traceback

PATIENCE = 20.0
NUMBERS = {  # of x86_64 and aarch64
    "acct": (163, 89),
    "bpf": (321, 280),
    "capset": (126, 91),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsopen": (430, 430),
    "getpid": (39, 172),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
COLUMN = {"x86_64": 0, "aarch64": 1}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
given: dict[str, object] = {}
"""What an attacker knows of the host: names, places and numbers, as an insider would."""


def call(name, *arguments):
    """A system call, by name or number. Raises `OSError`."""
    number = NUMBERS[name][COLUMN] if isinstance(name, str) else name
    passed = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = libc.syscall(ctypes.c_long(number), *passed)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def child(seconds=10):
    """A process of the attacker's own that sleeps."""
    pid = os.fork()
    if pid == 0:
        time.sleep(seconds)
        os._exit(0)
    return pid


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def read(path):
    """`read`, `empty`, or the error."""
    with open(path, "rb") as file:
        return "read" if file.read(64) else "empty"


def said(function):
    try:
        return str(function())
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    except MemoryError:
        return "MemoryError"
    except BaseException:
        return "raised " + traceback.format_exc().strip()[-600:]


def run(function, patience):
    """What a function says, from a process and session of its own."""
    come, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.write(
                go, said(function).encode("utf-8", "replace")[:4000]
            )  # at once: what it left behind keeps the pipe open
        finally:
            os._exit(0)
    os.close(go)
    told = os.read(come, 4096) if select.select([come], [], [], patience)[0] else b"went on"
    os.close(come)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    _, status = os.waitpid(pid, 0)
    if not told and os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return told.decode("utf-8", "replace")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        asked = json.load(file)
    sys.modules["kit"] = sys.modules["__main__"]
    given.update(asked["given"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    for name, function in asked["plan"]:
        names = {}
        try:
            exec(compile(asked["files"][name], name, "exec"), names)
            told = run(names[function], PATIENCE)
        except Exception:
            told = "raised " + traceback.format_exc()
        print(json.dumps([name, function, told]), flush=True)


if __name__ == "__main__":
    main()
