"""The guest module: loaded, compiled once per machine, shared by every instance of a process.

Compiled code is executable, so it is loaded only from a directory that is ours alone, only from files that we own, and only
when the content matches the hash at its front. A file is named after everything that decides whether its code fits: the
wasmtime version, the processor's features and the guest's hash.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import stat
import tempfile
import threading
from pathlib import Path
from typing import Any, Final, Self

import wasmtime

from ...errors import EngineUnavailableError
from . import memory
from .build import NATIVE

__all__ = ("FORMAT", "GuestModule", "native_directory")

FORMAT: Final = 1
"""The format of requests, messages and images that this release speaks."""

MAX_WASM_STACK: Final = 4 << 20
"""Bytes of native stack for a guest, half of a usual thread's. The engine's own limit (STACK_LIMIT in native/quickjs/entry.c) is
reached before: a RangeError that code can catch."""

_MAGIC: Final = b"gloveport compiled guest 1\n"
_HOW_TO_BUILD: Final = "build it with `pip install .` (or `python hatch_build.py` in a source tree)"


class GuestModule:
    """A compiled guest. Immutable; any number of threads may make instances of it.

    Use `GuestModule.load()`. Attributes are for `Guest`.
    """

    __slots__ = (
        "base",
        "base_address",
        "base_size",
        "engine",
        "flag_offset",
        "in_capacity",
        "in_offset",
        "io_offset",
        "module",
        "sha256",
        "stack_pointer",
    )

    def __init__(self, engine: wasmtime.Engine, module: wasmtime.Module, sha256: str) -> None:
        self.engine = engine
        self.module = module
        self.sha256 = sha256
        # One instance now: it gives the base image, and makes wasmtime create the memory image that the others map
        # (which a jailed process could not do).
        view = memory.Instance(self, limit=None)
        self.io_offset = view.call("io")
        io = view.io(self.io_offset)
        self.in_offset, self.in_capacity, self.flag_offset = io.in_offset, io.in_capacity, io.flag_offset
        self.stack_pointer = view.stack_pointer()
        self.base = view.snapshot()
        self.base_size = len(self.base)
        self.base_address = ctypes.cast(ctypes.c_char_p(self.base), ctypes.c_void_p).value or 0
        view.check_reset(self)
        view.close()

    @classmethod
    def load(cls, compiled_only: bool = False) -> Self:
        """The guest of this installation: from the cache of compiled modules, else compiled (about a second) and cached.

        `compiled_only` refuses to compile, for processes that must not start threads.

        Raises `EngineUnavailableError` when the guest is not built, is of another format, or is not compiled yet and must
        not be compiled.
        """
        source, sha256 = _guest()
        engine = _engine(parallel=not compiled_only)
        path = compiled_path(sha256)
        compiled = _read_private(path)
        if compiled is not None:
            try:
                return cls(engine, wasmtime.Module.deserialize(engine, compiled), sha256)
            except wasmtime.WasmtimeError:
                pass  # made by a wasmtime that calls itself the same: compile again
        if compiled_only:
            raise EngineUnavailableError(
                f"the guest is not compiled for this machine yet ({path} is missing or not ours)"
            )
        module = wasmtime.Module(engine, source)
        _write_private(path, bytes(module.serialize()))
        return cls(engine, module, sha256)


def compiled_path(sha256: str) -> Path:
    """Where the compiled form of that guest is kept."""
    return cache_directory() / f"guest-{_key(sha256)}"


def native_directory() -> Path:
    """Where the package build puts what is not Python: `gloveport/_native`."""
    return NATIVE


def _guest() -> tuple[bytes, str]:
    folder = native_directory()
    try:
        description: Any = json.loads((folder / "guest.json").read_bytes())
        source = (folder / "guest.wasm").read_bytes()
    except (OSError, ValueError) as error:
        raise EngineUnavailableError(f"the wasm guest is not built ({error}): {_HOW_TO_BUILD}") from None
    if description.get("format") != FORMAT:
        raise EngineUnavailableError(
            f"the wasm guest has format {description.get('format')}, not {FORMAT}: {_HOW_TO_BUILD}"
        )
    sha256 = hashlib.sha256(source).hexdigest()
    if sha256 != description.get("sha256"):
        raise EngineUnavailableError(f"the wasm guest and its description do not belong together: {_HOW_TO_BUILD}")
    return source, sha256


def _engine(*, parallel: bool) -> wasmtime.Engine:
    config = wasmtime.Config()
    # No fuel and no epochs: they cost 28 % (wasmtime 50); the guest polls a flag in its memory instead.
    memory.set_stack(config, _native_stack())
    config.memory_init_cow = True
    config.memory_may_move = False  # the address of the interrupt flag must stay
    config.parallel_compilation = parallel
    config.wasm_threads = False
    return wasmtime.Engine(config)


def _native_stack() -> int:
    """What a guest may use of the stack of any thread here: less than `MAX_WASM_STACK` where threads have small ones.

    Beyond it a guest traps; it must never reach the thread's guard page, which would end the process.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    # glibc: threads get the soft limit at program start, or 2 MiB when it is unlimited
    thread = 2 << 20 if soft == resource.RLIM_INFINITY else soft
    chosen = threading.stack_size()
    return min(MAX_WASM_STACK, max(256 << 10, (min(thread, chosen) if chosen else thread) // 2))


def _key(sha256: str) -> str:
    version = importlib.metadata.version("wasmtime")
    parts = (version, platform.machine(), _processor(), sha256)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _processor() -> str:
    """The model and the features of the first processor: compiled code uses what it finds."""
    wanted = ("flags", "features", "model name", "cpu implementer", "cpu part")
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            block = file.read(16384).split("\n\n", 1)[0]
    except OSError:
        return platform.processor()
    lines = [line for line in block.splitlines() if line.partition(":")[0].strip().lower() in wanted]
    return "\n".join(" ".join(sorted(line.partition(":")[2].split())) for line in lines)


def cache_directory() -> Path:
    """The private folder of compiled guests: `$XDG_CACHE_HOME/gloveport`, else `~/.cache/gloveport`, else one below /tmp."""
    base = os.environ.get("XDG_CACHE_HOME")
    home = Path(base) if base and os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache"
    for path in (home / "gloveport", Path(tempfile.gettempdir()) / f"gloveport-{os.getuid()}"):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(os.lstat(path), stat.S_ISDIR) and os.access(path, os.W_OK | os.X_OK):
                return path
        except OSError:
            continue
    raise EngineUnavailableError(
        "no private directory for compiled modules: set XDG_CACHE_HOME to one that only you can write"
    )


def _is_private(status: os.stat_result, kind: Any) -> bool:
    """Of that kind (so no link), ours, and not writable by anyone else."""
    return kind(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def _read_private(path: Path) -> bytes | None:
    """The compiled code in `path`; None when there is none, or it is not certainly ours and whole."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:
        if not _is_private(os.fstat(fd), stat.S_ISREG):
            return None
        data = file.read()
    head = len(_MAGIC)
    if data[:head] != _MAGIC or hashlib.sha256(data[head + 32 :]).digest() != data[head : head + 32]:
        return None
    return data[head + 32 :]


def _write_private(path: Path, compiled: bytes) -> None:
    """Atomically; a cache that cannot be written only costs time."""
    try:
        fd, name = tempfile.mkstemp(dir=path.parent, prefix=".guest-")  # mode 0600
    except OSError:
        return
    try:
        with open(fd, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(compiled).digest() + compiled)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
