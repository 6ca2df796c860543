"""What is measured of module sandboxes, in terms that gloveport and belgie share. Standard library only.

gloveport imports it; the peer runs it as a script in its own virtual environment.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ("ModuleProbes",)

_TRIVIAL = "export default (): number => %d"
_SLEEP = "export default async () => { await new Promise((done) => setTimeout(done, 200)); return %d }"
_CPU = "export default () => { let x = %d; for (let i = 0; i < TURNS; i++) x = (x * 31 + i) | 0; return x }"
_LOOP = "export default () => { for (;;) {} }"
_MEGABYTE = """\
export default () => Array.from({length: 11000}, (_, i) =>
  ({id: i, name: `item-${i}`, ok: true, v: i / 3, tags: ["alpha", "beta", "gamma"], %s: 1}))"""


class ModuleProbes:
    """One library. A probe gives one sample: seconds, or what its name says. All of them share one event loop."""

    def __init__(self, module: str, session: str) -> None:
        self._names = module, session
        self._class: Callable[[], Any] = getattr(importlib.import_module(module), session)
        self._loop = asyncio.new_event_loop()
        self._numbers = itertools.count()
        self._open: list[Any] = []

    def _run(self, work: Awaitable[Any]) -> Any:
        return self._loop.run_until_complete(work)  # pyright: ignore[reportArgumentType]

    async def _sessions(self, count: int) -> list[Any]:
        missing = [self._class() for _ in range(count - len(self._open))]
        await asyncio.gather(*(session.__aenter__() for session in missing))
        self._open += missing
        await asyncio.gather(*(self._call(session) for session in self._open[:count]))
        return self._open[:count]

    async def _call(self, session: Any, source: str = _TRIVIAL, timeout: float = 60.0) -> Any:
        return await session.run_script(source % next(self._numbers) if "%d" in source else source, timeout=timeout)

    # ── one session ──────────────────────────────────────────────────────────────────────────────────────────────────

    def cold(self) -> float:
        """A fresh process, from after its imports to the first result: no pool is there yet."""
        command = [sys.executable, __file__, "--cold", *self._names]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout)

    def new_session(self) -> float:
        """A session and its first call, where there were sessions before."""

        async def work() -> float:
            began = time.perf_counter()
            session = self._class()
            await session.__aenter__()
            await self._call(session)
            took = time.perf_counter() - began
            await session.close()
            return took

        return self._run(work())

    def warm_call(self, count: int = 20) -> float:
        """A call with a fresh source in an open session."""

        async def work() -> float:
            (session,) = await self._sessions(1)
            began = time.perf_counter()
            for _ in range(count):
                await self._call(session)
            return (time.perf_counter() - began) / count

        return self._run(work())

    def result_1mb(self) -> float:
        """A call that gives about 1 MB of JSON."""
        return self._run(self._megabyte())[0]

    def stall_1mb(self) -> float:
        """How long the event loop stands still meanwhile, at most."""
        return self._run(self._megabyte())[1]

    async def _megabyte(self) -> tuple[float, float]:
        (session,) = await self._sessions(1)
        stall = 0.0

        async def tick() -> None:
            nonlocal stall
            last = time.perf_counter()
            while True:
                await asyncio.sleep(0.001)
                now = time.perf_counter()
                stall, last = max(stall, now - last), now

        ticking = asyncio.ensure_future(tick())
        await asyncio.sleep(0.01)
        stall = 0.0
        began = time.perf_counter()
        value = await session.run_script(_MEGABYTE % f"n{next(self._numbers)}", timeout=60.0)
        took = time.perf_counter() - began
        await asyncio.sleep(0.002)
        ticking.cancel()
        if len(value) != 11000:
            raise RuntimeError("that is not what the module returned")
        return took, stall

    # ── many sessions ────────────────────────────────────────────────────────────────────────────────────────────────

    def sleeps(self, count: int = 20) -> float:
        """That many open sessions that each sleep for 200 ms, at once."""
        return self._run(self._at_once(count, _SLEEP))

    def computes(self, count: int = 20, turns: int = 100_000_000) -> float:
        """That many open sessions that each compute for as long as those turns take, at once."""
        return self._run(self._at_once(count, _CPU.replace("TURNS", str(turns))))

    async def _at_once(self, count: int, source: str) -> float:
        sessions = await self._sessions(count)
        began = time.perf_counter()
        await asyncio.gather(*(self._call(session, source) for session in sessions))
        return time.perf_counter() - began

    def beside_loop(self) -> float:
        """A trivial call while another session runs in an endless loop."""

        async def work() -> float:
            hog, session = await self._sessions(2)

            async def loop() -> None:
                try:
                    await self._call(hog, _LOOP, timeout=1.0)
                except Exception:  # the timeout, by whatever name
                    pass

            looping = asyncio.ensure_future(loop())
            await asyncio.sleep(0.2)
            took: list[float] = []
            for _ in range(10):
                began = time.perf_counter()
                await self._call(session)
                took.append(time.perf_counter() - began)
            await looping
            return sorted(took)[len(took) // 2]

        return self._run(work())

    # ── growth ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def calls(self, count: int) -> None:
        """That many calls in one session."""

        async def work() -> None:
            (session,) = await self._sessions(1)
            for _ in range(count):
                await self._call(session)

        self._run(work())

    def close(self) -> None:
        async def work() -> None:
            for session in self._open:
                await session.close()

        self._run(work())
        self._loop.close()


def _cold(module: str, session: str) -> None:
    made = getattr(importlib.import_module(module), session)

    async def work() -> float:
        began = time.perf_counter()
        async with made() as opened:
            await opened.run_script(_TRIVIAL % 1, timeout=60.0)
            return time.perf_counter() - began

    took = asyncio.run(work())
    sys.stdout.write(f"{took}\n")
    sys.stdout.flush()
    os._exit(0)  # the peer's native threads may not end


if __name__ == "__main__":
    if sys.argv[1] == "--cold":
        _cold(*sys.argv[2:])
    serving: Any = importlib.import_module("serving")  # a script's own folder comes first

    serving.answer(ModuleProbes(*sys.argv[1:]))
