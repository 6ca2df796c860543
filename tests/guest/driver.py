"""Speaks the guest protocol to one guest in this process."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

from gloveport.engines.wasm.guest import Guest, Reply
from gloveport.engines.wasm.module import GuestModule

MEMORY = 64 << 20
_modules: list[GuestModule] = []

Message = dict[str, Any]


def module() -> GuestModule:
    if not _modules:
        _modules.append(GuestModule.load())
    return _modules[0]


def text(value: str | bytes) -> bytes:
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return struct.pack("<I", len(data)) + data


def options(**changes: Any) -> bytes:
    """`O`: a clock of 1,700,000,000,000 ms, the tools `tool` and `other` as globals."""
    base = {"clock": 1_700_000_000_000, "seed": "42", "frozen": False, "namespace": None, "tools": ["tool", "other"]}
    return b"O" + text(json.dumps({**base, "bootstrap": None, **changes}))


def run(body: str, *, prelude: str = "", cap: int = 65536) -> bytes:
    source = f"(async ($) => {{{prelude}\n{body}\n}})"
    return b"R" + struct.pack("<II", 1, cap) + text(source)


def answer(call: int, value: Any = None, *, error: bool = False, ms: float = 0.0) -> bytes:
    return b"A" + struct.pack("<dIB", ms, call, not error) + text(json.dumps(value))


def advance(ms: float) -> bytes:
    return b"T" + struct.pack("<d", ms)


def messages(output: bytes) -> list[Message]:
    found: list[Message] = []
    at = 0
    while at < len(output):
        (size,) = struct.unpack_from("<I", output, at)
        found.append(json.loads(output[at + 4 : at + 4 + size]))
        at += 4 + size
    assert at == len(output)
    return found


class Session:
    """One guest and what it said last."""

    def __init__(self, *, memory: int = MEMORY, **changes: Any) -> None:
        self.guest = Guest(module(), memory_limit=memory)
        self.last: Reply = self.guest.step(options(**changes))

    def close(self) -> None:
        self.guest.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def step(self, request: bytes) -> list[Message]:
        self.last = self.guest.step(request)
        return messages(self.last.output)

    def run(self, body: str, **more: Any) -> list[Message]:
        return self.step(run(body, **more))

    def value(self, body: str, **more: Any) -> Any:
        """What a run returns; it must need no host."""
        final = self.run(body, **more)[-1]
        assert final["t"] == "done", final
        return final.get("v")

    def failure(self, body: str, **more: Any) -> Message:
        final = self.run(body, **more)[-1]
        assert final["t"] == "fail", final
        return final

    def logs(self, body: str, stream: int | None = None, **more: Any) -> list[str]:
        said = self.run(body, **more)
        assert said[-1]["t"] == "done", said
        return [m["m"] for m in said if m["t"] == "log" and stream in (None, m["s"])]

    def drive(self, body: str, tool: Callable[[str, list[Any]], Any]) -> Any:
        """Run to the end, answering every call with what `tool` gives."""
        queue = self.run(body)
        while True:
            final = queue[-1]
            if final["t"] != "idle":
                assert final["t"] == "done", final
                return final.get("v")
            calls = [m for m in queue if m["t"] == "call"]
            assert calls, queue
            queue = [m for call in calls for m in self.step(answer(call["id"], tool(call["n"], call["a"])))]
