"""One instance's linear memory and calls into it, by the shortest way through wasmtime's C API.

wasmtime-py's own call path costs 0.2 ms per call (50.0); `wasmtime_func_call_unchecked` through ctypes costs a few
microseconds and releases the interpreter lock as well. Everything that is read from linear memory is hostile: a guest that
broke the engine writes there what it likes, so every pointer is checked against the size of the memory before it is used.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from ctypes import c_char_p, c_int, c_long, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import wasmtime
from wasmtime import _bindings  # pyright: ignore[reportPrivateUsage]

from ...errors import EngineUnavailableError

if TYPE_CHECKING:
    from .module import GuestModule

__all__ = ("PAGE", "Instance", "Trapped")

PAGE: Final = 4096
WASM_PAGE: Final = 65536
_IO: Final = struct.Struct("<7I")
_CHUNK: Final = 16 * PAGE


def _function(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    """A prototype of our own: `library[name]` is a new object each time, so nobody else's prototype changes."""
    function = library[name]
    function.restype, function.argtypes = result, list(arguments)
    return function


_wasmtime: Any = getattr(_bindings, "dll")  # noqa: B009  (not declared as exported)
_call = _function(_wasmtime, "wasmtime_func_call_unchecked", c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p)
_data = _function(_wasmtime, "wasmtime_memory_data", c_void_p, c_void_p, c_void_p)
_size = _function(_wasmtime, "wasmtime_memory_data_size", c_size_t, c_void_p, c_void_p)
_set_global = _function(_wasmtime, "wasmtime_global_set", c_void_p, c_void_p, c_void_p, c_void_p)
_error_delete = _function(_wasmtime, "wasmtime_error_delete", None, c_void_p)
_trap_delete = _function(_wasmtime, "wasm_trap_delete", None, c_void_p)
_set_async_stack = _function(_wasmtime, "wasmtime_config_async_stack_size_set", None, c_void_p, c_size_t)
_libc: Any = ctypes.CDLL(None, use_errno=True)
_memcmp = _function(_libc, "memcmp", c_int, c_void_p, c_void_p, c_size_t)
_madvise = _function(_libc, "madvise", c_int, c_void_p, c_size_t, c_int)
_mmap = _function(_libc, "mmap", c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_long)
_MADV_DONTNEED: Final = 4
_MADV_POPULATE_WRITE: Final = 23
_MAP_FIXED: Final = 0x10
_ZERO: Final = bytes(_CHUNK)
_ZERO_ADDRESS: Final = ctypes.cast(c_char_p(_ZERO), c_void_p).value or 0


def set_stack(config: wasmtime.Config, size: int) -> None:
    """Let guests use `size` bytes of a thread's stack.

    wasmtime 50 aborts the process when the stack of its asynchronous mode, which is not used here and which wasmtime-py has no
    setting for, is smaller.
    """
    pointer: Any = config.ptr()
    _set_async_stack(ctypes.cast(pointer, c_void_p), size + (1 << 20))
    config.max_wasm_stack = size


class Trapped(Exception):
    """The guest trapped; its memory is in an unknown state."""


class Io(NamedTuple):
    """The guest's `io` block (native/quickjs/output.c)."""

    in_offset: int
    in_capacity: int
    out_offset: int
    out_length: int
    flag_offset: int
    clock_reads: int
    heap_pages: int


