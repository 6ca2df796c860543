"""Machines made of namespaces by the program `box`: one tree of small processes for each, which outlives whoever started it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import platform
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Final

from ...errors import CapabilityError, ProtocolViolation, SandboxError, UnreachableError
from ..channel import Channel, connect
from ..driver import Capabilities, Pushed
from ..spec import BoxSpec
from ..state import Seen, lock_held, look
from ..steps import Frames, Steps, failure, simple
from ..wire import Ask, Fields, Tag, Tell, encode, fields
from .cgroups import Groups, find_groups, make_groups, remove_groups

__all__ = ("NamespaceDriver", "Supervised", "program")

_START_SECONDS: Final = 30.0
_KILL_SECONDS: Final = 10.0
_CRED: Final = struct.Struct("3i")
_BUSY: Final = "stage=lock "
_ATTEMPTS: Final = 5
_NOT_PUSHED: Final = ("busy_files", "layers", "freeze", "unknown")
"""`unknown`: the machine was started by an earlier release."""
_TIMERS: Final = {
    "pause_after_ms": Tag.PAUSE_AFTER_MS,
    "idle_ms": Tag.IDLE_MS,
    "delete_after_ms": Tag.DELETE_AFTER_MS,
    "wake": Tag.WAKE,
}


def program() -> Path:
    """The program. Raises `CapabilityError` when it was not built for this kind of processor."""
    path = Path(__file__).parents[2] / "_native" / f"box-{platform.machine()}"
    if not os.access(path, os.X_OK):
        raise CapabilityError(
            f"gloveport was installed without the program that machines need ({path.name})",
            missing=("isolation",),
            hint="machines need Linux on x86_64 or aarch64; a source checkout builds it with `python hatch_build.py`",
        )
    return path


@functools.cache
def _groups(process: int) -> Groups:
    del process  # asked for anew after a fork: the child may be another user, or in another group
    return find_groups()


class Supervised:
    """The supervisor lives as long as the machine, whether that runs or is paused."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def lost(self) -> None:
        if not lock_held(self._folder):
            raise SandboxError("the machine ended meanwhile")

    closed = lost

    def silent(self, waited: float, *, heard: bool, overdue: bool) -> bool:
        del heard
        self.lost()
        if overdue or waited > _START_SECONDS:
            raise UnreachableError("the machine's supervisor does not answer")
        return False


