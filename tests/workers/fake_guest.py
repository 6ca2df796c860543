"""A guest without an interpreter: what the worker loop, the zygote and the pool need to know of one.

What attacks import is imported here: a jailed process finds no modules any more.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import time
from collections.abc import Sequence
from typing import NamedTuple

from gloveport.errors import ImageError

_mmap = ctypes.CDLL(None).mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


ATTACKS = (fcntl, mmap, resource)
GUESTS = "fake_guest:guests"


class Reply(NamedTuple):
    status: int
    ns: int
    clock_reads: int
    output: bytes


class FakeGuest:
    """Echoes a step, and obeys a few words: `spin` until interrupted, `die`, `eat` memory, and `python` run in the worker."""

    def __init__(self) -> None:
        self.flag: ctypes.Array[ctypes.c_char] | None = None
        self.limit = 0
        self.images: list[bytes] = []

    def share_flag(self, fd: int) -> None:
        # As the real guest does, without the calls (fstat, dup) that a jailed process may not make.
        address = _mmap(None, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
        self.flag = (ctypes.c_char * 4096).from_address(address)

    def step(self, request: bytes) -> Reply:
        word, _, rest = request.partition(b" ")
        if word == b"spin":
            return self._spin()
        if word == b"die":
            os.abort()
        if word == b"eat":
            try:
                held = bytearray(int(rest))
            except MemoryError:
                return Reply(3, 0, 0, b"")
            return Reply(0, 0, 0, b"%d" % len(held))
        if word == b"limit":
            return Reply(0, 0, 0, b"%d" % self.limit)
        if word == b"python":
            scope: dict[str, object] = {}
            try:
                exec(rest.decode(), scope)  # noqa: S102  (a worker taken over entirely is what the jail must hold)
            except BaseException as error:
                return Reply(2, 0, 0, repr(error).encode())
            return Reply(0, 0, 0, repr(scope.get("result")).encode())
        return Reply(0, 7, 2, request)

    def _spin(self) -> Reply:
        assert self.flag is not None
        while self.flag[0] == b"\0":
            time.monotonic()
        return Reply(1, 0, 0, b"")

    def batch(self, requests: Sequence[bytes]) -> Reply:
        return Reply(0, 0, 0, b"".join(self.step(r).output for r in requests))

    def dump(self, reference: bytes | None = None) -> bytes:
        return b"image" + (reference or b"")

    def load(self, images: Sequence[bytes]) -> None:
        if b"bad" in images:
            raise ImageError("out of bounds")
        self.images = list(images)

    def reset(self) -> None:
        self.images = []

    def set_memory_limit(self, limit: int) -> None:
        self.limit = limit


class Guests:
    def __init__(self, kind: type[FakeGuest]) -> None:
        self.kind = kind

    def __call__(self) -> FakeGuest:
        return self.kind()

    def rehearse(self, guest: FakeGuest) -> None:
        pass

    def warm(self, guest: FakeGuest) -> None:
        pass


def guests() -> Guests:
    return Guests(FakeGuest)


def broken() -> Guests:
    raise RuntimeError("this guest does not load")


class _Dies(FakeGuest):
    def share_flag(self, fd: int) -> None:
        os._exit(3)


def dying() -> Guests:
    return Guests(_Dies)


def slow() -> Guests:
    return Guests(_Slow)


class _Slow(FakeGuest):
    def share_flag(self, fd: int) -> None:
        time.sleep(0.3)
        super().share_flag(fd)


# ── zygotes whose jail has a hole ────────────────────────────────────────────────────────────────────────────────────


def without_seccomp() -> Guests:
    from gloveport.engines.jail import seccomp

    seccomp.install = lambda program: None
    return Guests(FakeGuest)


def without_landlock() -> Guests:
    from gloveport.engines.jail import landlock

    def restrict(rules: object = (), *, connect: bool = False) -> int:
        raise OSError(95, "not supported")

    landlock.restrict = restrict
    return Guests(FakeGuest)


def with_an_open_file() -> Guests:
    return _holding(b"unsealed", 0)


def with_a_sealed_file() -> Guests:
    return _holding(b"sealed", 0x2 | 0x4 | 0x8)


_held: list[int] = []


def _holding(name: bytes, seals: int) -> Guests:
    fd = os.memfd_create(name.decode(), os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, 1033, seals)
    _held.append(fd)
    return Guests(FakeGuest)


def without_root() -> Guests:
    from gloveport.engines.jail import namespaces

    namespaces.build_root = lambda *a: None
    return Guests(FakeGuest)


def without_child_filter() -> Guests:
    from gloveport.engines.jail import enter

    enter.harden_child = lambda *a, **k: None
    return Guests(FakeGuest)
