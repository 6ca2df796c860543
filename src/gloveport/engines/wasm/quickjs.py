"""The guest as the zygote loads it, and what makes its forks quick: the pages that every session writes, copied beforehand."""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import zlib
from typing import Final

from gloveport.engines.wasm.guest import Guest
from gloveport.engines.wasm.module import GuestModule
from gloveport.errors import EngineUnavailableError, GloveportError

__all__ = ("QuickJS", "guests")

_PAGE: Final = 4096
_STACK_PAGES: Final = 2
_START_LIMIT: Final = 64 * 1024 * 1024
"""Bytes; replaced by the session's own limit before its first request."""
_MADV_POPULATE_WRITE: Final = 23
"""Linux 5.14; where it is not known the pages are copied when they are written."""

_OPTIONS: Final = {"clock": 0, "seed": "0", "frozen": False, "namespace": None, "tools": ["tool"], "bootstrap": None}
_SOURCE: Final = (
    "(async ($) => { $({__proto__: null});\nconst text = JSON.stringify([1, 'a']); console.log(text); return text })"
)


class QuickJS:
    """Makes instances of one compiled guest."""

    def __init__(self, module: GuestModule) -> None:
        self._module = module
        self._madvise = ctypes.CDLL(None).madvise
        self._madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._written: list[tuple[int, int]] = []
        """Offset and length of the runs of pages that a short session writes."""

    def __call__(self) -> Guest:
        return Guest(self._module, memory_limit=_START_LIMIT)

    def rehearse(self, guest: Guest) -> None:
        """Runs a short session, to learn what it writes; then `guest` is as new."""
        try:
            guest.step(b"O" + _text(json.dumps(_OPTIONS)))
            guest.step(b"R" + struct.pack("<II", 1, 4096) + _text(_SOURCE))
            image = zlib.decompress(guest.dump())
        except GloveportError:
            return  # only speed is lost; a guest that is broken shows it to a session
        finally:
            guest.reset()
        count: int = struct.unpack_from("<I", image, 8)[0]
        offsets: set[int] = set(struct.unpack_from(f"<{count}I", image, 12))
        top = self._module.stack_pointer & -_PAGE
        offsets.update(range(top - _STACK_PAGES * _PAGE, top + _PAGE, _PAGE))
        self._written = _runs(sorted(o for o in offsets if 0 <= o < self._module.base_size))

    def warm(self, guest: Guest) -> None:
        """In a fork: has the pages copied that a session writes first. What is in them stays."""
        start = guest.flag_address - self._module.flag_offset
        for offset, length in self._written:
            self._madvise(start + offset, length, _MADV_POPULATE_WRITE)


def guests() -> QuickJS:
    """Loads the compiled guest, compiling it first where that was never done."""
    try:
        module = GuestModule.load(compiled_only=True)
    except EngineUnavailableError:
        # Compiling starts threads, which a process that is about to fork cannot have: a child compiles into the cache.
        pid = os.fork()
        if pid == 0:
            _compile()
        os.waitpid(pid, 0)
        module = GuestModule.load(compiled_only=True)
    return QuickJS(module)


def _compile() -> None:
    try:
        GuestModule.load()
    except GloveportError as error:
        print(error, file=sys.stderr, flush=True)
    finally:
        os._exit(0)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def _runs(offsets: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and sum(runs[-1]) == offset:
            runs[-1] = (runs[-1][0], runs[-1][1] + _PAGE)
        else:
            runs.append((offset, _PAGE))
    return runs
