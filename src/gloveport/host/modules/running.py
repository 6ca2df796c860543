"""One run in one worker, from the request to the result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, cast

import anyio
import anyio.to_thread
import msgspec

from ...core.outcome import Output
from ...engines.deno.worker import DenoWorker
from ...engines.modules.link import CALL, DONE, LINE, PART, RUN, TAIL, Call, Done, ModuleLink, Run
from ...engines.modules.profile import Profile
from ...engines.toolbox.compiled import CompiledModule
from ...errors import ProtocolViolation
from ...events import ConsoleOutput
from ...tools.bridge import ToolBridge
from ...wire.messages import Log, Tail
from ...wire.values import decode
from .calls import ModuleCalls
from .explain import broken, ended, thrown, too_late
from .result import ModuleResult

__all__ = ("ModuleRun", "Request")

_LARGE: Final = 1 << 19
"""Bytes of a value that are decoded in a thread: less takes a few milliseconds at most."""
_LEAST_PART: Final = 1 << 14
"""Bytes of a part of a value at least: ours send more than 64 KiB, and each costs an object here."""
_MOST_LINES: Final = 4
"""How often the bytes that a worker of ours prints at most may come before it is one of ours no more."""
_LEAST_ARGUMENTS: Final = 1 << 20
"""Bytes of the arguments of a call that are allowed, however small results have to be."""

_call = msgspec.json.Decoder(Call)
_done = msgspec.json.Decoder(Done)
_tail = msgspec.json.Decoder(Tail)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Request:
    """What `run_module` was asked."""

    source: str
    inputs: bytes | None
    """JSON, an object."""
    timeout: float
    limit: int
    tools: ToolBridge | None
    on_event: Callable[[Any], object] | None
    resolve: Mapping[str, str] | None = None
    """What imports mean; `None`: there are no packages."""


class ModuleRun:
    """One run. `over` afterwards: the worker is of no more use."""

    def __init__(
        self,
        worker: DenoWorker,
        request: Request,
        compiled: CompiledModule,
        number: int,
        profile: Profile,
        lost: bool,
        session_id: str,
    ) -> None:
        self.over = True
        self._worker = worker
        self._link = ModuleLink(worker)
        self._request = request
        self._compiled = compiled
        self._number = number
        self._profile = profile
        self._lost = lost
        self._session_id = session_id
        self._output = Output(request.limit)
        self._value = b""
        self._parts: list[list[Any]] = []
        self._part_bytes = 0
        self._printed = 0
        self._events = 0

    async def result(self) -> ModuleResult:
        """Runs it."""
        cpu = _cpu_seconds(self._worker.pid)
        began = time.monotonic()
        fields: dict[str, Any] = too_late(self._request.timeout)
        with anyio.move_on_after(self._request.timeout):
            fields = await self._outcome()
        duration = time.monotonic() - began
        used = _cpu_seconds(self._worker.pid)
        if self.over:
            self._worker.kill()
        return ModuleResult(
            **fields,
            stdout=self._output.text(1),
            stderr=self._output.text(2),
            truncated=self._output.truncated,
            state_lost=self._lost,
            duration=duration,
            cpu_time=max(0.0, used - cpu),
            peak_memory=0 if self.over else _peak_memory(self._worker.pid),
        )

    async def _outcome(self) -> dict[str, Any]:
        link, request = self._link, self._request
        link.expect(max(request.limit, _LEAST_ARGUMENTS))
        self._worker.thaw()
        try:
            await link.send(RUN, self._frame())
            done = await self._with_tools(request.tools) if request.tools else await self._followed(None)
            if done is not None:
                self._worker.freeze()
                fields = await self._fields(done)
                self.over = False
                return fields
        except ProtocolViolation:  # it is no longer our program that speaks
            return broken()
        except OSError:  # it is gone
            pass
        status = await anyio.to_thread.run_sync(self._worker.status, 2.0)
        return ended(status, self._profile.heap_mb, self._profile.memory_mb)

    def _frame(self) -> bytes:
        compiled, request = self._compiled, self._request
        return _encode(
            Run(
                number=self._number,
                kind=compiled.kind,
                code=compiled.code,
                head=compiled.head,
                inputs=None if request.inputs is None else msgspec.Raw(request.inputs),
                tools=None if request.tools is None else list(request.tools.specs),
                limit=request.limit,
                output=request.limit,
                resolve=dict(request.resolve or {}),
                packages=request.resolve is not None,
            )
        )

    async def _with_tools(self, bridge: ToolBridge) -> Done | None:
        calls = ModuleCalls(bridge, self._link, self._session_id, self._number)
        async with calls:
            done = await self._followed(calls)
            if done is not None and done.open:
                await calls.end()
            return done
        return None  # pyright: ignore[reportUnreachable]

    async def _followed(self, calls: ModuleCalls | None) -> Done | None:
        """Hears what the worker says until its run is over; `None` when it ended."""
        while (frame := await self._link.receive()) is not None:
            kind, body = frame
            if kind == DONE:
                self._link.idle()
                return self._done(body)
            if kind == PART:
                await self._part(body)
                continue
            if kind == CALL and calls is not None:
                await calls.begin(self._decoded(_call, body[4:]))
                continue
            self._printed += len(body) + 16
            if self._printed > _MOST_LINES * (self._request.limit * 8 + (1 << 20)):
                raise ProtocolViolation("a worker prints more than its limit")
            if kind == LINE and body:
                self._line(body)
            elif kind == TAIL:
                self._output.end(self._decoded(_tail, body[4:]))
            else:
                raise ProtocolViolation(f"a worker sent the unexpected frame kind {kind}")
        return None

    def _done(self, body: bytes) -> Done:
        """u32 length and JSON; the same for the value."""
        end = 4 + int.from_bytes(body[:4], "little")
        done, self._value = self._decoded(_done, body[4:end]), _text(body[end:])
        return done

    async def _part(self, body: bytes) -> None:
        """Of a long array, while the worker writes the next one."""
        raw = _text(body)
        self._part_bytes += len(raw) - 1  # a comma for two brackets
        if self._part_bytes > self._request.limit or len(raw) < _LEAST_PART:
            raise ProtocolViolation("a worker sent a value over its limit, or in pieces too small")
        self._parts.append(_items(await _value(raw)))

    def _decoded(self, decoder: Any, body: bytes) -> Any:
        try:
            return decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProtocolViolation("a worker sent a message that it never sends") from error

    def _line(self, body: bytes) -> None:
        stream = 2 if body[0] == 2 else 1
        line = self._output.add(Log(s=stream, m=body[5:].decode("utf-8", "replace")))
        if line is not None and self._request.on_event is not None:
            self._events += 1
            self._request.on_event(
                ConsoleOutput(self._number, self._events, "stderr" if stream == 2 else "stdout", line)
            )

    async def _fields(self, done: Done) -> dict[str, Any]:
        if done.error is not None or not done.ok:
            if done.error is None:
                raise ProtocolViolation("a worker gave neither a value nor an error")
            return thrown(done.error, self._compiled, self._number, self._request.source)
        raw, parts = self._value, self._parts
        size = self._part_bytes + len(raw)
        if size > self._request.limit or done.parts != len(parts):
            raise ProtocolViolation("a worker sent a value over its limit, or not all of it")
        value = await _value(raw)
        if parts:
            value = list(chain.from_iterable((*parts, _items(value))))
        return {"ok": True, "value": value, "output_bytes": size}


def _text(field: bytes) -> bytes:
    """u32 length and text, which is all there is."""
    if len(field) - 4 != int.from_bytes(field[:4], "little"):
        raise ProtocolViolation("a worker sent a value that is cut off")
    return field[4:]


async def _value(raw: bytes) -> Any:
    return await anyio.to_thread.run_sync(decode, raw, 0) if len(raw) > _LARGE else decode(raw, 0)


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ProtocolViolation("a worker sent a part of a value that is no array")
    return cast("list[Any]", value)


def _cpu_seconds(pid: int) -> float:
    """Computing time of a process so far; 0 when it cannot be read.

    By its clock (clock_getcpuclockid(3): `~pid << 3 | 2`), not from /proc/PID/stat: writing that down takes the kernel 0.1 ms while
    the threads of the process run, and it counts in hundredths of a second.
    """
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


def _peak_memory(pid: int) -> int:
    try:
        file = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(file, 4096)
        finally:
            os.close(file)
        return int(text.partition(b"VmHWM:")[2].partition(b"kB")[0]) * 1024
    except (OSError, ValueError):
        return 0
