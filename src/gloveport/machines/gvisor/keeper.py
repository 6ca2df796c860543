"""The process beside one machine of gVisor: `python -m gloveport.machines.gvisor.keeper FOLDER`.

It holds the machine's lock, starts `runsc` and dies with it, listens for clients and relays what they say to the agent inside, and
knows the machine's clocks: when to write it down, when to delete it. It speaks what the supervisor of `native/box/PROTOCOL.md` speaks
on `ctl.sock`, so that the rest of the package sees no difference.

Paused means written to disk with all of its memory and files (`memory/`), and ended: no process of the machine is left. Connections that
are open then stay open and silent until it is awake, and are closed: clients come again and go on where they were.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, Literal

from ...errors import SandboxError
from ..home import boot_id
from ..wire import Ask, Fields, Tag, Tell, encode, fields
from .agent import AgentLine, say
from .bundle import KEPT, RUN
from .children import adopt_orphans, begin, end_children, sentry_of
from .network import Attached, Starter
from .relay import Relay
from .requests import read_request
from .runsc import MEMORY, Runsc
from .shared import SharedFolder, enter_namespaces, make_read_only

__all__ = ("Keeper", "main")

Phase = Literal["running", "paused", "gone"]
_READY_SECONDS: Final = 60.0
_QUIET_SECONDS: Final = 20.0
_LOOK: Final = 0.01
_USED: Final = f"{MEMORY}.used"
_LOCK_SECONDS: Final = 5.0
_BACK_SECONDS: Final = 10.0
_GONE_SECONDS: Final = 1.0


class Keeper:
    """One machine."""

    def __init__(self, folder: Path, settings: dict[str, Any], starter: Starter | None = None) -> None:
        self.folder = folder
        self.run = folder / "run"
        self._shared = SharedFolder(self.run)
        self._network = Attached(folder, settings["gateway_socket"], starter) if starter else None
        self._settings = settings
        self._runsc = Runsc(settings["runsc"], folder)
        self._phase: Phase = "gone"
        self._process: asyncio.subprocess.Process | None = None
        self._container = ""
        self._relays = set[Relay]()
        self._tasks = set[asyncio.Task[None]]()
        self._changing = asyncio.Lock()
        self.ended = asyncio.Event()
        self._since = 0.0
        self._used = 0.0
        self._reason = "none"
        self._killed = ""

    # ── start and end ────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """The machine, new or from what was written down; then the sockets."""
        # The control socket first: one that is being made can be killed.
        self._keep(self._accept(_listen(self.folder, "ctl.sock"), self._control))
        async with self._changing:
            self._shared.make((self.folder / "inside").read_bytes())
            if self._network is not None:
                self._network.make_place()
                self._keep(self._network.run())
            if (self.folder / MEMORY).is_dir():
                await self._restore()
            else:
                brought = self._shared.bring(self.folder / "upper")
                await self._launch("run")
                await self._fill(brought)
            self._enter("running", "none")
        self._keep(self._accept(_listen(self.folder, "agent.sock"), self._client))
        self._keep(self._watch())

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket, serve: Any) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            client.setblocking(False)
            self._keep(serve(client))

    async def _launch(self, *verb: str) -> None:
        self._container = f"{self.folder.name[-20:]}-{time.monotonic_ns():x}"
        arguments = [*verb, f"--bundle={self.folder / 'bundle'}", self._container]
        with open(self.folder / "log", "ab") as log:  # noqa: ASYNC230
            self._process = await asyncio.create_subprocess_exec(
                *self._runsc.attached(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": os.defpath},
                preexec_fn=functools.partial(begin, self._settings["groups"]),
            )
        self._keep(self._wait_for(self._process))
        await self._listens()
        self._keep(self._wait_for_sentry(self._process))

    async def _listens(self, seconds: float = _READY_SECONDS) -> None:
        """Until the agent has its socket."""
        end = time.monotonic() + seconds
        while not await AgentLine.answers(self.run):
            if self._process is None or self._process.returncode is not None:
                raise SandboxError(f"runsc ended at once: {_tail(self.folder / 'log')}")
            if time.monotonic() > end:
                raise SandboxError(f"the machine did not answer within {seconds:g} s")
            await asyncio.sleep(_LOOK)

    async def _fill(self, brought: bool) -> None:
        """What the image has in folders that are the machine's own below those of the host, and whose they are."""
        for number, place in enumerate(self._settings["keep"]):
            script = 'cp -a "$1/." "$2/" && chown --reference="$1" "$2"'
            await say(self.run, ["/bin/sh", "-c", script, "sh", f"{KEPT}/{number}", place])
        if brought:
            script = 'cp -a "$1/." / && rm -rf "$1"'
            await say(self.run, ["/bin/sh", "-c", script, "sh", f"{RUN}/fill"])
        script = 'for place in "$@"; do test ! -e "$place" || chown -R 1000:1000 "$place"; done'
        await say(self.run, ["/bin/sh", "-c", script, "sh", *self._settings["ours"]])

    async def _wait_for(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        async with self._changing:  # which may be what ended it
            if process is self._process and self._phase == "running":
                self._end("ended" if not self._over_memory() else "memory")

    async def _wait_for_sentry(self, process: asyncio.subprocess.Process) -> None:
        """`runsc` looks only now and then whether it lives."""
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        try:
            handle = sentry_of(process.pid)
        except OSError:
            return  # it has ended, or `runsc` starts it in another way than we know: then it is found out later
        try:
            loop.add_reader(handle, gone.set)
            await gone.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    def _over_memory(self) -> bool:
        for group in self._settings["groups"]:
            for name in ("memory.oom_control", "memory.events"):
                with contextlib.suppress(OSError):
                    for line in Path(group, name).read_text("ascii").splitlines():
                        word, _, count = line.partition(" ")
                        if word == "oom_kill" and int(count):
                            return True
        return False

    def _end(self, reason: str) -> None:
        if self._phase != "gone":
            self._enter("gone", self._killed or reason)
        self.ended.set()

    async def close(self) -> None:
        """Nothing of the machine runs afterwards."""
        await self._stop()
        if self._network is not None:
            self._network.close()
        for name in ("agent.sock", "ctl.sock"):
            (self.folder / name).unlink(missing_ok=True)

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await self._clear()

    async def _clear(self) -> None:
        """What is left of `runsc`. (`runsc delete` would do less, slowly.)"""
        await asyncio.to_thread(end_children, self._network.starters if self._network is not None else ())
        shutil.rmtree(self.folder / "runsc", ignore_errors=True)

    # ── what it is ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _enter(self, phase: Phase, reason: str) -> None:
        self._phase, self._reason, self._since = phase, reason, _boot()
        self._used = self._since
        line = (
            f"state={phase} reason={reason} boot_id={boot_id()} since={round(self._since * 1000)} "
            f"wall={round(time.time() * 1000)} pid1=0 supervisor={os.getpid()} holder={os.getpid()} restarts=0\n"
        )
        fresh = self.folder / "state.new"
        fresh.write_text(line, "ascii")
        fresh.replace(self.folder / "state")

    async def freeze(self, reason: str) -> None:
        """Write it down and end it. Raises `SandboxError`, and it goes on."""
        async with self._changing:
            if self._phase != "running":
                return
            for relay in self._relays:
                relay.hold()
            try:
                await self._quiet()
                await self._write_down()
            except BaseException:
                await self._rouse()
                raise
            self._enter("paused", reason)
            self._forget_memory(but=MEMORY)

    async def _quiet(self) -> None:
        """The agent lets go of the world outside."""
        end = time.monotonic() + _QUIET_SECONDS
        while True:
            try:
                await AgentLine.ask(self.run, Ask.QUIESCE)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise SandboxError("operations on files of the machine do not end: it is not paused") from None
                await asyncio.sleep(_LOOK)
        while AgentLine.there(self.run):
            if time.monotonic() > end:
                raise SandboxError("the machine's agent does not let go of its socket")
            await asyncio.sleep(_LOOK / 2)

    async def _write_down(self) -> None:
        draft = self.folder / f"{MEMORY}.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700, exist_ok=True)
        try:
            # Without `--leave-running` it ends, also when the disk is full and nothing was written (20240729). It runs on for a moment,
            # with nothing of the world outside, and that is not remembered.
            arguments = ("--leave-running", f"--image-path={draft}", self._container)
            await asyncio.to_thread(self._runsc.call, "checkpoint", *arguments)
            await asyncio.to_thread(_sync, draft)
            draft.rename(self.folder / MEMORY)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        await self._stop()

    async def thaw(self, reason: str) -> None:
        """Start it from what was written down. Raises `SandboxError`, and that stays."""
        async with self._changing:
            if self._phase != "paused":
                return
            await self._restore()
            self._enter("running", reason)
            for relay in list(self._relays):
                relay.close()

    async def _restore(self) -> None:
        memory = self.folder / MEMORY
        try:
            self._shared.forget_socket()
            self._shared.wake_agent()
            await self._launch("restore", f"--image-path={memory}")
            # Two copies of one machine must not draw the same random numbers.
            await AgentLine.ask(self.run, Ask.RESEED, fields((Tag.DATA, os.urandom(64))))
        except BaseException:
            await self._stop()
            raise
        memory.rename(self.folder / _USED)  # in one step: a part of it would be no machine
        self._forget_memory()

    def _forget_memory(self, but: str = "") -> None:
        for name in {MEMORY, f"{MEMORY}.new", _USED} - {but}:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    async def _rouse(self) -> None:
        try:
            self._shared.wake_agent()
            await self._listens(_BACK_SECONDS)
        except (SandboxError, OSError):
            self._end("ended")
        for relay in list(self._relays):
            relay.close()

    # ── clients ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _client(self, client: socket.socket) -> None:
        with client:
            if self._phase == "paused" and not self._settings["wake"]:
                await self._turn_away(client, "paused", 16, "paused")
                return
            try:
                await self.thaw("wake")
                async with self._changing:  # not while it is being written down
                    inner = await AgentLine.open(self.run)
            except (SandboxError, OSError) as error:
                if self._killed or await self._goes():
                    return  # everybody will see that
                await self._turn_away(client, f"the machine's agent cannot be reached: {error}")
                return
            relay = Relay(client, inner)
            self._relays.add(relay)
            try:
                await relay.run(self._touch)
            finally:
                self._relays.discard(relay)

    async def _goes(self) -> bool:
        """Whether it has just ended."""
        if self._process is None:
            return self._phase != "paused"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._process.wait()), _GONE_SECONDS)
            return True
        return False

    async def _turn_away(self, client: socket.socket, message: str, number: int = 0, code: str = "driver") -> None:
        error = fields((Tag.ERRNO, number), (Tag.MESSAGE, message[:400]), (Tag.CODE, code))
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_sendall(client, encode(Tell.ERROR, error))

    def _touch(self) -> None:
        self._used = _boot()

    async def _control(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with client, contextlib.suppress(OSError, ValueError):
            buffer = bytearray()
            while (request := await read_request(loop, client, buffer)) is not None:
                kind, body = request
                try:
                    answer = await self._do(kind, Fields(body))
                except (SandboxError, OSError) as error:
                    told = fields((Tag.ERRNO, 0), (Tag.MESSAGE, str(error)[:400]), (Tag.CODE, "driver"))
                    answer = encode(Tell.ERROR, told)
                await loop.sock_sendall(client, answer)
                if self._killed:
                    self._end(self._killed)

    async def _do(self, kind: int, asked: Fields) -> bytes:
        reason = "".join(c for c in asked.text(Tag.REASON, "") if c.isalnum() or c == "-")[:32]
        began = time.monotonic()
        match kind:
            case Ask.FREEZE:
                await self.freeze(reason or "pause")
            case Ask.THAW:
                await self.thaw(reason or "resume")
            case Ask.KILL:
                self._killed = reason or "killed"
                if self._process is not None and self._process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        self._process.kill()  # whatever is done with it now fails, and lets us go on
                async with self._changing:
                    await self._stop()
                    self._enter("gone", self._killed)
            case Ask.TIMERS:
                self._set_timers(asked)
            case Ask.CTL_STATS:
                return encode(Tell.OK, fields(*self._usage()))
            case Ask.STATUS:
                pass
            case _:
                raise SandboxError(f"a machine of gVisor does not know the request {kind:#x}")
        spent = round((time.monotonic() - began) * 1000)
        return encode(Tell.OK, fields((Tag.STATE, self._phase), (Tag.REASON, self._reason), (Tag.MS, spent)))

    def _set_timers(self, asked: Fields) -> None:
        names = (
            (Tag.PAUSE_AFTER_MS, "pause_after_ms"),
            (Tag.IDLE_MS, "idle_ms"),
            (Tag.DELETE_AFTER_MS, "delete_after_ms"),
        )
        for tag, name in names:
            if (value := asked.integer(tag, -1)) >= 0:
                self._settings[name] = value
                if name != "delete_after_ms" and self._phase == "running":
                    self._since = self._used = _boot()
        if (wake := asked.integer(Tag.WAKE, -1)) >= 0:
            self._settings["wake"] = bool(wake)

    def _usage(self) -> list[tuple[int, int]]:
        memory = 0
        for group in self._settings["groups"]:
            for name in ("memory.usage_in_bytes", "memory.current"):
                with contextlib.suppress(OSError, ValueError):
                    memory = max(memory, int(Path(group, name).read_text("ascii")))
        return [(Tag.MEMORY, memory)]

    # ── clocks ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _watch(self) -> None:
        while not self.ended.is_set():
            await asyncio.sleep(min(1.0, max(0.02, self._due() - _boot())))
            try:
                if self._phase == "running" and self._shared.too_large():
                    self._end("disk")
                elif _boot() >= self._due():
                    await self._act()
            except (SandboxError, OSError) as error:
                print(f"it could not be paused: {error}", file=sys.stderr)
                self._since = self._used = _boot()

    def _due(self) -> float:
        """When the next clock strikes, in seconds since the start of the host."""
        settings, never = self._settings, float("inf")
        if self._phase == "paused":
            return self._since + settings["delete_after_ms"] / 1000 if settings["delete_after_ms"] else never
        pause = self._since + settings["pause_after_ms"] / 1000 if settings["pause_after_ms"] else never
        idle = self._used + settings["idle_ms"] / 1000 if settings["idle_ms"] else never
        return min(pause, idle)

    async def _act(self) -> None:
        if self._phase == "paused":
            self._end("auto-delete")
            return
        late = self._settings["pause_after_ms"] and _boot() >= self._since + self._settings["pause_after_ms"] / 1000
        if not late and await AgentLine.busy(self.run):
            self._touch()
            return
        await self.freeze("timeout" if late else "idle")


def _boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _listen(folder: Path, name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    (folder / name).unlink(missing_ok=True)
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{directory}/{name}")  # an address has at most 107 bytes
    finally:
        os.close(directory)
    os.chmod(folder / name, 0o600)
    listener.listen(128)
    return listener


def _sync(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _tail(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()[-400:] or "no reason"
    except OSError:
        return "no reason"


async def _serve(folder: Path, told: int, settings: dict[str, Any], starter: Starter | None) -> None:
    keeper = Keeper(folder, settings, starter)
    starting: asyncio.Task[Any] = asyncio.create_task(keeper.start())
    ended: asyncio.Task[Any] = asyncio.create_task(keeper.ended.wait())
    try:
        await asyncio.wait([starting, ended], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            raise SandboxError("the machine was ended before it had begun")
        starting.result()
        os.write(told, b"ready\n")
        os.close(told)
        await ended
    finally:
        for task in (starting, ended):
            task.cancel()
        await asyncio.gather(starting, ended, return_exceptions=True)
        await keeper.close()


def _lock(folder: Path) -> None:
    """Held until we end. Who looks whether the machine lives holds it for a moment."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise SandboxError("the machine is held by another process") from None
            time.sleep(0.002)


def main(folder: Path) -> int:
    """Until the machine has ended. Writes `ready` to stdout when it answers; or what went wrong, and ends with 1."""
    told = os.dup(1)
    try:
        _lock(folder)
        with open(folder / "log", "ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        settings = json.loads((folder / "keeper.json").read_text("utf-8"))
        starter = Starter(settings["gateway_argv"]) if settings["gateway_socket"] else None
        enter_namespaces()
        make_read_only(settings["read_only"])
        adopt_orphans()
        asyncio.run(_serve(folder, told, settings, starter))
    except (SandboxError, OSError) as error:
        with contextlib.suppress(OSError):
            os.write(told, str(error).encode("utf-8", "replace"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
