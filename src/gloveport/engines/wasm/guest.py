"""One guest: a JavaScript session in linear memory."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from ...errors import EngineUnavailableError, ImageError
from . import image as images_
from .memory import PAGE, Instance, Trapped

if TYPE_CHECKING:
    from .module import GuestModule

__all__ = ("INTERRUPTED", "OK", "OUT_OF_MEMORY", "TRAP", "Guest", "Reply", "RequestError")

OK: Final = 0
INTERRUPTED: Final = 1
TRAP: Final = 2
OUT_OF_MEMORY: Final = 3
_MALFORMED: Final = 4

_MAX_OUTPUT: Final = 64 << 20


class RequestError(ImageError):
    """A guest request that is malformed or does not fit the state of the session; nothing was changed."""

    code = "request"


class Reply(NamedTuple):
    """What came of a request (or of a batch)."""

    status: int
    """`OK`, `INTERRUPTED`, `TRAP` or `OUT_OF_MEMORY`."""
    ns: int
    """Processor time of this thread in the guest, in nanoseconds."""
    clock_reads: int
    """How often the run has read the clock so far."""
    output: bytes
    """Messages: u32 length + JSON each."""


class Guest:
    """One instance of the guest.

    `memory_limit` is in bytes of linear memory; the base image needs a few MiB of it. Different guests may be used in
    different threads at once (the interpreter lock is released while one computes); one guest by one thread at a time,
    except for `interrupt`, which any thread may call.

    `instance`: one in its first state, instead of a new one.

    After `INTERRUPTED` or `TRAP` the heap is unusable until `load` or `reset`.

    Raises `EngineUnavailableError` when wasmtime cannot make the instance, `ValueError` for a limit below the base image.
    """

    def __init__(self, module: GuestModule, *, memory_limit: int, instance: Instance | None = None) -> None:
        self._module = module
        self._limit = memory_limit
        self._usable = True
        self._closed = False
        self._lock = threading.Lock()  # `interrupt` and `close` against whoever touches the memory
        self._check_limit(memory_limit, module.base_size)
        if instance is not None:
            instance.set_limit(memory_limit)
        self._instance = instance or Instance(module, memory_limit)

    # ── requests ──

    def step(self, request: bytes, /) -> Reply:
        """Perform one guest request (wire/PROTOCOL.md). Raises `RequestError` for one that the guest does not understand."""
        self._begin()
        return self._step(request)

    def batch(self, requests: Sequence[bytes], /) -> Reply:
        """Perform requests in order, up to the first that is not `OK`: the same heap as one by one, one reply."""
        self._begin()
        total, reads, output = 0, 0, list[bytes]()
        status = OK
        for request in requests:
            status, ns, reads, text = self._step(request)
            total += ns
            output.append(text)
            if status != OK:
                break
        return Reply(status, total, reads, b"".join(output))

    def _step(self, request: bytes) -> Reply:
        size = len(request)
        started = time.thread_time_ns()
        try:
            if not self._write(request, size):
                return Reply(OUT_OF_MEMORY, time.thread_time_ns() - started, 0, b"")
            status = self._instance.call("step", size)
            used = time.thread_time_ns() - started
            clock_reads, output = self._read(status)
        except Trapped:
            self._usable = False
            return Reply(TRAP, time.thread_time_ns() - started, 0, b"")
        if status == INTERRUPTED:
            self._usable = False
        return Reply(status, used, clock_reads, output)

    def _write(self, request: bytes, size: int) -> bool:
        instance, module = self._instance, self._module
        offset = module.in_offset
        if size >= module.in_capacity:
            offset = instance.call("reserve", size)
            if not offset:
                return False
        with self._lock:
            instance.write(offset, request, size)
        return True

    def _read(self, status: int) -> tuple[int, bytes]:
        instance = self._instance
        with self._lock:
            if status > _MALFORMED:
                raise Trapped
            if status == _MALFORMED:
                raise RequestError("the guest does not understand this request in its state")
            io = instance.io(self._module.io_offset)
            if io.out_length > _MAX_OUTPUT:
                raise Trapped
            return io.clock_reads, instance.read(io.out_offset, io.out_length)

    # ── images ──

    def dump(self, reference: bytes | None = None, /) -> bytes:
        """The session as an image; with `reference`, only what differs from the base image with that one applied."""
        with self._lock:
            self._check_usable()
            return self._dump(reference)

    def _dump(self, reference: bytes | None) -> bytes:
        instance, module = self._instance, self._module
        size = instance.io(module.io_offset).heap_pages * PAGE
        if not module.base_size <= size <= instance.size():
            raise EngineUnavailableError("the guest's memory is corrupt")
        layout = self._layout()
        known = images_.parse(reference, layout) if reference is not None else None
        start = module.stack_pointer - module.stack_pointer % PAGE
        offsets = instance.differences(module.base_address, start, module.base_size)
        offsets += instance.not_zero(module.base_size, size)
        if module.flag_offset in offsets:
            offsets.remove(module.flag_offset)
        if known is not None:
            offsets = self._without(known, offsets)
        return images_.pack(layout, size, offsets, [instance.read(at, PAGE) for at in offsets])

    def _without(self, known: images_.Image, offsets: list[int]) -> list[int]:
        """Drop the pages that `known` has already; add those that it has and that are as in the base image again."""
        address = ctypes.cast(ctypes.c_char_p(known.data), ctypes.c_void_p).value or 0
        index = {offset: address + known.pages_at + i * PAGE for i, offset in enumerate(known.offsets)}
        differing = {at for at in offsets if at not in index or not self._instance.same_page(at, index[at])}
        reverted = set(known.offsets).difference(offsets)
        return sorted(differing | reverted)

    def load(self, images: Sequence[bytes], /) -> None:
        """Make memory the base image with each of `images` applied in order.

        Raises `ImageError`, having changed nothing, when one is malformed or does not fit.
        """
        layout = self._layout()
        parsed = [images_.parse(image, layout) for image in images]
        for before, after in pairwise(parsed):
            if after.size < before.size:
                raise ImageError("an image is smaller than the one that it builds on")
        with self._lock:
            self._check_open()
            if parsed and not self._instance.grow_to(parsed[-1].size):
                raise ImageError(f"no memory for an image of {parsed[-1].size} bytes")
            self._reset()
            for image in parsed:
                self._apply(image)

    def _apply(self, image: images_.Image) -> None:
        source = ctypes.cast(ctypes.c_char_p(image.data), ctypes.c_void_p).value or 0
        source += image.pages_at
        offsets, count, i = image.offsets, len(image.offsets), 0
        while i < count:  # runs of neighbours in one copy
            j = i + 1
            while j < count and offsets[j] == offsets[j - 1] + PAGE:
                j += 1
            self._instance.copy_in(offsets[i], source + i * PAGE, (j - i) * PAGE)
            i = j

    def reset(self) -> None:
        """Make memory the base image."""
        with self._lock:
            self._check_open()
            self._reset()

    def _reset(self) -> None:
        self._usable = False
        self._instance.reset(self._module)
        self._clear_flag()
        self._usable = True

    # ── interrupting and limits ──

    def interrupt(self) -> None:
        """Make a running step end with `INTERRUPTED`, from any thread. Without one it has no effect: each step clears it."""
        with self._lock:
            if not self._closed:
                ctypes.memset(self.flag_address, 1, 1)

    @property
    def flag_address(self) -> int:
        """Of the interrupt flag (a byte, on a page of its own) in this process. It never changes."""
        return self._instance.address + self._module.flag_offset

    def share_flag(self, fd: int, /) -> None:
        """Let the first page of `fd` be the flag's page, so that another process can interrupt. `fd` may be closed then.

        Raises `OSError` when it cannot be mapped (a kernel with pages larger than 4 KiB cannot do it).
        """
        with self._lock:
            self._check_open()
            self._instance.share_page(self._module.flag_offset, fd)

    def set_memory_limit(self, limit: int, /) -> None:
        """Limit linear memory to `limit` bytes. Raises `ValueError` when it has more already."""
        with self._lock:
            self._check_open()
            self._check_limit(limit, self._instance.size())
            self._instance.set_limit(limit)
            self._limit = limit

    def close(self) -> None:
        """Give the memory back; idempotent. Not while a step runs."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._instance.close()

    def release(self) -> Instance | None:
        """Close this, but not what it is made of: for another one. `None`: it is closed already, or spoilt, and closed now."""
        with self._lock:
            if self._closed:
                return None
            self._closed = True
            if not self._usable:
                self._instance.close()
                return None
            return self._instance

    def _layout(self) -> images_.Layout:
        module = self._module
        return images_.Layout(module.stack_pointer, module.flag_offset, module.base_size, self._limit)

    def _clear_flag(self) -> None:
        ctypes.memset(self.flag_address, 0, 1)

    def _begin(self) -> None:
        with self._lock:
            self._check_usable()
            self._clear_flag()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineUnavailableError("the guest is closed")

    def _check_usable(self) -> None:
        self._check_open()
        if not self._usable:
            raise EngineUnavailableError("the guest was interrupted or trapped: load an image or reset it first")

    @staticmethod
    def _check_limit(limit: int, least: int) -> None:
        if limit < least:
            raise ValueError(f"the memory limit must be at least {least} bytes, not {limit}")
