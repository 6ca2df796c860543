"""The request loop of a worker: the worker's side of `wire/PROTOCOL.md`.

It runs in the jail, answers the host only, and ends its process (or thread) at the end of the stream or at the first malformed frame.
"""

from __future__ import annotations

import os
import resource
import socket
import struct
import time
from collections.abc import Sequence
from typing import Final, Protocol

from gloveport.engines import processors
from gloveport.errors import ImageError

__all__ = ("MAX_FRAME", "GuestLike", "ReplyLike", "serve")

MAX_FRAME: Final = 64 * 1024 * 1024
"""Bytes of a frame after its length field."""

_SMALL: Final = 16 * 1024
_MOMENT_NS: Final = 200_000
_CONTENDED_NS: Final = 30_000
"""A look that takes that long gave the processor to someone else for a while: looking costs more than being woken then (measured
70 to 200 against 55 µs a call with two busy processors; 38 against 55 with idle ones)."""
_FEWEST: Final = 4
_MOST: Final = 256
"""Requests for which not to look after that: twice as many each time, half as many after each request that was seen coming."""
_ADDRESS_SPACE: Final = 64 * 1024**3
_HEADER: Final = struct.Struct("<IB")
_REPLY: Final = struct.Struct("<IBBQI")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_REPLY_OVERHEAD: Final = _REPLY.size - 5
_NOTHING: Final = struct.pack("<BQI", 0, 0, 0)
_STEP, _BATCH, _DUMP, _LOAD, _RESET, _CONFIGURE = b"SBDLZC"
_ANSWER, _IMAGE, _REFUSED = b"ri!"


class ReplyLike(Protocol):
    """What a guest answers."""

    @property
    def status(self) -> int: ...
    @property
    def ns(self) -> int: ...
    @property
    def clock_reads(self) -> int: ...
    @property
    def output(self) -> bytes: ...


class GuestLike(Protocol):
    """One instance of the interpreter, as `gloveport.engines.wasm.guest.Guest` is."""

    def step(self, request: bytes, /) -> ReplyLike: ...
    def batch(self, requests: Sequence[bytes], /) -> ReplyLike: ...
    def dump(self, reference: bytes | None = None, /) -> bytes: ...
    def load(self, images: Sequence[bytes], /) -> None: ...
    def reset(self) -> None: ...
    def set_memory_limit(self, limit: int, /) -> None: ...
    def share_flag(self, fd: int, /) -> None: ...


class _Malformed(Exception):
    pass


def serve(sock: socket.socket, guest: GuestLike, *, data_base: int | None = None) -> None:
    """Answers requests on `sock` until the host closes it, or sends what the protocol does not know.

    With `data_base` (bytes of writable private memory that the process had before its first request) the process limits its own
    memory as soon as it learns the guest's: to that plus what handling the largest guest and frame takes.
    """
    buffer = bytearray(_SMALL)
    view = memoryview(buffer)
    have = 0
    configured = False
    ear = _Ear(sock, buffer)
    try:
        while True:
            while have < 5:
                # A whole small frame usually arrives in one call.
                n = sock.recv_into(view[have:]) if have else ear.listen()
                if not n:
                    return
                have += n
            length, kind = _HEADER.unpack_from(buffer)
            if not 1 <= length <= MAX_FRAME:
                return
            body, have = _body(sock, buffer, view, have, 4 + length)
            if kind == _CONFIGURE:
                if configured or len(body) != 8:
                    return
                configured = True
                _configure(guest, _U64.unpack(body)[0], data_base)
            elif configured:
                _answer(sock, guest, kind, body)
            else:
                return
    except (_Malformed, ConnectionError):
        return


