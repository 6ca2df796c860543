"""A small client of the program of machines: frames, fields, and a directory for a box. Only what tests need."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Any

EXEC, ATTACH, INPUT, SIGNAL, RESIZE, LIST, FORGET, ACK = range(1, 9)
READ, WRITE, STAT, LISTDIR, MKDIR, REMOVE, MOVE, CHMOD, GLOB, WATCH, REALPATH, TAR_OUT, TAR_IN = range(0x10, 0x1D)
COPY, SYMLINK, HELLO, STATS, QUIESCE, RESUMED, RESEED, DIAL = range(0x1E, 0x26)
END, DATA = 0x2E, 0x2F
STATUS, FREEZE, THAW, KILL, TIMERS, SNAPSHOT_BEGIN, SNAPSHOT_END, EVENTS, BOX_STATS, RELAYER = range(0x40, 0x4A)
OK, ERROR, ANSWER, ENTRY, STARTED, OUTPUT, EXIT, EVENT, PROCESS = range(0x80, 0x89)
DONE = 0x8E

TAGS = {
    "argv": 1,
    "shell": 2,
    "cwd": 3,
    "env": 4,
    "user": 5,
    "stdin": 6,
    "pty": 7,
    "rows": 8,
    "cols": 9,
    "timeout_ms": 10,
    "keep_bytes": 11,
    "detach": 12,
    "follow": 13,
    "rlimit": 14,
    "label": 15,
    "output_limit": 16,
    "id": 20,
    "out_offset": 21,
    "err_offset": 22,
    "data": 23,
    "eof": 24,
    "signo": 25,
    "scope": 26,
    "path": 30,
    "offset": 31,
    "length": 32,
    "mode": 33,
    "append": 34,
    "atomic": 35,
    "parents": 36,
    "follow_link": 37,
    "depth": 38,
    "recursive": 39,
    "protect": 40,
    "to": 41,
    "replace": 42,
    "pattern": 43,
    "port": 44,
    "version": 50,
    "pid": 51,
    "errno": 60,
    "message": 61,
    "code": 62,
    "name": 70,
    "type": 71,
    "size": 72,
    "mtime_ns": 73,
    "uid": 74,
    "gid": 75,
    "target": 76,
    "target_type": 77,
    "exit_code": 80,
    "signal": 81,
    "timed_out": 82,
    "limit": 83,
    "out_total": 84,
    "err_total": 85,
    "out_skipped": 86,
    "err_skipped": 87,
    "event": 88,
    "state": 89,
    "reason": 90,
    "ms": 91,
    "boot_id": 92,
    "since": 93,
    "wall": 94,
    "restarts": 95,
    "supervisor": 96,
    "pid1": 97,
    "pause_after_ms": 100,
    "idle_ms": 101,
    "delete_after_ms": 102,
    "wake": 103,
    "pause_in_ms": 104,
    "delete_in_ms": 105,
    "memory": 110,
    "pids": 111,
    "cpu_ms": 112,
    "disk": 113,
    "frozen_ms": 114,
    "lower": 115,
    "upper": 116,
    "work": 117,
}
NAMES = {tag: name for name, tag in TAGS.items()}
TEXTS = {1, 2, 3, 4, 5, 14, 15, 23, 30, 40, 41, 43, 61, 62, 70, 71, 76, 77, 83, 88, 89, 90, 92, 115, 116, 117}


class BoxError(Exception):
    """An ERROR frame."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.errno: int = fields["errno"]
        self.code: str = fields["code"].decode()


def encode(kind: int, **fields: Any) -> bytes:
    body = bytearray()
    for name, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            data = struct.pack("<q", one) if isinstance(one, int) else one.encode() if isinstance(one, str) else one
            body += struct.pack("<BI", TAGS[name], len(data)) + data
    return struct.pack("<IB", len(body) + 1, kind) + body


