"""The log of a box's network: JSON lines, in the box's directory. It outlives gateways, and has a size.

A connection has a line when it begins and one with the same id when it has ended, so that none is lost with its gateway.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

__all__ = ("LOG_FILE", "Journal", "NetworkLogRow", "read_rows")

LOG_FILE: Final = "network.log"
MAX_LOG: Final = 1 << 20
"""Bytes of each of the two files, the newer one and the older one."""
_MAX_TEXT: Final = 512


class NetworkLogRow(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One connection, or one request of those whose content the gateway sees (plain HTTP, and hosts that get a secret)."""

    id: str
    ts: float
    """When it began: seconds since the epoch."""
    kind: Literal["connection", "request"] = "connection"
    verdict: Literal["allowed", "blocked", "failed"] = "allowed"
    """`failed`: it was allowed, and the name or the server did not answer."""
    host: str = ""
    """The name that was looked up, or the address."""
    port: int = 0
    scheme: str = "tcp"
    dst_ip: str = ""
    """The address that was connected to."""
    match_rule: str = ""
    """The rule that decided; empty if none did."""
    reason: str = ""
    """Why not, as the program in the box was told."""
    bytes_out: int = 0
    """From the box."""
    bytes_in: int = 0
    ended: float = 0.0
    """0 while it lasts."""
    method: str = ""
    path: str = ""
    """Without the query."""
    status: int = 0
    """What the server answered; 403 where the gateway did."""
    secret: str = ""
    """The name of the secret that was put in, or that went where it may not."""
    violation: bool = False
    """Whether a placeholder was sent to a host that is not its own, or an answer had the value."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(NetworkLogRow).decode
_count = itertools.count()


class Journal:
    """Writes rows. What cannot be written is not: a full disk ends no connection."""

    def __init__(self, folder: str | None) -> None:
        self._path = None if folder is None else os.path.join(folder, LOG_FILE)
        self._descriptor = -1
        self._size = 0
        self._prefix = f"{time.time_ns() // 1000:x}"

    def begin(self, **known: object) -> NetworkLogRow:
        """A row that is not written yet."""
        fields = {name: value[:_MAX_TEXT] if isinstance(value, str) else value for name, value in known.items()}
        return NetworkLogRow(id=f"{self._prefix}-{next(_count)}", ts=time.time(), **fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    def end(self, row: NetworkLogRow) -> None:
        """Writes it, ended now."""
        row.ended = time.time()
        self.write(row)

    def note(self, **known: object) -> None:
        """A row of what was over at once."""
        self.end(self.begin(**known))

    def write(self, row: NetworkLogRow) -> None:
        """Writes what is known of it."""
        if self._path is None:
            return
        line = _encode(row) + b"\n"
        with contextlib.suppress(OSError):
            if self._descriptor < 0 or self._size + len(line) > MAX_LOG:
                self._open()
            os.write(self._descriptor, line)
            self._size += len(line)

    def close(self) -> None:
        """Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        assert self._path is not None
        if self._descriptor >= 0:
            self.close()
            os.replace(self._path, f"{self._path}.1")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size


def read_rows(folder: str) -> list[NetworkLogRow]:
    """Every row that is still there, oldest first; of those with one id the last. Needs no gateway."""
    rows: dict[str, NetworkLogRow] = {}
    for name in (f"{LOG_FILE}.1", LOG_FILE):
        for line in _lines(os.path.join(folder, name)):
            with contextlib.suppress(msgspec.MsgspecError):  # cut short by the end of a gateway
                row = _decode(line)
                rows[row.id] = row
    return list(rows.values())


def _lines(path: str) -> Iterator[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    with open(descriptor, "rb") as file:
        yield from file
