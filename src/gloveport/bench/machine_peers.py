"""Rows of `gloveport bench machines` that need other programs: bubblewrap, and `runsc` of gVisor by its own command line.

Where one is missing its row says so: `$GLOVEPORT_BWRAP` and `$GLOVEPORT_RUNSC` name them, else the PATH does.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

from ..host.machines.sync import Sandbox
from .report import Row, median_of

__all__ = ("HIBERNATE_SECONDS", "RATIOS", "peer_rows")

RATIOS: Final = {"command ÷ bwrap": 1.0, "command of gVisor ÷ runsc exec": 1.0}
"""Ours divided by the other program's, at most: who has a machine that is there need not make one."""
HIBERNATE_SECONDS: Final = 10.0
"""To write a machine of gVisor with 200 MB in memory to disk and start it from there, at most."""
FIRST_SECONDS: Final = 5.0
"""To make a machine of gVisor and run its first command, at most."""

_BWRAP: Final = (
    *("--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"),
    *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin"),
    *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),  # noqa: S108 (in the sandbox)
)
_HASH: Final = (
    "import hashlib, os, signal, sys; data = os.urandom(1 << 20) * 200\n"
    "print(hashlib.md5(data).hexdigest(), flush=True)\n"
    "signal.sigwait([signal.SIGUSR1]); print(hashlib.md5(data).hexdigest(), flush=True)"
)


def peer_rows(samples: int) -> list[Row]:
    """All of them."""
    rows = [_beside_bwrap(samples)]
    has = Sandbox.capabilities("gvisor")
    if has.isolation == "none":
        return [*rows, _missing(f"gVisor: {has.problem.partition(':')[0]}")]
    return [*rows, _beside_runsc(samples), _first(samples), _hibernate(max(1, samples // 3))]


def _missing(what: str) -> Row:
    return Row(name=f"(not measured: {what})", ours=0.0, unit="s")


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _compared(name: str, ours: float, theirs: float, peer: str) -> Row:
    ratio, bar = ours / theirs, RATIOS[name]
    return Row(name=name, ours=ours, unit="s", peer=peer, peer_value=theirs, ratio=ratio, bar=bar, ok=ratio <= bar)


def _beside_bwrap(samples: int) -> Row:
    program = shutil.which(os.environ.get("GLOVEPORT_BWRAP") or "bwrap")
    if program is None:
        return _missing("bubblewrap is not installed")
    command = (program, *_BWRAP, "/bin/true")
    try:
        _run(*command)
    except subprocess.CalledProcessError as error:
        return _missing(f"bubblewrap does not work here: {error.stderr.decode(errors='replace').strip()[:60]}")
    with Sandbox.create() as sandbox:
        ours, theirs = median_of(
            samples, lambda: _timed(lambda: sandbox.commands.run(["/bin/true"])), lambda: _timed(lambda: _run(*command))
        )
    return _compared("command ÷ bwrap", ours, theirs, "bwrap")


def _beside_runsc(samples: int) -> Row:
    with _container() as execute, Sandbox.create(driver="gvisor") as sandbox:
        ours, theirs = median_of(
            samples, lambda: _timed(lambda: sandbox.commands.run(["/bin/true"])), lambda: _timed(execute)
        )
    return _compared("command of gVisor ÷ runsc exec", ours, theirs, "runsc exec")


@contextlib.contextmanager
def _container() -> Generator[Callable[[], None]]:
    """One of `runsc` without us; what runs a command in it."""
    from ..machines.gvisor.runsc import find_runsc

    with tempfile.TemporaryDirectory(prefix="gloveport-bench-") as folder:
        root = Path(folder, "root")
        for name in ("usr", "proc", "dev"):
            (root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        bundle = {
            "ociVersion": "1.0.0",
            "root": {"path": str(root), "readonly": True},
            "process": {"user": {"uid": 0, "gid": 0}, "args": ["/bin/sleep", "3600"], "cwd": "/", "env": ["PATH=/usr/bin"]},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["bind", "ro"]},
            ],
            "linux": {"namespaces": [{"type": name} for name in ("pid", "mount", "uts", "ipc", "network")]},
        }
        Path(folder, "config.json").write_text(json.dumps(bundle))
        runsc = [find_runsc(), f"--root={folder}/state", "--platform=systrap", "--network=none", "--ignore-cgroups"]
        runsc += [] if os.geteuid() == 0 else ["--rootless"]
        with open(os.devnull, "r+b") as null:
            holder = subprocess.Popen(
                [*runsc, "run", f"--bundle={folder}", "bench"], stdin=null, stdout=null, stderr=null, cwd="/"
            )
            try:
                yield _executor([*runsc, "exec", "bench", "/bin/true"])
            finally:
                subprocess.run([*runsc, "kill", "bench", "KILL"], capture_output=True, check=False)
                holder.wait(30)
                subprocess.run([*runsc, "delete", "--force", "bench"], capture_output=True, check=False)


def _executor(command: list[str]) -> Callable[[], None]:
    """Once the container is there."""
    for _ in range(100):
        if not subprocess.run(command, capture_output=True, check=False).returncode:
            break
        time.sleep(0.1)
    return lambda: _run(*command)


def _first(samples: int) -> Row:
    def ours() -> float:
        began = time.perf_counter()
        sandbox = Sandbox.create(driver="gvisor")
        sandbox.commands.run(["/bin/true"])
        took = time.perf_counter() - began
        sandbox.kill()
        return took

    (took,) = median_of(samples, ours)
    name = "first command of a new machine of gVisor"
    return Row(name=name, ours=took, unit="s", bar=FIRST_SECONDS, ok=took <= FIRST_SECONDS)


def _hibernate(samples: int) -> Row:
    """Written to disk and back. Whether its memory is the same is looked at, and a row that is not fails."""
    with Sandbox.create(driver="gvisor", memory_mb=768) as sandbox:
        hoard = sandbox.commands.start(["python3", "-c", _HASH])
        output = hoard.output()
        before = next(iter(output))[1]
        (took,) = median_of(samples, lambda: _timed(lambda: (sandbox.pause(), sandbox.resume())))
        sandbox.commands.run(["kill", "-USR1", str(hoard.pid)])
        whole = hoard.wait(60).stdout.split() == [before.strip()] * 2
    name = "hibernate and resume with 200 MB, md5 intact"
    return Row(name=name, ours=took, unit="s", bar=HIBERNATE_SECONDS, ok=whole and took <= HIBERNATE_SECONDS)
