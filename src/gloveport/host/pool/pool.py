"""`SessionPool`: sessions by owner and id, in a store that any number of hosts share."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Literal, Self, cast, get_args

from ...core.seal import Sealer, SealingKey, check_key
from ...errors import (
    LeaseHeld,
    LeaseLost,
    PoolFull,
    RecordNotFound,
    SessionBusyError,
    SessionClosedError,
    StoreError,
    StoreUnavailable,
)
from ...stores import Store
from ..options import Options, Tools, build_options
from .book import Book, Keeping
from .entry import Entry
from .handle import PooledSession
from .live import LiveSession, UnknownHook
from .names import Name, owner_prefix
from .slots import Slots
from .tenure import StoreAccess, Tenure, now

__all__ = ("Durability", "PoolStats", "SessionPool")

_log = logging.getLogger("gloveport")
_MIB: Final = 1024 * 1024
_PRUNE_SECONDS: Final = 600.0

Durability = Literal["turn", "call"]
"""When a tool's answer is written: with what is written next, or before the code gets it."""
ToolsFor = Callable[[str, str], Any]


@dataclasses.dataclass(frozen=True)
class PoolStats:
    """What a pool of this process does now, and did so far."""

    held: int
    """Sessions between `get` and `release`."""
    awake: int
    """Sessions with a worker."""
    waiting: int
    """Calls of `get`, `drop` and operations that wait for a session or for a worker."""
    created: int
    woken: int
    """From the store."""
    reused: int
    """Taken while their worker was still there."""
    passivated: int
    """Workers given back by idle sessions."""
    lost: int
    """Sessions that ended here because the lease was lost, or the store refused."""


