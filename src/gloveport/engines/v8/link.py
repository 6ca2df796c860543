"""A session's line to its worker: that of the wasm engine, but for what V8 does otherwise.

A worker that computes too long cannot be told to stop: it is killed. One that ran out of memory has killed itself. So what it
prints comes before its reply does, in parts; and so does what it says of a history that is replayed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ...core.commands import GuestCommand, LinkLost, Replay, Retrace, Step
from ...errors import ProtocolViolation
from ...wire import frames
from ...wire.messages import Reply, decode_reply
from ..deno.worker import DenoWorker
from ..wasm.link import GRACE, ProcessLink

__all__ = ("V8Link",)


class V8Link(ProcessLink):
    """One session in a process of its own."""

    def __init__(self, worker: DenoWorker, max_memory: int) -> None:
        super().__init__(worker, max_memory)
        self._v8 = worker
        self._prefix = b""  # the limits are the process's own
        self._in_parts = True
        self._on_loop = False
        self._bell = worker.bell
        self._unrung = False

    def perform(self, command: GuestCommand) -> Any:
        """One request and its reply, blocking this thread."""
        began = time.monotonic()
        answer = _Answer(command)
        try:
            answer.take(*self._exchange(answer.frame, answer.limit))
            while answer.reply is None:
                left = self._left(began, answer.limit)
                answer.take(*(self._decoder.next() or self._receive(left)))
        except LinkLost as lost:
            raise answer.cut_short(lost) from lost.__cause__
        return answer.whole(self._decoder.pending, time.monotonic() - began)

    async def perform_async(self, command: GuestCommand) -> Any:
        """The same on the running event loop."""
        began = time.monotonic()
        answer = _Answer(command)
        self._on_loop = True
        try:
            answer.take(*await self._exchange_async(answer.frame, answer.limit))
            while answer.reply is None:
                left = self._left(began, answer.limit)
                answer.take(*(self._decoder.next() or await self._receive_async(left)))
        except _Unexplained:
            raise answer.cut_short(await self._explained()) from None
        except LinkLost as lost:
            raise answer.cut_short(lost) from lost.__cause__
        except asyncio.CancelledError:
            self.close()  # a run has begun, or half of a request is there
            raise
        finally:
            self._on_loop = False
        return answer.whole(self._decoder.pending, time.monotonic() - began)

    def _ready(self, frame: bytes) -> bytes:
        self._unrung = self._bell is not None
        return super()._ready(frame)

    def _send_now(self, data: bytes | memoryview) -> int:
        sent = super()._send_now(data)
        if self._unrung and self._bell is not None:
            self._unrung = False
            self._bell.ring()  # after the first of it is there: who hears it does not sleep again
        return sent

    def _left(self, began: float, limit: float) -> float:
        """Seconds for the rest of an answer. A worker that never stops talking is as late as one that says nothing."""
        left = began + limit - time.monotonic()
        if left < -GRACE:  # what it said in time may still be on its way
            raise self._overdue()
        return left

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _interrupt(self) -> None:
        raise self._overdue()

    def _late(self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[tuple[int, bytes]]) -> None:
        self._too_late(waiter)

    def _lost(self, error: OSError | None) -> LinkLost:
        if self._on_loop:
            return _Unexplained("died", "the worker died")
        return self._told(self._v8.ran_out_of_memory(), error)

    async def _explained(self) -> LinkLost:
        """Why it is gone: its end is waited for, which an event loop cannot do, and some only close their socket."""
        try:
            memory = await asyncio.to_thread(self._v8.ran_out_of_memory)
        except BaseException:
            self.close()
            raise
        return self._told(memory, None)

    def _told(self, memory: bool, error: OSError | None) -> LinkLost:
        lost = super()._lost(error)
        return LinkLost("memory", "the worker had no memory left") if memory else lost

    def _overdue(self) -> LinkLost:
        super()._overdue()
        return LinkLost("timeout", "the worker computed too long and was killed")


class _Unexplained(LinkLost):
    """The worker is gone, and nobody has looked how."""


class _Answer:
    """What comes for one request: a reply, and before it any number of parts of its output."""

    __slots__ = ("_clock_reads", "_hear", "_parts", "frame", "limit", "reply")

    def __init__(self, command: GuestCommand) -> None:
        self._parts = bytearray()  # not a list: millions of parts of one byte would be gigabytes of objects
        self._clock_reads = 0
        self._hear: Callable[[bytes], None] = self._keep
        self.reply: Reply | None = None
        if isinstance(command, Step):
            self.frame = frames.encode_frame(frames.STEP, command.request)
        elif isinstance(command, Replay):
            self.frame = frames.encode_parts(frames.BATCH, list(command.requests), wide_count=True)
        elif isinstance(command, Retrace):
            self.frame = frames.encode_parts(frames.RETRACE, list(command.requests), wide_count=True)
            self._hear = command.hear
        else:
            raise TypeError("this engine has no images")
        self.limit = command.limit

    def take(self, kind: int, body: bytes) -> None:
        """One frame."""
        if kind == frames.PART:
            self._hear(body)
        elif kind == frames.WAITS and len(body) == 4:
            self._clock_reads = int.from_bytes(body, "little")
        elif kind == frames.REPLY:
            self.reply = decode_reply(body)
        else:
            raise ProtocolViolation(f"a worker answered with the unexpected frame kind {kind}")

    def _keep(self, part: bytes) -> None:
        if len(self._parts) + len(part) > frames.MAX_FRAME:
            raise ProtocolViolation("a worker said more than fits into a frame")
        self._parts += part

    def whole(self, pending: int, seconds: float) -> Reply:
        """The reply with all of the output."""
        reply = self.reply
        if pending or reply is None:
            raise ProtocolViolation("a worker said more than it was asked")
        output = bytes(self._parts) + reply.output if self._parts else reply.output
        return Reply(reply.status, reply.ns, reply.clock_reads, output, int(seconds * 1e9))

    def cut_short(self, lost: LinkLost) -> LinkLost:
        """The loss, with what was said before it."""
        lost.output = bytes(self._parts)
        lost.clock_reads = self._clock_reads
        return lost