def decode(body: bytes) -> dict[str, Any]:
    fields, at = {}, 0
    while at < len(body):
        tag, size = struct.unpack_from("<BI", body, at)
        data = body[at + 5 : at + 5 + size]
        fields[NAMES[tag]] = data if tag in TEXTS else struct.unpack("<q", data)[0]
        at += 5 + size
    return fields


class Connection:
    """One connection to `agent.sock` or `ctl.sock` of a box's directory."""

    def __init__(self, directory: Path, name: str = "agent.sock", timeout: float = 20) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        folder = os.open(directory, os.O_PATH)
        try:
            self.socket.connect(f"/proc/self/fd/{folder}/{name}")
        except BaseException:
            self.socket.close()
            raise
        finally:
            os.close(folder)
        self.buffer = bytearray()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, kind: int, **fields: Any) -> None:
        self.socket.sendall(encode(kind, **fields))

    def frame(self) -> tuple[int, bytes]:
        """The next frame: `EOFError` when the other end closed."""
        while len(self.buffer) < 4 or len(self.buffer) < 4 + struct.unpack_from("<I", self.buffer)[0]:
            data = self.socket.recv(1 << 18)
            if not data:
                raise EOFError
            self.buffer += data
        size = struct.unpack_from("<I", self.buffer)[0]
        kind, body = self.buffer[4], bytes(self.buffer[5 : 4 + size])
        del self.buffer[: 4 + size]
        return kind, body

    def answer(self) -> tuple[int, dict[str, Any]]:
        kind, body = self.frame()
        if kind == ERROR:
            raise BoxError(decode(body))
        return kind, decode(body)

    def ask(self, kind: int, **fields: Any) -> dict[str, Any]:
        self.send(kind, **fields)
        return self.answer()[1]

    def follow(self) -> dict[str, Any]:
        """Until EXIT; its fields, and `stdout` and `stderr`. A gap in the offsets is an error."""
        streams = {1: bytearray(), 2: bytearray()}
        first: dict[int, int] = {}
        gaps = 0
        while True:
            kind, body = self.frame()
            if kind == OUTPUT:
                stream, offset = struct.unpack_from("<BQ", body)
                expected = first.setdefault(stream, offset) + len(streams[stream])
                gaps += offset - expected
                first[stream] += offset - expected
                streams[stream] += body[9:]
            elif kind == EXIT:
                return {**decode(body), "stdout": bytes(streams[1]), "stderr": bytes(streams[2]), "gaps": gaps}
            elif kind == ERROR:
                raise BoxError(decode(body))

    def run(self, *argv: str, **fields: Any) -> dict[str, Any]:
        command: dict[str, Any] = {"argv": list(argv)} if argv else {}
        self.send(EXEC, **command, follow=1, **fields)
        kind, started = self.answer()
        assert kind == STARTED
        return {**self.follow(), "pid": started["pid"]}

    def sh(self, text: str, **fields: Any) -> dict[str, Any]:
        return self.run(shell=text, **fields)

    def read(self, path: str, **fields: Any) -> bytes:
        self.send(READ, path=path, **fields)
        data = bytearray()
        while True:
            kind, body = self.frame()
            if kind == ANSWER:
                data += body
            elif kind == ERROR:
                raise BoxError(decode(body))
            else:
                assert kind == DONE and decode(body)["size"] == len(data)
                return bytes(data)

    def write(self, path: str, data: bytes, chunk: int = 1 << 18, **fields: Any) -> dict[str, Any]:
        self.send(WRITE, path=path, **fields)
        return self.stream(data, chunk)

    def stream(self, data: bytes, chunk: int = 1 << 18) -> dict[str, Any]:
        for at in range(0, len(data), chunk):
            part = data[at : at + chunk]
            self.socket.sendall(struct.pack("<IB", len(part) + 1, DATA) + part)
        self.socket.sendall(struct.pack("<IB", 1, END))
        return self.answer()[1]

    def entries(self, kind: int, **fields: Any) -> list[dict[str, Any]]:
        self.send(kind, **fields)
        found = []
        while True:
            kind, answer = self.answer()
            if kind == DONE:
                return found
            found.append(answer)
