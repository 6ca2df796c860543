"""Initialise a wasm module once and keep the result: its memory becomes the module's data (what `wizer` does).

The module must be made for it: exports `init`, `boot`, `boot_end`, `reserve`, `io` and `step`, no imports, one memory, one
mutable global (the stack pointer) that is the same before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import wasmtime

PAGE = 4096
KEPT_EXPORTS = frozenset({"memory", "__stack_pointer", "reserve", "io", "step"})
SECTION_CUSTOM, SECTION_MEMORY, SECTION_EXPORT, SECTION_START, SECTION_DATA, SECTION_DATA_COUNT = 0, 5, 7, 8, 11, 12


class BakeError(RuntimeError):
    """The guest did not initialise; the text says which bootstrap file failed and how."""


def bake(module: bytes, bootstrap: Sequence[Path]) -> bytes:
    """`module` with the heap that `init` and every file of `bootstrap` (in this order) leave behind."""
    memory = _initialised_memory(module, bootstrap)
    out = bytearray(module[:8])
    for section, old in _sections(module):
        if section in (SECTION_START, SECTION_DATA_COUNT, SECTION_CUSTOM):
            continue
        if section == SECTION_MEMORY:
            body = _memory_section(old, len(memory) // 65536)
        elif section == SECTION_EXPORT:
            body = _export_section(old)
        else:
            body = _data_section(memory) if section == SECTION_DATA else old
        out += bytes([section]) + _uleb(len(body)) + body
    return bytes(out)


def _initialised_memory(module: bytes, bootstrap: Sequence[Path]) -> bytes:
    config = wasmtime.Config()
    config.max_wasm_stack = 2 << 20
    engine = wasmtime.Engine(config)
    store = wasmtime.Store(engine)
    compiled = wasmtime.Module(engine, module)
    if compiled.imports:
        raise BakeError(f"the guest imports {[(i.module, i.name) for i in compiled.imports]}")
    exports = wasmtime.Instance(store, compiled, []).exports(store)
    memory: wasmtime.Memory = exports["memory"]  # type: ignore[assignment]

    def call(name: str, *args: int) -> int:
        return exports[name](store, *args)  # type: ignore[operator]

    before = exports["__stack_pointer"].value(store)  # type: ignore[union-attr]
    call("_initialize")
    if code := call("init"):
        raise BakeError(f"init failed ({code})")
    for path in bootstrap:
        data = f"<boot/{path.name}>".encode() + b"\0" + path.read_bytes() + b"\0"
        memory.write(store, data, call("reserve", len(data)))
        if call("boot", len(data)):
            raise BakeError(f"{path.name}: {_output(store, memory, call('io'))}")
    if code := call("boot_end"):
        raise BakeError(f"boot_end failed ({code})")
    stack = exports["__stack_pointer"].value(store)  # type: ignore[union-attr]
    if stack != before:
        raise BakeError("the stack pointer moved")
    image = bytearray(memory.read(store, 0, memory.data_len(store)))
    image[:stack] = bytes(stack)  # the stack comes first in memory and is dead now
    return bytes(image)


def _output(store: wasmtime.Store, memory: wasmtime.Memory, io: int) -> str:
    block = memory.read(store, io, io + 16)
    pointer, length = (int.from_bytes(block[i : i + 4], "little") for i in (8, 12))
    return bytes(memory.read(store, pointer, pointer + length)).decode(errors="replace")


def _sections(module: bytes) -> Iterator[tuple[int, bytes]]:
    at = 8
    while at < len(module):
        section = module[at]
        size, at = _read_uleb(module, at + 1)
        yield section, module[at : at + size]
        at += size


def _memory_section(body: bytes, pages: int) -> bytes:
    count, at = _read_uleb(body, 0)
    flags = body[at]
    _, at = _read_uleb(body, at + 1)
    if count != 1:
        raise BakeError("the guest must have one memory")
    return _uleb(1) + bytes([flags]) + _uleb(pages) + body[at:]


def _export_section(body: bytes) -> bytes:
    count, at = _read_uleb(body, 0)
    kept: list[bytes] = []
    for _ in range(count):
        start = at
        size, at = _read_uleb(body, at)
        name = body[at : at + size].decode()
        _, at = _read_uleb(body, at + size + 1)
        if name in KEPT_EXPORTS:
            kept.append(body[start:at])
    return _uleb(len(kept)) + b"".join(kept)


def _data_section(memory: bytes) -> bytes:
    """Runs of pages that are not zero, as active segments: aligned, so that the runtime can map them copy-on-write."""
    runs: list[tuple[int, int]] = []
    zero = bytes(PAGE)
    for at in range(0, len(memory), PAGE):
        if memory[at : at + PAGE] == zero:
            continue
        if runs and runs[-1][1] == at:
            runs[-1] = (runs[-1][0], at + PAGE)
        else:
            runs.append((at, at + PAGE))
    segments = [b"\x00\x41" + _sleb(a) + b"\x0b" + _uleb(b - a) + memory[a:b] for a, b in runs]
    return _uleb(len(segments)) + b"".join(segments)


def _read_uleb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _uleb(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sleb(value: int) -> bytes:
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        if (value == 0 and not byte & 0x40) or (value == -1 and byte & 0x40):
            out.append(byte)
            return bytes(out)
        out.append(byte | 0x80)
