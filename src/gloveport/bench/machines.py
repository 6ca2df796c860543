"""`gloveport bench machines`: commands beside processes of the host, making machines, what idle ones take, and a pause; then other
ways to isolate a command (`machine_peers`)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Final

from ..host.machines.sync import Sandbox
from .machine_peers import peer_rows
from .report import Row, median_of

__all__ = ("BARS", "measure")

BARS: Final[Mapping[str, float]] = {
    "command": 2.0,
    "first command of a machine from a pool": 3.0,
    "first command of a new machine": 40.0,
    "file of 100 MB into a machine": 4.0,
    "fork with 300 MB of files": 3.0,
}
"""Ours divided by the host's own way, at most."""
IDLE_MIB: Final = 1.0
"""Of each idle machine (PSS of all of its processes), at most."""
FORK_SECONDS: Final = 0.06
"""To fork a machine with 300 MB of files, up to the child's being ready, at most."""
PAUSE_SECONDS: Final = 0.01
"""To pause and resume a machine that has 200 MB in memory, at most."""

_MEGABYTES = 100
_HOARD = "import time; keep = bytearray(200 << 20); keep[::4096] = b'x' * len(keep[::4096]); print('full', flush=True); time.sleep(600)"


def measure(*, quick: bool) -> list[Row]:
    """All rows."""
    samples = 9 if quick else 41
    with _state() as root:
        rows = [_command(samples), _pooled(samples), _cold(samples // 3 or 1), _file(3 if quick else 7)]
        rows += [_idle(root, 20 if quick else 50), _pause(samples // 3 or 1), *_fork(samples // 2 or 1)]
        return [*rows, *peer_rows(samples // 3 or 1)]


@contextlib.contextmanager
def _state() -> Generator[Path]:
    """A directory of its own: nothing of this is among the user's machines."""
    before = os.environ.get("GLOVEPORT_STATE")
    with tempfile.TemporaryDirectory(prefix="gloveport-bench-") as folder:
        os.environ["GLOVEPORT_STATE"] = str(Path(folder, "state"))
        try:
            Sandbox.create().kill()  # the image is made, and what the host gives is measured
            yield Path(folder, "state")
        finally:
            for info in Sandbox.list():
                Sandbox.kill_by_id(info.id)
            os.environ.pop("GLOVEPORT_STATE")
            if before is not None:
                os.environ["GLOVEPORT_STATE"] = before


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _host() -> float:
    return _timed(lambda: subprocess.run(["/bin/true"], check=True, capture_output=True))


def _row(name: str, ours: float, theirs: float, peer: str) -> Row:
    ratio = ours / theirs
    bar = BARS[name]
    return Row(name=name, ours=ours, unit="s", peer=peer, peer_value=theirs, ratio=ratio, bar=bar, ok=ratio <= bar)


def _command(samples: int) -> Row:
    with Sandbox.create() as sandbox:
        ours, theirs = median_of(samples, lambda: _timed(lambda: sandbox.commands.run(["/bin/true"])), _host)
    return _row("command", ours, theirs, "subprocess.run")


def _pooled(samples: int) -> Row:
    with Sandbox.pool(min(samples, 16)) as pool:

        def ours() -> float:
            began = time.perf_counter()
            sandbox = pool.create()
            sandbox.commands.run(["/bin/true"])
            took = time.perf_counter() - began
            sandbox.kill()
            pool.fill()
            return took

        mine, theirs = median_of(min(samples, 15), ours, _host)
    return _row("first command of a machine from a pool", mine, theirs, "subprocess.run")


def _cold(samples: int) -> Row:
    def ours() -> float:
        began = time.perf_counter()
        sandbox = Sandbox.create()
        sandbox.commands.run(["/bin/true"])
        took = time.perf_counter() - began
        sandbox.kill()
        return took

    mine, theirs = median_of(samples, ours, _host)
    return _row("first command of a new machine", mine, theirs, "subprocess.run")


def _file(samples: int) -> Row:
    data = os.urandom(1 << 20)

    def pieces() -> Generator[bytes]:
        for _ in range(_MEGABYTES):
            yield data

    def plain(path: str) -> None:
        with open(path, "wb") as file:
            for piece in pieces():
                file.write(piece)

    with Sandbox.create() as sandbox, tempfile.TemporaryDirectory() as folder:
        ours, theirs = median_of(
            samples,
            lambda: _timed(lambda: sandbox.files.write("/workspace/large", pieces())),
            lambda: _timed(lambda: plain(f"{folder}/large")),
        )
    return _row("file of 100 MB into a machine", ours, theirs, "open().write()")


def _idle(root: Path, count: int) -> Row:
    machines = [Sandbox.create() for _ in range(count)]
    try:
        for machine in machines:
            machine.commands.run(["/bin/true"])
        each = _memory(root) / count
    finally:
        for machine in machines:
            machine.kill()
    mebibytes = each / (1 << 20)
    return Row(
        name=f"memory of an idle machine, of {count}",
        ours=mebibytes,
        unit="MiB",
        bar=IDLE_MIB,
        ok=mebibytes <= IDLE_MIB,
    )


def _memory(root: Path) -> int:
    """PSS of all processes of machines of this directory: holders, supervisors, and their children."""
    parents, total = dict[int, int](), 0
    ours = set[int]()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(") ")[2].split()[1])
            if os.fsencode(root) in (entry / "cmdline").read_bytes():
                ours.add(int(entry.name))
    for pid in parents:
        if pid in ours or parents[pid] in ours:
            with contextlib.suppress(OSError):
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += int(rollup.partition("\nPss:")[2].split()[0]) * 1024
    return total


def _fork(samples: int) -> list[Row]:
    """Against a machine that has written next to nothing, and by itself."""

    def fork(sandbox: Sandbox) -> float:
        sandbox.files.write("/workspace/changed", os.urandom(16))
        began = time.perf_counter()
        (twin,) = sandbox.fork()
        took = time.perf_counter() - began
        twin.kill()
        return took

    with Sandbox.create() as small, Sandbox.create() as large:
        large.commands.run(f"head -c {300 * 1000 * 1000} /dev/urandom > /workspace/large")
        (first,) = large.fork()  # with all that is not yet on the disk
        first.kill()
        ours, theirs = median_of(samples, lambda: fork(large), lambda: fork(small))
    row = _row("fork with 300 MB of files", ours, theirs, "fork with 16 bytes of files")
    absolute = Row(name="fork", ours=ours, unit="s", bar=FORK_SECONDS, ok=ours <= FORK_SECONDS)
    return [row, absolute]


def _pause(samples: int) -> Row:
    with Sandbox.create(memory_mb=512) as sandbox:
        hoard = sandbox.commands.start(["python3", "-c", _HOARD])
        next(iter(hoard.output()))

        def both() -> float:
            return _timed(lambda: (sandbox.pause(), sandbox.resume()))

        (took,) = median_of(samples, both)
    return Row(
        name="pause and resume with 200 MB in memory", ours=took, unit="s", bar=PAUSE_SECONDS, ok=took <= PAUSE_SECONDS
    )
