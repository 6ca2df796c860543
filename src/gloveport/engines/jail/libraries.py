"""The shared libraries of a program, so that a jail can show it these files and no directory of libraries."""

from __future__ import annotations

import functools
import os
import re
import struct
import subprocess
from typing import Final

from gloveport.errors import EngineUnavailableError

__all__ = ("Libraries", "libraries")

_PT_INTERP: Final = 3
_PATH: Final = re.compile(r"(/[^\s(]+) \(0x")

Libraries = tuple[str | None, tuple[str, ...]]
"""The dynamic loader (`None` for a static program) and the libraries, as absolute paths."""


def libraries(program: str) -> Libraries:
    """What `program`, an ELF file that is trusted, loads at its start. Asks its own loader (`--list`, as glibc and musl know it).

    Raises `EngineUnavailableError` when the file is no program of this machine, or a library is missing.
    """
    status = os.stat(program)
    return _libraries(program, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=8)
def _libraries(program: str, modified: int, size: int) -> Libraries:
    del modified, size  # part of the cache's key
    loader = _interpreter(program)
    if loader is None:
        return None, ()
    try:
        listed = subprocess.run([loader, "--list", program], capture_output=True, text=True, env={}, check=False)
    except OSError as error:  # a program for another C library, say
        raise EngineUnavailableError(
            f"{program} is loaded by {loader}, which cannot be executed here: {error}"
        ) from error
    if listed.returncode != 0 or "not found" in listed.stdout:
        raise EngineUnavailableError(f"{program} does not load: {(listed.stderr or listed.stdout).strip()}")
    found = dict.fromkeys(path for path in _PATH.findall(listed.stdout) if path not in (loader, program))
    return loader, tuple(found)


def _interpreter(program: str) -> str | None:
    with open(program, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
            raise EngineUnavailableError(f"{program} is not a 64-bit ELF program")
        (offset,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        table = file.read(size * count)
        for i in range(count):
            kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", table, i * size)
            if kind == _PT_INTERP:
                file.seek(start)
                return file.read(length).rstrip(b"\0").decode()
    return None
