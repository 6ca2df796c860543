"""The host's side of the frames, as short as a test needs it."""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import NamedTuple, Self

from gloveport.engines.wasm.handle import Worker


class Answer(NamedTuple):
    kind: str
    status: int
    ns: int
    clock_reads: int
    output: bytes


def frame(kind: str, body: bytes = b"") -> bytes:
    return struct.pack("<I", 1 + len(body)) + kind.encode() + body


def items(count_format: str, *parts: bytes) -> bytes:
    return struct.pack(count_format, len(parts)) + b"".join(struct.pack("<I", len(p)) + p for p in parts)


def configure(limit: int = 64 << 20) -> bytes:
    return frame("C", struct.pack("<Q", limit))


def receive(sock: socket.socket) -> Answer:
    """Raises `EOFError` at the end of the stream."""
    (length,) = struct.unpack("<I", _exactly(sock, 4))
    body = _exactly(sock, length)
    kind = chr(body[0])
    if kind != "r":
        return Answer(kind, 0, 0, 0, body[1:])
    status, ns, reads = struct.unpack_from("<BQI", body, 1)
    return Answer(kind, status, ns, reads, body[14:])


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        try:
            more = sock.recv(size - len(data))
        except ConnectionError:
            more = b""
        if not more:
            raise EOFError(f"{len(data)} of {size} bytes")
        data += more
    return data


class Line:
    """A configured worker."""

    def __init__(self, worker: Worker, limit: int = 64 << 20) -> None:
        self.worker = worker
        worker.sock.settimeout(20)
        worker.sock.sendall(configure(limit))

    def ask(self, kind: str, body: bytes = b"") -> Answer:
        self.worker.sock.sendall(frame(kind, body))
        return receive(self.worker.sock)

    def step(self, request: bytes) -> Answer:
        return self.ask("S", request)

    def python(self, code: str) -> str:
        """What `result` is after `code` ran in the worker: its `repr`, or the exception's."""
        return self.step(b"python " + code.encode()).output.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.close()


def alive(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(condition: object, seconds: float = 5.0) -> bool:
    """Whether a condition comes true within a generous time."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.003)
    return bool(condition())


def descendants(pid: int) -> set[int]:
    """All processes below `pid`, by walking `/proc`."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat:
                    parent = int(stat.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(name))
    found: set[int] = set()
    left = [pid]
    while left:
        for child in children.get(left.pop(), ()):
            found.add(child)
            left.append(child)
    return found
