"""One run in one worker, from the request to the result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, cast

import anyio
import anyio.to_thread
import msgspec

from ...core.outcome import Output
from ...engines.deno.worker import DenoWorker
from ...engines.modules.link import CALL, CLOSE, DONE, LINE, PART, RUN, TAIL, Call, Done, End, ModuleLink, Run
from ...engines.modules.profile import Profile
from ...engines.toolbox.compiled import CompiledModule
from ...errors import ProtocolViolation
from ...events import ConsoleOutput
from ...tools.bridge import ToolBridge
from ...wire.messages import Log, Tail
from ...wire.values import MAX_VALUES, decode
from .calls import ModuleCalls
from .explain import PINNED, broken, ended, thrown, too_late
from .result import ModuleResult

__all__ = ("ModuleRun", "Request")

_LARGE: Final = 1 << 19
"""Bytes of a value that are decoded in a thread: less takes a few milliseconds at most."""
_LEAST_PART: Final = 1 << 14
"""Bytes of a part of a value at least: ours send more than 64 KiB, and each costs an object here."""
_MOST_VALUES: Final = 2 * MAX_VALUES
"""Values in all parts of a value together: those of a worker of ours are half as many. Each has a comma, and at most one bracket."""
_LEAST_ARGUMENTS: Final = 1 << 20
"""Bytes of the arguments of a call that are allowed, however small results have to be."""

_call = msgspec.json.Decoder(Call)
_done = msgspec.json.Decoder(Done)
_end = msgspec.json.Decoder(End)
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
        self._tokens = self._values = self._counted = 0
        self._printed = [0, 0]
        self._ended = [False, False]
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
                self.over = done.error is not None and done.error.kind == PINNED
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
        done = None
        async with ModuleCalls(bridge, self._link, self._session_id, self._number) as calls:
            done = await self._followed(calls)
            await calls.end()
        if done is not None and done.open:  # nobody waits for them
            await self._link.send(CLOSE, b"")
        return done

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
            if kind == LINE and body:
                self._line(body)
            elif kind == TAIL:
                self._tail(body)
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
        await self._add(raw)

    async def _add(self, raw: bytes) -> None:
        """One part. A worker of ours counts its values before it sends them: as Python objects, some are forty times their JSON."""
        self._parts.append(_items(await _value(raw)))
        if self._request.limit <= 2 * _MOST_VALUES:  # there is no room for too many
            return
        self._tokens += raw.count(b"[") + raw.count(b"{") + raw.count(b",")
        if self._tokens <= 2 * _MOST_VALUES:
            return
        # Some may be in texts. From here on values are counted, those so far in one go.
        new, self._counted = self._parts[self._counted :], len(self._parts)
        few = len(new) == 1 and len(raw) <= _LARGE
        self._values += _values_in(new) if few else await anyio.to_thread.run_sync(_values_in, new)
        if self._values > _MOST_VALUES:
            raise ProtocolViolation("a worker sent more values than it may")

    def _decoded(self, decoder: Any, body: bytes) -> Any:
        try:
            return decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProtocolViolation("a worker sent a message that it never sends") from error

    def _line(self, body: bytes) -> None:
        stream = 2 if body[0] == 2 else 1
        text = _text(body[1:])
        self._printed[stream - 1] += len(text) + 1
        if self._printed[stream - 1] > self._request.limit:
            raise ProtocolViolation("a worker prints more than its limit")
        line = self._output.add(Log(s=stream, m=text.decode("utf-8", "replace")))
        if line is not None and self._request.on_event is not None:
            self._events += 1
            self._request.on_event(
                ConsoleOutput(self._number, self._events, "stderr" if stream == 2 else "stdout", line)
            )

    def _tail(self, body: bytes) -> None:
        """u32 length and JSON; the same for the text."""
        at = 4 + int.from_bytes(body[:4], "little")
        end: End = self._decoded(_end, body[4:at])
        text = _text(body[at:])
        if self._ended[end.s - 1] or len(text) > self._request.limit + 1:
            raise ProtocolViolation("a worker prints more than its limit")
        self._ended[end.s - 1] = True
        self._output.end(Tail(s=end.s, m=text.decode("utf-8", "replace"), lines=end.lines, bytes=end.bytes))

    async def _fields(self, done: Done) -> dict[str, Any]:
        if done.error is not None or not done.ok:
            if done.error is None:
                raise ProtocolViolation("a worker gave neither a value nor an error")
            return thrown(done.error, self._compiled, self._number, self._request.source)
        raw, parts = self._value, self._parts
        size = self._part_bytes + len(raw)
        if size > self._request.limit or done.parts != len(parts):
            raise ProtocolViolation("a worker sent a value over its limit, or not all of it")
        if parts:
            await self._add(raw)
        value = list(chain.from_iterable(parts)) if parts else await _value(raw)
        return {"ok": True, "value": value, "output_bytes": size}


def _text(field: bytes) -> bytes:
    """u32 length and text, which is all there is."""
    if len(field) - 4 != int.from_bytes(field[:4], "little"):
        raise ProtocolViolation("a worker sent a value that is cut off")
    return field[4:]


async def _value(raw: bytes) -> Any:
    return await anyio.to_thread.run_sync(decode, raw, 0) if len(raw) > _LARGE else decode(raw, 0)


def _values_in(items: list[Any]) -> int:
    """Level by level: a fraction of what parsing costs."""
    count, level = 0, items
    while level:
        count += len(level)
        level = list(chain.from_iterable(map(_members_of, level)))
    return count


def _members_of(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


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