class SessionPool:
    """Many sessions, each known by an owner and an id, and stored after every operation. For asyncio.

    - `store`: where they live: `MemoryStore`, `SQLiteStore`, `PostgresStore` or any other `Store`. Hosts that share it share the sessions.
    - `key`: seals them: at least 16 bytes, or a `KeyRing`; the same on every host.
    - `tools`: of every session, or a function (also async) of owner and id that gives them. Their names must stay the same while sessions
      are stored. `tools_catalog`: as for sessions.
    - `ttl`: seconds that a session is kept after it was used last (3600); `None`: for ever.
    - `counter_ttl`: seconds after that, or after `drop`, for which what it spent is remembered; `None` (default): for ever.
    - `max_sessions` (1000), `max_per_owner`: stored sessions, in all and of one owner. Past them new ones are refused with `PoolFull`. They
      are counted before one is made, one at a time in each process; so *n* hosts together may go over by at most *n* - 1.
    - `max_live`: sessions with a worker at the same time in this process (64). Past it the one that is idle longest gives its worker back.
    - `idle_timeout`: seconds after which an idle or paused session gives its worker back (60).
    - `acquire_timeout`: seconds that `get` and `drop` wait (30), for session, lease and worker together.
    - `eviction_interval`: seconds between two looks for sessions that are idle too long (5).
    - `key_prefix`: begins their keys in the store.
    - `lease`: seconds after which a host that is silent loses its sessions (15). It is renewed more often than that.
    - `durability`: `"turn"` (default): a tool's answer is written with what is written next; `"call"`: before the code gets it.
    - `interrupted`: what `get` does with a run that a dead host left: `"keep"` it for `recover()` (default), or `"rollback"`.
    - `on_unknown`: called as `on_unknown(owner, sid, call)` by `recover()` for each call whose outcome nobody knows; gives its answer, or
      raises what the code gets.
    - `journal`: also keep each session's whole history, with which a release with another guest build can still wake it.
    - the rest: options of `AsyncAgentSandbox`. Those that make a session what it is (clock, seed, budgets) count when it is made.

    A pool belongs to one event loop. `close()` it, or use it as an async context manager.
    """

    def __init__(
        self,
        store: Store,
        key: SealingKey,
        tools: Tools | ToolsFor,
        *,
        tools_catalog: Any = None,
        ttl: float | None = 3600.0,
        max_sessions: int | None = 1000,
        max_per_owner: int | None = None,
        max_live: int = 64,
        idle_timeout: float = 60.0,
        acquire_timeout: float = 30.0,
        eviction_interval: float = 5.0,
        counter_ttl: float | None = None,
        key_prefix: str = "gloveport/session/",
        lease: float = 15.0,
        durability: Durability = "turn",
        interrupted: Literal["keep", "rollback"] = "keep",
        on_unknown: UnknownHook | None = None,
        journal: bool = False,
        **options: Any,
    ) -> None:
        for name, value, optional in (
            ("ttl", ttl, True),
            ("idle_timeout", idle_timeout, False),
            ("acquire_timeout", acquire_timeout, False),
            ("eviction_interval", eviction_interval, False),
            ("counter_ttl", counter_ttl, True),
            ("lease", lease, False),
        ):
            _check_seconds(name, value, optional=optional)
        for name, value in (("max_sessions", max_sessions), ("max_per_owner", max_per_owner), ("max_live", max_live)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"`{name}` must be a positive integer, not {value!r}")
        _check_choice("durability", durability, get_args(Durability))
        _check_choice("interrupted", interrupted, ("keep", "rollback"))
        if not isinstance(key, Sealer):
            check_key(key)
        self.on_unknown = on_unknown
        self._tools = tools
        self._options = {**options, **({} if tools_catalog is None else {"tools_catalog": tools_catalog})}
        if not _is_function(tools):
            self._build(cast(Tools, tools))  # so that a mistake is found here
        self._access = StoreAccess(store)
        max_bytes = options.get("max_journal_bytes", 8 * _MIB)
        self._keeping = Keeping(key, ttl, counter_ttl, max_bytes, journal)
        self._prefix = key_prefix
        self._max_sessions, self._max_per_owner = max_sessions, max_per_owner
        self._idle_timeout, self._acquire_timeout = idle_timeout, acquire_timeout
        self._interval, self._lease_seconds = eviction_interval, lease
        self._each_answer = durability == "call"
        self._roll_back = interrupted == "rollback"
        self._host = f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"
        self._entries: dict[str, Entry] = {}
        self._slots: Slots[Entry] = Slots(max_live, self._put_to_sleep)
        self._creating = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False
        self._counts = dict.fromkeys(("created", "woken", "reused", "passivated", "lost"), 0)

    # ── taking and giving back ───────────────────────────────────────────────────────────────────────────────────────

    async def get(self, owner: str, sid: str, *, timeout: float | None = None) -> PooledSession:
        """Take a session; it is made if there is none. Nobody else has it, on any host, until it is released.

        Raises `SessionBusyError` when it did not become free within `timeout` seconds (default: `acquire_timeout`), and `PoolFull` for a
        limit. A stored session that is not authentic raises `SealError`, one that was made with other tools `JournalError`, and one that
        was set back `StaleJournal`; `drop` it to begin anew.
        """
        entry, deadline = await self._turn(owner, sid, timeout)
        try:
            await self._have(entry, deadline)
        except BaseException:
            await self._let_go(entry)
            raise
        handle = entry.handle = PooledSession(self, entry)
        entry.last_used = now()
        self._slots.idle(entry)
        return handle

    async def release(self, owner: str, sid: str) -> None:
        """Give a session back. Its worker stays for a while, in case it is soon wanted again."""
        entry = self._entries.get(Name(self._prefix, owner, sid).key)
        if entry is None or entry.handle is None:
            raise SessionClosedError(f"session {sid!r} of {owner!r} is not held; it was released already")
        self._check_unused(entry)
        await self._release(entry)

    @asynccontextmanager
    async def session(self, owner: str, sid: str, *, timeout: float | None = None) -> AsyncGenerator[PooledSession]:
        """`get`, and `release` at the end."""
        handle = await self.get(owner, sid, timeout=timeout)
        try:
            yield handle
        except BaseException:
            try:
                await self._give_back(handle)
            except Exception as error:  # what the block raised is what matters
                _log.warning("session %r of %r could not be written: %s", sid, owner, error)
            raise
        await self._give_back(handle)

    async def drop(self, owner: str, sid: str, *, timeout: float | None = None) -> bool:
        """Remove a session as soon as nobody has it. Gives whether there was one. What it spent stays spent (`counter_ttl`)."""
        entry, deadline = await self._turn(owner, sid, timeout)
        try:
            tenure = await self._take_lease(entry, deadline)
            self._discard(entry)
            return await self._access.perform(self._access.store.delete, entry.name.key, token=tenure.token)
        finally:
            await self._let_go(entry)

    async def evict_idle(self) -> int:
        """Have every session that is idle longer than `idle_timeout` give its worker back now. Gives how many did."""
        before = self._counts["passivated"]
        limit = now() - self._idle_timeout
        for entry in [entry for entry in self._entries.values() if entry.slot and entry.last_used <= limit]:
            if not entry.lock.locked():
                self._slots.busy(entry)
                await self._put_to_sleep(entry)
        return self._counts["passivated"] - before

    def stats(self) -> PoolStats:
        """Numbers of this process."""
        entries = self._entries.values()
        return PoolStats(
            held=sum(entry.handle is not None for entry in entries),
            awake=self._slots.taken,
            waiting=self._slots.waiting + sum(entry.waiting for entry in entries),
            **self._counts,
        )

    async def close(self) -> None:
        """Write and end everything. A run that is under way is rolled back. Idempotent."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for entry in list(self._entries.values()):
            if entry.live is not None and entry.lock.locked() and not entry.evicting:
                entry.live.abort()
            async with entry.lock:
                pass
            if entry.handle is not None:
                try:
                    await self._release(entry)
                except Exception as error:
                    _log.warning("%s could not be written: %s", entry.name, error)
            self._discard(entry)
        await self._slots.settle()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # ── steps of get and release ─────────────────────────────────────────────────────────────────────────────────────

    async def _turn(self, owner: str, sid: str, timeout: float | None) -> tuple[Entry, float]:
        name = Name(self._prefix, owner, sid)
        self._check_open()
        seconds = self._acquire_timeout if timeout is None else timeout
        _check_seconds("timeout", seconds, optional=False, zero=True)
        deadline = now() + seconds
        entry = self._entries.get(name.key)
        if entry is None:
            entry = self._entries[name.key] = Entry(name)
        await entry.turn(deadline)
        if self._closed:
            entry.pass_turn()
            self._check_open()
        return entry, deadline

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosedError("the pool is closed")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._tasks = [loop.create_task(self._keep_leases()), loop.create_task(self._keep_house())]
        elif self._loop is not loop:
            raise RuntimeError("a SessionPool belongs to one event loop; make one for each")

    async def _have(self, entry: Entry, deadline: float) -> None:
        """Lease and session. A host that was stopped in between begins anew."""
        while True:
            await self._take_lease(entry, deadline)
            try:
                await self._wake(entry, deadline)
            except LeaseLost as lost:
                self._discard(entry)
                if now() >= deadline:
                    raise SessionBusyError(f"{entry.name} is in use by another host: {lost}") from lost
            else:
                return

    async def _take_lease(self, entry: Entry, deadline: float) -> Tenure:
        try:
            entry.tenure = await Tenure.take(self._access, entry.name.key, self._host, self._lease_seconds, deadline)
        except LeaseHeld as held:
            raise SessionBusyError(f"{entry.name} is in use by another host: {held}") from held
        return entry.tenure

    async def _wake(self, entry: Entry, deadline: float) -> None:
        tenure = entry.tenure
        assert tenure is not None
        live, lease = entry.live, tenure.lease
        if live is not None and (live.book.broken or live.is_closed() or live.book.version != lease.version):
            self._discard(entry)  # another host used it meanwhile
        elif live is not None and lease.exists:
            self._slots.busy(entry)
            live.book.tenure = tenure
            self._counts["reused"] += 1
            return
        self._discard(entry)
        await self._take_slot(entry, max(0.0, deadline - now()))
        tools = await self._tools_for(entry.name)
        options = self._build(tools)
        if lease.exists:
            try:
                entry.live = await LiveSession.load(options, self._book(entry, tenure), each_answer=self._each_answer)
                self._counts["woken"] += 1
            except RecordNotFound:  # its time was over just now
                await tenure.renew()
        if entry.live is None:
            entry.live = await self._create(entry, tenure, options)
        if entry.live.unfinished and self._roll_back:
            await entry.live.roll_back()

    def _book(self, entry: Entry, tenure: Tenure) -> Book:
        return Book(self._access, entry.name, self._keeping, tenure)

    async def _create(self, entry: Entry, tenure: Tenure, options: Options) -> LiveSession:
        async with self._creating:
            await self._check_count("max_per_owner", self._max_per_owner, owner_prefix(self._prefix, entry.name.owner))
            await self._check_count("max_sessions", self._max_sessions, self._prefix)
            live = await LiveSession.new(options, self._book(entry, tenure), each_answer=self._each_answer)
        self._counts["created"] += 1
        return live

    async def _check_count(self, name: str, most: int | None, prefix: str) -> None:
        if most is not None and await self._access.perform(self._access.store.count, prefix, most=most) >= most:
            raise PoolFull(f"`{name}` ({most}) sessions are stored; drop some, or let them end (`ttl`)")

    async def _take_slot(self, entry: Entry, timeout: float) -> None:
        try:
            await self._slots.take(timeout)
        except TimeoutError:
            raise PoolFull(
                f"{self._slots.most} sessions have a worker (`max_live`), and none of them became idle in time"
            ) from None
        entry.slot = True

    async def _tools_for(self, name: Name) -> Tools:
        if not _is_function(self._tools):
            return cast(Tools, self._tools)
        tools = cast(ToolsFor, self._tools)(name.owner, name.sid)
        return await tools if inspect.isawaitable(tools) else tools

    def _build(self, tools: Tools) -> Options:
        named = dict(_SESSION_DEFAULTS)
        more = dict(self._options)
        for name in named:
            if name in more:
                named[name] = more.pop(name)
        return build_options(tools, **named, more=cast(Any, more))

    async def _give_back(self, handle: PooledSession) -> None:
        if not handle.is_closed():
            await self.release(handle.owner, handle.sid)

    async def _release(self, entry: Entry) -> None:
        live = entry.live
        async with entry.lock:
            try:
                if live is not None and live.book.broken is None:
                    await live.release()
                    entry.tenure = None
            except SessionBusyError:
                raise
            except BaseException:
                await self._end(entry)
                raise
            await self._end(entry)

    async def _end(self, entry: Entry) -> None:
        """Nobody holds it any more."""
        handle, entry.handle = entry.handle, None
        if handle is not None:
            handle.end()
        live = entry.live
        if live is not None and (live.book.broken is not None or not entry.slot or live.is_closed()):
            self._counts["lost"] += live.book.broken is not None
            self._discard(entry)
        entry.last_used = now()
        await self._let_go(entry)

    async def _let_go(self, entry: Entry) -> None:
        """End of a turn: the lease goes back if it is still here, and the next one may have the session."""
        tenure, entry.tenure = entry.tenure, None
        try:
            if tenure is not None:
                await self._access.perform(self._access.store.release, tenure.lease)
        except StoreError:
            pass  # it ends by itself
        finally:
            if entry.live is not None:
                self._slots.idle(entry)
            elif entry.slot:
                self._discard(entry)
            entry.pass_turn()
            self._forget(entry)

    def _discard(self, entry: Entry) -> None:
        """Give up what is awake of it; what is stored is not touched."""
        self._slots.busy(entry)
        live, entry.live = entry.live, None
        if live is not None:
            live.shut()
        if entry.slot:
            entry.slot = False
            self._slots.give()

    def _forget(self, entry: Entry) -> None:
        if entry.unused and self._entries.get(entry.name.key) is entry:
            del self._entries[entry.name.key]

    # ── between ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def using(self, entry: Entry) -> AsyncGenerator[None]:
        """Called by a handle around an operation: the session is awake, and nobody puts it to sleep."""
        self._check_unused(entry)
        async with entry.lock:
            self._slots.busy(entry)
            if not entry.slot:
                await self._take_slot(entry, self._acquire_timeout)
            try:
                yield
            finally:
                entry.last_used = now()
                if entry.live is not None and entry.handle is not None:
                    self._slots.idle(entry)

    @staticmethod
    def _check_unused(entry: Entry) -> None:
        if entry.lock.locked() and not entry.evicting:
            raise SessionBusyError(f"{entry.name} is in use by another task; use it from one at a time")

    async def _put_to_sleep(self, entry: Entry) -> None:
        """Take the worker of a session that nobody uses at this moment."""
        if entry.lock.locked() or not entry.slot:
            return
        entry.evicting = True
        try:
            async with entry.lock:
                live = entry.live
                if live is not None and entry.handle is not None:
                    await live.suspend()
                    entry.slot = False
                    self._slots.give()
                elif entry.tenure is None:
                    self._discard(entry)
                else:  # someone is just taking it
                    return
                self._counts["passivated"] += 1
        finally:
            entry.evicting = False
            self._forget(entry)

    async def _keep_leases(self) -> None:
        pause = self._lease_seconds / 4
        while True:
            await asyncio.sleep(pause)
            held = [entry for entry in self._entries.values() if entry.tenure is not None]
            await asyncio.gather(*(self._renew(entry) for entry in held))

    async def _renew(self, entry: Entry) -> None:
        tenure = entry.tenure
        if tenure is None or tenure.left > 0.7 * self._lease_seconds:
            return
        try:
            await tenure.renew()
        except StoreUnavailable as error:
            if tenure.left > 0:
                return
            lost = LeaseLost(f"the lease of {entry.name} could not be renewed in time: {error}")
        except LeaseLost as error:
            lost = error
        except StoreError as error:
            lost = LeaseLost(f"the lease of {entry.name} could not be renewed: {error}")
        else:
            return
        live = entry.live
        if entry.tenure is tenure and live is not None and live.book.tenure is tenure:
            live.book.lose(lost)
            live.abort()

    async def _keep_house(self) -> None:
        next_prune = now() + _PRUNE_SECONDS
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.evict_idle()
                if now() >= next_prune:
                    next_prune = now() + _PRUNE_SECONDS
                    await self._access.perform(self._access.store.prune, self._prefix)
            except Exception:
                _log.exception("a session pool could not tidy up")


_SESSION_DEFAULTS: Final[dict[str, Any]] = {
    "max_tool_calls": None,
    "namespace": None,
    "clock": None,
    "random_seed": None,
    "timeout": None,
    "max_pause": 600.0,
    "max_journal_bytes": 8 * _MIB,
    "max_output_bytes": 64 * 1024,
    "max_result_bytes": 1 * _MIB,
}


def _is_function(tools: Any) -> bool:
    return callable(tools) and not hasattr(tools, "keys") and not hasattr(tools, "__iter__")


def _check_seconds(name: str, value: Any, *, optional: bool, zero: bool = False) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{name}` must be a number of seconds, not {value!r}")
    if not (value > 0 or (zero and value == 0)) or value == float("inf"):
        raise ValueError(f"`{name}` must be a positive, finite number of seconds, not {value!r}")


def _check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, allowed))}, not {value!r}")
