"""The driver `gvisor`. See `Driver`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from ...errors import SandboxError, UnreachableError
from ..driver import Capabilities, Pushed
from ..namespace.cgroups import make_groups, remove_groups
from ..namespace.driver import NamespaceDriver, program
from ..spec import MIB, BoxSpec
from ..state import Seen, lock_held
from .bundle import NET, config
from .network import PORT, SOCKET, proxy_environment
from .roots import merged
from .runsc import MEMORY, find_runsc, write_bundle

__all__ = ("GvisorDriver",)

_START_SECONDS: Final = 120.0
_SENTRY_MB: Final = 192
"""What gVisor's own processes take beside the machine (20240729: 60 to 90 MiB, and more while it is written down)."""
_USERS: Final = ("/workspace", "/home/user")
"""Folders of the machine's user. All files of an ordinary user's images are that user's, which is the machine's root."""
_LIMIT_FILES: Final = {"memory": ("memory.limit_in_bytes", "memory.max"), "cpu": ("cpu.cfs_quota_us", "cpu.max")}


class GvisorDriver(NamespaceDriver):
    """A process of ours beside each machine speaks what the supervisor of the other driver speaks: most of that driver holds here.

    Paused is written to disk, memory and files, and survives the host's restart.
    """

    name = "gvisor"

    def probe(self, root: Path) -> Capabilities:
        """What it gives here, found in a small machine; kept until the host is started again."""
        from .probe import probe

        return probe(self, root)

    def prepare(self, folder: Path, spec: BoxSpec) -> BoxSpec:
        """Its control groups, with limits that hold for gVisor and the machine together."""
        find_runsc()
        groups = self._groups_with(folder, spec.limits.memory_mb, spec.limits.cpus)
        return dataclasses.replace(spec, cgroups=groups, privileged=False, root=spec.root)

    def _groups_with(self, folder: Path, memory_mb: int | None, cpus: float | None) -> tuple[str, ...]:
        groups = make_groups(self.groups, folder.name)
        for group in map(Path, groups):
            if memory_mb is not None:
                _write_first(group, _LIMIT_FILES["memory"], str((memory_mb + _SENTRY_MB) * MIB))
            if cpus is not None:
                quota = max(1000, round(cpus * 100_000))
                _write_first(group, _LIMIT_FILES["cpu"], str(quota), f"{quota} 100000")
        return groups

    def start(self, folder: Path, spec: BoxSpec) -> None:
        """Write what the runtime and the keeper read, and start the keeper."""
        self._describe(folder, spec)
        (folder / "state").unlink(missing_ok=True)
        self._start_keeper(folder)

    def _describe(self, folder: Path, spec: BoxSpec) -> None:
        root = merged(folder.parent.parent, spec.image)
        run = folder / "run"
        write_bundle(folder / "bundle", dict(config(spec, root, run, program())))
        (folder / "inside").write_bytes(_inside(spec).encode())
        settings = {
            "runsc": find_runsc(),
            "groups": list(spec.cgroups),
            "read_only": [str(root), str(program()), *(source for source, _ in spec.image.binds)],
            "memory_mb": spec.limits.memory_mb,
            "cpus": spec.limits.cpus,
            "keep": list(spec.image.keep),
            "ours": [] if os.geteuid() == 0 else [*_USERS, *spec.image.keep],
            "pause_after_ms": spec.pause_after_ms,
            "idle_ms": spec.idle_ms,
            "delete_after_ms": 0 if spec.delete_after_ms is None else max(1, spec.delete_after_ms),
            "wake": spec.wake,
            "gateway_argv": list(spec.gateway_argv),
            "gateway_socket": spec.gateway_socket if spec.network else "",
        }
        _keep_settings(folder, settings)

    def _start_keeper(self, folder: Path) -> None:
        package = str(Path(__file__).parents[3])
        process = subprocess.Popen(
            [sys.executable, "-c", _KEEPER, package, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            process.wait()  # it has left a child that is nobody's
            told = _told(process.stdout, _START_SECONDS)
        finally:
            process.stdout.close()
        if told != "ready":
            raise SandboxError(
                f"a machine of gVisor could not be started: {told or 'no reason'}", hint="see `log` in its folder"
            )

    def look(self, folder: Path) -> Seen:
        """As the other driver. What was written down is paused also when nobody holds it; what was not is lost with its processes."""
        seen = super().look(folder)
        if seen.condition != "stopped":
            return seen
        kept = seen.reason in ("crashed", "reboot") and (folder / MEMORY).is_dir()
        return dataclasses.replace(seen, condition="paused" if kept else "absent")

    def thaw(self, folder: Path) -> None:
        """Start it from disk; by its keeper, or by a new one."""
        if lock_held(folder):
            super().thaw(folder)
            return
        settings = _settings(folder)
        # After a restart of the host there are no groups, or others.
        settings["groups"] = self._groups_with(folder, settings["memory_mb"], settings["cpus"])
        _keep_settings(folder, settings)
        self._start_keeper(folder)

    def timers(self, folder: Path, **milliseconds: int) -> None:
        """Those of its keeper, and of the next one."""
        changes = {name: value for name, value in milliseconds.items() if value >= 0}
        _keep_settings(folder, {**_settings(folder), **changes})
        if lock_held(folder):
            super().timers(folder, **milliseconds)

    def freeze(self, folder: Path) -> None:
        """Write it to disk and end it."""
        if lock_held(folder):
            super().freeze(folder)

    @contextlib.contextmanager
    def still(self, folder: Path) -> Generator[None]:
        """Written down meanwhile. What was linked or read of that stays whole if somebody wakes it."""
        running = self.look(folder).condition == "running"
        if running:
            self.freeze(folder)
        try:
            yield
        finally:
            if running:
                self.thaw(folder)

    def release(self, folder: Path) -> None:
        """Its control groups, and what `runsc` has left."""
        remove_groups([str(parent / folder.name) for parent in self.groups.parents])
        shutil.rmtree(folder / "runsc", ignore_errors=True)

    @property
    def copy_memory(self) -> Callable[[Path, Path], None]:
        """As the protocol says: for a machine with the same spec."""
        return _copy_memory

    def push_layer(self, folder: Path, upper: str, lowers: Sequence[Path]) -> Pushed:
        """Never: what it writes is in its memory."""
        del folder, upper, lowers
        return "busy"


def _inside(spec: BoxSpec) -> BoxSpec:
    """What the agent is told, and so whoever is root in the machine: nothing of the host that it does not need."""
    return dataclasses.replace(
        spec,
        cgroups=(),
        privileged=True,  # its kernel knows all ids, whoever we are
        image=dataclasses.replace(spec.image, layers=(Path("/"),), binds=(), keep=()),
        env={**proxy_environment(), **spec.env} if spec.network else spec.env,
        proxy=f"{PORT}:{NET}/{SOCKET}" if spec.network else "",
        network=False,
        gateway_argv=(),
        gateway_socket="",
    )


_KEEPER: Final = (
    "import os, sys; sys.path.insert(0, sys.argv[1])\n"
    "if os.fork(): os._exit(0)\n"
    "from pathlib import Path\n"
    "from gloveport.machines.gvisor.keeper import main\n"
    "sys.exit(main(Path(sys.argv[2])))\n"
)


def _settings(folder: Path) -> dict[str, Any]:
    """What the keeper of this machine, the next one too, is told."""
    return json.loads((folder / "keeper.json").read_text("utf-8"))


def _keep_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    fresh = folder / "keeper.json.new"
    fresh.write_text(json.dumps(settings), "utf-8")
    fresh.replace(folder / "keeper.json")  # whole, or not at all


def _write_first(group: Path, names: tuple[str, ...], *values: str) -> None:
    """Version 1 has the first file, version 2 the second."""
    for name, value in zip(names, (*values, *values), strict=False):
        if (group / name).exists():
            (group / name).write_text(value)


def _told(pipe: IO[bytes], seconds: float) -> str:
    """What the keeper says: `ready`, or all until it has ended."""
    end, said = time.monotonic() + seconds, b""
    while said != b"ready\n":
        ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise UnreachableError(f"a machine of gVisor did not start within {seconds:g} s")
        data = os.read(pipe.fileno(), 4096)
        if not data:
            break
        said += data
    return said.decode("utf-8", "replace").strip()


def _copy_memory(source: Path, target: Path) -> None:
    if not (source / MEMORY).is_dir():
        raise SandboxError("the machine is not paused")
    draft = target / f"{MEMORY}.copy"
    draft.mkdir(mode=0o700)
    for path in (source / MEMORY).iterdir():
        os.link(path, draft / path.name)  # nobody writes to them: the next pause makes others
    draft.rename(target / MEMORY)