class NamespaceDriver:
    """See `Driver`."""

    name = "namespace"

    @property
    def copy_memory(self) -> Callable[[Path, Path], None] | None:
        """None: its memory is nowhere but in processes."""
        return None

    def probe(self, root: Path) -> Capabilities:
        """What it gives here, found in a small machine; kept until the host is started again."""
        from .probe import probe

        return probe(self, root)

    @property
    def groups(self) -> Groups:
        """The control groups that can be used."""
        return _groups(os.getpid())

    def prepare(self, folder: Path, spec: BoxSpec) -> BoxSpec:
        """Its control groups."""
        groups = self.groups
        made = make_groups(groups, folder.name)
        return dataclasses.replace(
            spec, cgroups=made, cgroup_memory="memory" in groups.can, privileged=os.geteuid() == 0
        )

    def start(self, folder: Path, spec: BoxSpec) -> None:
        """Write the spec, and run the program until it says that the machine is ready."""
        path = folder / "spec"
        fresh = path.with_name("spec.new")
        fresh.touch(mode=0o600)
        fresh.write_bytes(spec.encode())
        fresh.replace(path)
        _begin(folder)
        said: str | None = None
        for _ in range(_ATTEMPTS):
            said = self._run(folder)
            if said is None:
                return
            if _BUSY not in said:  # somebody looked whether it lives in this very moment
                break
            time.sleep(0.002)
        raise _refusal(said or "")

    def _run(self, folder: Path) -> str | None:
        # Its own session, and no descriptor but these: what it leaves behind must not hold anything of ours.
        process = subprocess.Popen(
            [program(), "run", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            cwd="/",
            start_new_session=True,
        )
        try:
            _, told = process.communicate(timeout=_START_SECONDS)
        except BaseException as error:
            process.kill()
            process.communicate()
            self.kill(folder, "failed")
            if isinstance(error, subprocess.TimeoutExpired):
                raise UnreachableError(f"a machine did not start within {_START_SECONDS:g} s") from None
            raise
        return None if process.returncode == 0 else told.decode("utf-8", "replace").strip() or "no reason"

    def look(self, folder: Path) -> Seen:
        """From its lock and its state file."""
        return look(folder)

    def _ask(self, folder: Path, kind: Ask, body: bytes = b"") -> Fields:
        channel = Channel(folder, "ctl.sock", Supervised(folder))
        try:
            return channel.run(lambda: simple(encode(kind, body)))
        finally:
            channel.drop()

    def freeze(self, folder: Path) -> None:
        """By its control group where there is one, else by signals."""
        self._ask(folder, Ask.FREEZE)

    def thaw(self, folder: Path) -> None:
        """The reverse."""
        self._ask(folder, Ask.THAW)

    @contextlib.contextmanager
    def still(self, folder: Path) -> Generator[None]:
        """Its supervisor keeps it so for as long as a connection is open."""
        channel = Channel(folder, "ctl.sock", Supervised(folder))
        try:
            channel.run(lambda: simple(encode(Ask.SNAPSHOT_BEGIN)))
            yield
            channel.run(lambda: simple(encode(Ask.SNAPSHOT_END)))
        finally:
            channel.drop()

    def push_layer(self, folder: Path, upper: str, lowers: Sequence[Path]) -> Pushed:
        """By its supervisor, while it is frozen for a moment."""
        body = fields((Tag.UPPER, upper), *((Tag.LOWER, str(lower)) for lower in lowers))
        channel = Channel(folder, "ctl.sock", Supervised(folder))
        try:
            pushed = channel.run(lambda: _pushed(encode(Ask.RELAYER, body)))
        finally:
            channel.drop()
        if pushed == "busy" and self.look(folder).condition == "stopped":
            raise SandboxError("the machine ended when its files were frozen")
        return pushed

    def timers(self, folder: Path, **milliseconds: int) -> None:
        """Those of its supervisor."""
        pairs = [(tag, milliseconds.get(name, -1)) for name, tag in _TIMERS.items()]
        self._ask(folder, Ask.TIMERS, fields(*pairs))

    def usage(self, folder: Path) -> dict[str, int]:
        """As the supervisor counts it."""
        told = self._ask(folder, Ask.CTL_STATS)
        names = {"memory_bytes": Tag.MEMORY, "processes": Tag.PIDS, "cpu_ms": Tag.CPU_MS, "disk_bytes": Tag.DISK}
        return {name: told.integer(tag) for name, tag in names.items() if told.has(tag)}

    def kill(self, folder: Path, reason: str) -> None:
        """Through its supervisor; if that does not answer, its holder is killed, whose death ends everything."""
        if not lock_held(folder):
            return
        with contextlib.suppress(SandboxError, OSError, Exception):
            self._ask(folder, Ask.KILL, fields((Tag.REASON, reason)))
        if not _wait_dead(folder, _KILL_SECONDS / 2):
            _kill_holder(folder)
            if not _wait_dead(folder, _KILL_SECONDS):
                raise UnreachableError(f"the machine {folder.name!r} cannot be ended", hint="see the log in its folder")

    def release(self, folder: Path) -> None:
        """Its control groups, as its spec names them."""
        try:
            spec = (folder / "spec").read_bytes()
        except OSError:
            return
        groups = [
            part[7:].decode("utf-8", "surrogateescape") for part in spec.split(b"\0") if part.startswith(b"cgroup=")
        ]
        remove_groups([group for group in groups if Path(group).name == folder.name])


def _begin(folder: Path) -> None:
    """Another life begins: nothing of the last one is told any more, but that there was one. Whoever has not lived when its start fails
    is swept, files and all."""
    was = look(folder)
    if was.reason == "not-started":
        return
    fresh = folder / "state.new"
    fresh.write_text(f"state=starting wall={round(was.since * 1000)}\n", "ascii")
    fresh.replace(folder / "state")


def _pushed(request: bytes) -> Steps[Pushed]:
    yield request
    tell, body = yield from Frames().next()
    if tell is Tell.OK:
        return "done"
    if tell is not Tell.ERROR:
        raise ProtocolViolation(f"a machine sent {tell.name} where OK was due")
    code = Fields(body).text(Tag.CODE, "")
    if code == "stale_layer":
        return "stale"
    if code in _NOT_PUSHED:
        return "busy"
    raise failure(body)


def _wait_dead(folder: Path, seconds: float) -> bool:
    end, pause = time.monotonic() + seconds, 0.0005
    while lock_held(folder):
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return True


def _kill_holder(folder: Path) -> None:
    """The process that listens on the control socket is the holder: the kernel says so (unix(7), SO_PEERCRED).

    Its id is used only while the lock shows that it lives: after that it could be another process's.
    """
    try:
        sock = connect(folder, "ctl.sock", wait=0.5)
    except OSError:
        return
    with sock:
        pid = _CRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CRED.size))[0]
        handle = os.pidfd_open(pid)
        try:
            if lock_held(folder):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                select.select([handle], [], [], 1.0)
        finally:
            os.close(handle)


def _refusal(said: str) -> SandboxError:
    words = {part.partition("=")[0]: part.partition("=")[2] for part in said.split(" ") if "=" in part}
    stage, message = words.get("stage", "?"), said.partition("message=")[2] or said
    if stage in ("namespaces", "ids", "private-mounts", "overlay", "seccomp"):
        return CapabilityError(
            f"this host does not let a machine be isolated ({stage}: {message})", missing=("isolation",)
        )
    return SandboxError(f"a machine could not be started ({stage}: {message})", hint="see `log` in its folder")
