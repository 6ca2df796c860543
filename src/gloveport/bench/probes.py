"""What is measured of a session library, in terms that gloveport and pydeno share. Standard library only.

gloveport imports it; a peer runs it as a script in its own virtual environment, where it answers requests on stdin with
results on stdout, one JSON object a line. So both are timed by the same code, in turn.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ("Probes", "descendants", "pss_of")

KEY = b"k" * 32
_LOOP = "for (let i = 0; i < %d; i++) await echo({i, s: 'hello'}); return 1"
_AT_ONCE = "await Promise.all(Array.from({length: %d}, (_, i) => echo({i, s: 'hello'}))); return 1"
_SPIN = "const end = %d; let x = 0; for (let i = 0; i < end; i++) { x = (x * 31 + i) %% 1000003 } return x"


def echo(value: Any) -> Any:
    return value


async def echo_async(value: Any) -> Any:
    return value


def nap() -> int:
    time.sleep(0.05)
    return 1


class Probes:
    """One library under one set of options. A probe gives one sample: seconds, or bytes where its name says so."""

    def __init__(self, module: Any, options: dict[str, Any], settle: Callable[[], object] = lambda: None) -> None:
        self._module = module
        self._options = options
        self._settle = settle
        """Waits, untimed, until a session can be made as an application makes one: from a pool that is ready."""
        self._numbers = itertools.count()
        self._kept: dict[str, Any] = {}

    def session(self, **tools: Any) -> Any:
        return self._module.AgentSandbox({"echo": echo, **tools}, **self._options)

    def _warm(self) -> Any:
        if "warm" not in self._kept:
            session = self._kept["warm"] = self.session(nap=nap)
            session.run("return 1")
        return self._kept["warm"]

    def _fresh(self) -> str:
        return f"return {next(self._numbers)} + 1"

    # ── one at a time ────────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, count: int = 5) -> float:
        """Create a session and get the result of its first run; one after the other."""
        return statistics.median(self._created() for _ in range(count))

    def _created(self) -> float:
        code = self._fresh()
        self._settle()
        began = time.perf_counter()
        session = self.session()
        session.run(code)
        took = time.perf_counter() - began
        session.close()
        return took

    def warm_run(self, count: int = 100) -> float:
        """A run, of so many one after the other."""
        session = self._warm()
        taken: list[float] = []
        for _ in range(count):
            code = self._fresh()
            began = time.perf_counter()
            session.run(code)
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)

    def _calls(self, code: str, count: int) -> float:
        session = self.session()  # of its own: pydeno has a limit for calls, which a session's runs share
        session.run("return 1")
        self._settle()
        began = time.perf_counter()
        session.run(code % count)
        took = time.perf_counter() - began
        session.close()
        return took / count

    def tool_call(self, count: int = 1000) -> float:
        return self._calls(_LOOP, count)

    def tools_at_once(self, count: int = 1000) -> float:
        return self._calls(_AT_ONCE, count)

    def overlap(self) -> float:
        """20 tools of 50 ms under Promise.all."""
        session = self._warm()
        began = time.perf_counter()
        session.run("await Promise.all(Array.from({length: 20}, () => nap())); return 1")
        return time.perf_counter() - began

    def value_1mb(self) -> float:
        """A string of 1 MB as argument and as result of a tool."""
        session = self._warm()
        began = time.perf_counter()
        session.run("const text = 'x'.repeat(1e6); return (await echo(text)).length")
        return time.perf_counter() - began

    # ── asyncio ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _async(self, work: Callable[[Any], Any], tool: Any) -> float:
        async def main() -> float:
            session = self._module.AsyncAgentSandbox({"echo": tool}, **self._options)
            async with session:
                await session.run("return 1")
                self._settle()
                return await work(session)

        return asyncio.run(main())

    def warm_run_async(self, count: int = 100) -> float:
        async def work(session: Any) -> float:
            taken: list[float] = []
            for _ in range(count):
                code = self._fresh()
                began = time.perf_counter()
                await session.run(code)
                taken.append(time.perf_counter() - began)
            return statistics.median(taken)

        return self._async(work, echo_async)

    def _async_calls(self, tool: Any, count: int) -> float:
        async def work(session: Any) -> float:
            began = time.perf_counter()
            await session.run(_LOOP % count)
            return (time.perf_counter() - began) / count

        return self._async(work, tool)

    def tool_call_async(self, count: int = 1000) -> float:
        return self._async_calls(echo_async, count)

    def tool_call_async_thread(self, count: int = 1000) -> float:
        return self._async_calls(echo, count)

    # ── durability ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _paused(self, history: str) -> bytes:
        if history not in self._kept:
            session = self._pause_after(history)
            self._kept[history] = session.dump(KEY)
            session.close()
        return self._kept[history]

    def _pause_after(self, history: str) -> Any:
        session = self.session()
        session.run(self._history(history))
        session.start("return await echo(1)")
        return session

    def _history(self, name: str) -> str:
        """What a session did: `10`: calls in sequence; `10+`: made at once; `2s`: computed for two seconds, in this library."""
        if name == "2s":
            return _SPIN % self._turns_for(2.0)
        if name.endswith("+"):
            count = int(name[:-1])
            part = _AT_ONCE.replace("return 1", "") % min(1000, count)
            return f"for (let left = {count}; left > 0; left -= 1000) {{ {part} }} return 1"
        return _LOOP % int(name)

    def _turns_for(self, seconds: float) -> int:
        session = self.session()
        turns = 300_000
        session.run(_SPIN % 1000)
        began = time.perf_counter()
        session.run(_SPIN % turns)
        took = time.perf_counter() - began
        session.close()
        return int(turns * seconds / took)

    def dump(self, history: str) -> float:
        """Save a session that is paused after that history."""
        session = self._pause_after(history)
        began = time.perf_counter()
        session.dump(KEY)
        took = time.perf_counter() - began
        session.close()
        return took

    def load(self, history: str, count: int = 3) -> float:
        """Restore such a session and answer its call; one after the other."""
        blob = self._paused(history)
        return statistics.median(self._loaded(blob) for _ in range(count))

    def _loaded(self, blob: bytes) -> float:
        self._settle()
        gc.collect()
        began = time.perf_counter()
        session = self._module.AgentSandbox.load(blob, KEY, {"echo": echo}, **self._options)
        step = session.resume(session.pending, 1)
        took = time.perf_counter() - began
        if step.value != 1:
            raise RuntimeError(f"a restored session answered {step!r}")
        session.close()
        return took

    def blob_bytes(self, history: str) -> float:
        return float(len(self._paused(history)))

    # ── many ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def pss_bytes(self, count: int = 50) -> float:
        """What a session adds to the proportional set size of this process's children."""
        first = self.session()
        first.run("return 1")
        time.sleep(1.0)  # spares that were on their way
        before = _pss_of_children()
        sessions = [self.session() for _ in range(count)]
        for session in sessions:
            session.run("return 1")
        time.sleep(1.0)
        added = _pss_of_children() - before
        for session in (first, *sessions):
            session.close()
        return added / count

    def crowd(self, count: int = 50) -> float:
        """That many sessions at once, each created, run and calling 20 tools."""

        async def one() -> None:
            session = self._module.AsyncAgentSandbox({"echo": echo_async}, **self._options)
            async with session:
                await session.run(_LOOP % 20)

        async def main() -> float:
            began = time.perf_counter()
            await asyncio.gather(*(one() for _ in range(count)))
            return time.perf_counter() - began

        return asyncio.run(main())

    def close(self) -> None:
        session = self._kept.pop("warm", None)
        if session is not None:
            session.close()
        self._kept.clear()


def _pss_of_children() -> int:
    """Bytes that every process below this one takes, memory that they share divided among them."""
    return pss_of(descendants(os.getpid()))


def pss_of(pids: Iterable[int]) -> int:
    """Bytes that those processes take."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):  # it ended, or is ours no more to read
            continue
    return total


def descendants(root: int) -> list[int]:
    """Every process below that one."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    queue = [root]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


if __name__ == "__main__":
    serving: Any = importlib.import_module("serving")  # a script's own folder comes first

    probes = Probes(importlib.import_module(sys.argv[1]), {})
    serving.answer(probes)
    probes.close()
