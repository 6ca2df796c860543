"""`gloveport bench pool`: many sessions in a store, few awake, and whether each comes back as itself. Bars: `SPECIFICATION.md`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

from ..host.pool import SessionPool
from ..policy import Isolation
from ..stores import SQLiteStore, Store
from .probes import pss_of
from .report import Row

__all__ = ("BARS", "measure")

BARS: Final = {"wake": 0.030, "memory per live session": 5e6, "lost or mixed up": 0.0}
"""Seconds, bytes, sessions; at most."""

_KEY: Final = b"the key of the bench, not secret"
_MAKE: Final = (
    "const me = %r; let visits = 1; const words = Array.from({length: 200}, (_, i) => me + i); return await echo(me)"
)
_VISIT: Final = "visits += 1; return [me, visits, words[199]]"
_AT_ONCE: Final = 8


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is measured."""

    sessions: int
    owners: int
    live: int
    timed: int


def measure(*, quick: bool, isolation: Isolation = "process", postgres: str | None = None) -> list[Row]:
    """All rows, over SQLite and PostgreSQL: the server that `postgres` names, or one that is started for this."""
    size = Size(200, 10, 30, 60) if quick else Size(2000, 20, 50, 300)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="gloveport-bench-") as folder:
        rows += _measure_store("sqlite", lambda: SQLiteStore(f"{folder}/pool.db"), size, isolation)
    with _server(postgres) as conninfo:
        from ..stores.postgres import PostgresStore

        prefix = f"bench_{os.getpid()}_"
        rows += _measure_store("postgres", lambda: PostgresStore(conninfo, table_prefix=prefix), size, isolation)
    return rows


@contextlib.contextmanager
def _server(conninfo: str | None) -> Generator[str]:
    if conninfo is not None:
        yield conninfo
        return
    from .postgres import private_server

    with private_server() as conninfo:
        yield conninfo


def _measure_store(name: str, open_store: Callable[[], Store], size: Size, isolation: Isolation) -> list[Row]:
    one, two = open_store(), open_store()  # two hosts, as far as the store can tell
    try:
        return asyncio.run(_Run(name, size, isolation).rows(one, two))
    finally:
        one.close()
        two.close()


class _Run:
    def __init__(self, store: str, size: Size, isolation: Isolation) -> None:
        self.store = store
        self.size = size
        self.isolation: Isolation = isolation
        self.wrong = 0

    async def rows(self, one: Store, two: Store) -> list[Row]:
        names = [(f"owner {n % self.size.owners}", f"session {n}") for n in range(self.size.sessions)]
        async with self._pool(one) as pool:
            began = time.perf_counter()
            await self._each(names, lambda owner, sid: self._make(pool, owner, sid))
            create = (time.perf_counter() - began) / len(names)
        random.Random(1).shuffle(names)  # noqa: S311
        async with self._pool(two) as pool:
            await self._visit(pool, *names[0], 2)  # the worker's zygote starts
            timed = [await self._visit(pool, *name, 2) for name in names[1 : self.size.timed]]
            await self._each(names[self.size.timed :], lambda owner, sid: self._visit(pool, owner, sid, 2))
            stats = pool.stats()
            self.wrong += stats.awake > self.size.live
            memory = await self._memory(pool, names[-self.size.live :])
            warm = [await self._visit(pool, *names[-1], visits) for visits in range(3, 33)]
        return [
            self._row("wake", statistics.median(timed), "s"),
            self._row("memory per live session", memory, "bytes"),
            self._row("lost or mixed up", self.wrong, "sessions"),
            self._row("create, run and store", create, "s"),
            self._row("a turn of a session that is awake", statistics.median(warm), "s"),
        ]

    def _pool(self, store: Store) -> SessionPool:
        async def echo(value: Any) -> Any:
            return value

        return SessionPool(
            store,
            _KEY,
            {"echo": echo},
            max_live=self.size.live,
            max_sessions=self.size.sessions,
            max_per_owner=-(-self.size.sessions // self.size.owners),
            idle_timeout=600.0,
            isolation=self.isolation,
        )

    async def _each(self, names: Sequence[tuple[str, str]], work: Callable[[str, str], Any]) -> None:
        queue = list(names)

        async def some() -> None:
            while queue:
                await work(*queue.pop())

        await asyncio.gather(*(some() for _ in range(_AT_ONCE)))

    async def _make(self, pool: SessionPool, owner: str, sid: str) -> None:
        async with pool.session(owner, sid) as session:
            self.wrong += await session.run(_MAKE % f"{owner}/{sid}") != f"{owner}/{sid}"

    async def _visit(self, pool: SessionPool, owner: str, sid: str, visits: int) -> float:
        """Seconds from asking for the session to the result of a run."""
        began = time.perf_counter()
        handle = await pool.get(owner, sid)
        got = await handle.run(_VISIT)
        took = time.perf_counter() - began
        await pool.release(owner, sid)
        self.wrong += got != [f"{owner}/{sid}", visits, f"{owner}/{sid}199"]
        return took

    async def _memory(self, pool: SessionPool, names: Sequence[tuple[str, str]]) -> float:
        """Bytes of a worker, with as many awake as may be. What all of them share is divided among them."""
        handles = [await pool.get(*name) for name in names]
        pids = [handle.worker_pid for handle in handles]
        taken = [pss_of([pid]) if pid is not None else 0 for pid in pids]
        self.wrong += taken.count(0) if self.isolation == "process" else 0
        for handle in handles:
            await pool.release(handle.owner, handle.sid)
        return sum(taken) / len(taken)

    def _row(self, what: str, value: float, unit: str) -> Row:
        name = f"{what}, {self.store}, {self.size.sessions} sessions"
        if what not in BARS:
            return Row(name=name, ours=value, unit=unit)
        most = BARS[what]
        ratio = value / most if most else value
        bar = 1.0 if most else 0.0
        return Row(
            name=name, ours=value, unit=unit, peer="promise", peer_value=most, ratio=ratio, bar=bar, ok=ratio <= bar
        )