class Instance:
    """One instance of the guest: calls, and bounds-checked access to its memory. Not thread-safe."""

    __slots__ = (
        "_arguments",
        "_arguments_at",
        "_context",
        "_functions",
        "_keep",
        "_limit",
        "_memory",
        "_memory_at",
        "_pointer",
        "_store",
        "_trap",
        "_trap_at",
        "address",
    )

    def __init__(self, module: GuestModule, limit: int | None) -> None:
        self._store = wasmtime.Store(module.engine)
        self._limit: int | None = None
        if limit is not None:
            self.set_limit(limit)
        try:
            instance = wasmtime.Instance(self._store, module.module, [])
        except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
            raise EngineUnavailableError(f"cannot make a guest: {error}") from None
        exports: Any = instance.exports(self._store)
        self._memory: wasmtime.Memory = exports["memory"]
        self._pointer: wasmtime.Global = exports["__stack_pointer"]
        context: Any = self._store._context()  # pyright: ignore[reportPrivateUsage]
        self._context = ctypes.cast(context, c_void_p).value
        raw = {name: exports[name]._func for name in ("step", "reserve", "io")}
        self._functions = {name: ctypes.addressof(function) for name, function in raw.items()}
        raw_memory: Any = self._memory._memory  # pyright: ignore[reportPrivateUsage]
        self._memory_at = ctypes.addressof(raw_memory)
        self._arguments = (ctypes.c_uint64 * 4)()  # two wasmtime_val_raw_t
        self._arguments_at = ctypes.addressof(self._arguments)
        self._trap = c_void_p()
        self._trap_at = ctypes.addressof(self._trap)
        self._keep = (raw, raw_memory, instance)
        self.address: int = _data(self._context, self._memory_at)
        """Of the memory in this process; it never moves."""

    def call(self, name: str, argument: int = 0) -> int:
        """One of `step`, `reserve` (an argument) and `io` (none): its result as an unsigned number."""
        self._arguments[0] = argument
        error = _call(self._context, self._functions[name], self._arguments_at, 1, self._trap_at)
        if error or self._trap:
            self._forget(error)
            raise Trapped
        return self._arguments[0] & 0xFFFFFFFF

    def _forget(self, error: int | None) -> None:
        if error:
            _error_delete(error)
        if self._trap:
            _trap_delete(self._trap)
            self._trap.value = None

    def size(self) -> int:
        """Bytes of memory now."""
        return _size(self._context, self._memory_at)

    def io(self, offset: int) -> Io:
        return Io(*_IO.unpack(ctypes.string_at(self.address + offset, _IO.size)))

    def read(self, offset: int, length: int) -> bytes:
        if not length:
            return b""
        if offset + length > self.size():
            raise Trapped
        return ctypes.string_at(self.address + offset, length)

    def write(self, offset: int, data: bytes | memoryview, length: int) -> None:
        if offset + length > self.size():
            raise Trapped
        source = data if isinstance(data, bytes) else bytes(data)
        ctypes.memmove(self.address + offset, source, length)

    def copy_in(self, offset: int, source: int, length: int) -> None:
        """From an address of this process; the caller has checked both ends."""
        ctypes.memmove(self.address + offset, source, length)

    def snapshot(self) -> bytes:
        return ctypes.string_at(self.address, self.size())

    def stack_pointer(self) -> int:
        value: Any = self._pointer.value(self._store)
        return value & 0xFFFFFFFF

    def grow_to(self, size: int) -> bool:
        """Make the memory at least `size` bytes (a multiple of 64 KiB). False when the limit forbids it."""
        more = (size - self.size()) // WASM_PAGE
        if more > 0:
            try:
                self._memory.grow(self._store, more)
            except wasmtime.WasmtimeError:
                return False
        return True

    def set_limit(self, limit: int) -> None:
        if limit != self._limit:
            self._store.set_limits(memory_size=limit)
            self._limit = limit

    def reset(self, module: GuestModule) -> None:
        """The base image again, in place: private pages of the mapping are dropped, which shows the module's own again.

        Memory that was grown stays, as zeros. (A new instance would cost 0.2 ms, and a shared flag page would be lost.)
        """
        if _madvise(self.address, self.size(), _MADV_DONTNEED):
            raise EngineUnavailableError(f"madvise failed: errno {ctypes.get_errno()}")
        value: Any = _bindings.wasmtime_val_t(kind=0)  # an i32; `Global.set_value` takes fifty times as long
        value.of.i32 = module.stack_pointer
        pointer: Any = self._pointer._global  # pyright: ignore[reportPrivateUsage]
        if _set_global(self._context, ctypes.addressof(pointer), ctypes.addressof(value)):
            raise EngineUnavailableError("the guest's stack pointer cannot be set")

    def populate(self, offset: int, length: int) -> None:
        """Have these pages at hand: one call instead of a fault for each (from Linux 5.14 on; before it does nothing)."""
        _madvise(self.address + offset, length, _MADV_POPULATE_WRITE)

    def check_reset(self, module: GuestModule) -> None:
        """That `reset` does what it says with this wasmtime and this kernel; without, sessions would mix."""
        probes = (module.io_offset, module.base_size - 1, module.stack_pointer - 1)
        for at in probes:
            ctypes.memset(self.address + at, 0xA5, 1)
        self.reset(module)
        if self.differences(module.base_address, 0, module.base_size):
            raise EngineUnavailableError("wasmtime does not map the guest's memory copy-on-write here")

    def share_page(self, offset: int, fd: int) -> None:
        """Map the first page of `fd` over the page at `offset`, shared."""
        flags = mmap.MAP_SHARED | _MAP_FIXED
        address = _mmap(self.address + offset, PAGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
        if address != self.address + offset:
            raise OSError(ctypes.get_errno(), "cannot share the interrupt page")

    def differences(self, other: int, start: int, end: int) -> list[int]:
        """Offsets of the pages in [start, end) that differ from the memory at address `other` (the same offsets)."""
        found: list[int] = []
        mine = self.address
        for chunk in range(start - start % _CHUNK, end, _CHUNK):
            first, last = max(chunk, start), min(chunk + _CHUNK, end)
            if _memcmp(mine + first, other + first, last - first):
                found += [at for at in range(first, last, PAGE) if _memcmp(mine + at, other + at, PAGE)]
        return found

    def not_zero(self, start: int, end: int) -> list[int]:
        """Offsets of the pages in [start, end) that are not all zero."""
        found: list[int] = []
        mine = self.address
        for first in range(start, end, _CHUNK):
            last = min(first + _CHUNK, end)
            if _memcmp(mine + first, _ZERO_ADDRESS, last - first):
                found += [at for at in range(first, last, PAGE) if _memcmp(mine + at, _ZERO_ADDRESS, PAGE)]
        return found

    def same_page(self, offset: int, other: int) -> bool:
        return not _memcmp(self.address + offset, other, PAGE)

    def close(self) -> None:
        self._store.close()