class _Ear:
    """Waits for the next frame. While requests follow each other closely (a loop of tool calls) it looks again and again for a
    moment before it sleeps: waking a sleeping processor costs more than the whole request (measured 15 to 40 µs)."""

    __slots__ = ("_buffer", "_close", "_shy", "_shyness", "_sock")

    def __init__(self, sock: socket.socket, buffer: bytearray) -> None:
        self._sock = sock
        self._buffer = buffer
        self._close = False
        """Whether the last request came soon."""
        self._shy = 0
        """Requests for which not to look again and again, because others want the processor."""
        self._shyness = _FEWEST

    def listen(self) -> int:
        """Bytes that came; 0 at the end of the stream."""
        if not processors.MANY:  # (asked before the jail, which forbids it)
            return self._sock.recv_into(self._buffer)
        began = time.monotonic_ns()
        if self._shy:
            self._shy -= 1
        elif self._close:
            last = began
            while last - began < _MOMENT_NS:
                try:
                    n = self._sock.recv_into(self._buffer, 0, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    os.sched_yield()  # the host may be waiting for this very processor
                else:
                    self._shyness = max(_FEWEST, self._shyness >> 1)
                    return n
                now = time.monotonic_ns()
                if now - last > _CONTENDED_NS:
                    self._shy = self._shyness
                    self._shyness = min(_MOST, 2 * self._shyness)
                    break
                last = now
        n = self._sock.recv_into(self._buffer)
        self._close = time.monotonic_ns() - began < 2 * _MOMENT_NS
        return n


def _body(sock: socket.socket, buffer: bytearray, view: memoryview, have: int, end: int) -> tuple[bytes, int]:
    """The body of the frame that ends at `end`, of which `have` bytes are in the buffer; and how many bytes of the next are."""
    if end > _SMALL:
        if have > end:
            raise _Malformed
        head = bytes(view[5:have])
        tail = sock.recv(end - have, socket.MSG_WAITALL) if have < end else b""
        if have + len(tail) != end:
            raise _Malformed
        return head + tail, 0
    while have < end:
        n = sock.recv_into(view[have:])
        if not n:
            raise _Malformed
        have += n
    body = bytes(view[5:end])
    rest = have - end
    if rest:
        buffer[:rest] = buffer[end:have]
    return body, rest


def _configure(guest: GuestLike, limit: int, data_base: int | None) -> None:
    guest.set_memory_limit(limit)
    if data_base is None:
        return
    # The guest's memory once as it is and once as an image, a request and a reply of full size, and what Python needs.
    total = data_base + 2 * limit + 2 * MAX_FRAME + 32 * 1024 * 1024
    # Address space is bounded too, generously (an instance reserves 6 GiB): page tables of what is only read count nowhere else.
    for which, value in ((resource.RLIMIT_DATA, total), (resource.RLIMIT_AS, total + _ADDRESS_SPACE)):
        hard = resource.getrlimit(which)[1]
        if hard == resource.RLIM_INFINITY or value < hard:
            resource.setrlimit(which, (value, value))


def _answer(sock: socket.socket, guest: GuestLike, kind: int, body: bytes) -> None:
    try:
        if kind == _STEP:
            _reply(sock, guest.step(body))
        elif kind == _BATCH:
            _reply(sock, guest.batch(_items(body, _U32.unpack_from(body)[0] if len(body) >= 4 else -1, 4)))
        elif kind == _DUMP:
            _send(sock, _IMAGE, guest.dump(body or None))
        elif kind == _LOAD:
            guest.load(_items(body, body[0] if body else -1, 1))
            _send(sock, _ANSWER, _NOTHING)
        elif kind == _RESET and not body:
            guest.reset()
            _send(sock, _ANSWER, _NOTHING)
        else:
            raise _Malformed
    except ImageError as error:
        _send(sock, _REFUSED, str(error).encode())


def _items(body: bytes, count: int, at: int) -> list[bytes]:
    """`count` times (u32 length, bytes), which must fill `body` from `at` exactly."""
    if count < 0 or count * 4 > len(body):
        raise _Malformed
    items: list[bytes] = []
    for _ in range(count):
        if at + 4 > len(body):
            raise _Malformed
        (length,) = _U32.unpack_from(body, at)
        at += 4
        if at + length > len(body):
            raise _Malformed
        items.append(body[at : at + length])
        at += length
    if at != len(body):
        raise _Malformed
    return items


def _reply(sock: socket.socket, reply: ReplyLike) -> None:
    output = reply.output
    if len(output) > MAX_FRAME - 1 - _REPLY_OVERHEAD:
        raise _Malformed  # the guest's own caps keep it below; the host sees the stream end
    head = _REPLY.pack(1 + _REPLY_OVERHEAD + len(output), _ANSWER, reply.status, reply.ns, reply.clock_reads)
    _write(sock, head, output)


def _send(sock: socket.socket, kind: int, body: bytes) -> None:
    if len(body) > MAX_FRAME - 1:
        kind, body = _REFUSED, b"the image is larger than a frame may be"
    _write(sock, _HEADER.pack(1 + len(body), kind), body)


def _write(sock: socket.socket, head: bytes, body: bytes) -> None:
    if len(body) <= _SMALL:
        sock.sendall(head + body)
        return
    sent = sock.sendmsg((head, body))
    if sent < len(head):
        sock.sendall(head[sent:])
        sent = len(head)
    if sent < len(head) + len(body):
        sock.sendall(memoryview(body)[sent - len(head) :])
