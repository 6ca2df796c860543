"""What the blocking and the awaiting session have in common: construction, misuse, and everything that needs no waiting."""

from __future__ import annotations

import dataclasses
import datetime as dt
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Generic, Literal, Self, TypeVar, Unpack

from .._version import __version__
from ..core.commands import Answer
from ..core.saved import CatalogIdentity, SavedSession, decode_saved, encode_saved
from ..core.seal import SealingKey, seal, unseal
from ..core.session import Session
from ..errors import (
    CallOutcomeUnknownError,
    JournalError,
    JournalTooLarge,
    PolicyError,
    SessionBusyError,
    StaleStepError,
    ToolError,
    TypeProblem,
)
from ..policy import Limits
from ..telemetry import Span, span
from ..tools.bridge import Prepared
from ..tools.prompt import describe_specs
from ..tools.typescript import stubs_of
from ..types import Done, Failed, Step, ToolCall
from ..wire.messages import SURROGATES
from ..wire.values import decode
from .checking import Checking
from .desk import PolicyDesk
from .driver import Driver
from .events import EventHub, EventStream
from .log import raise_unknown, take_in
from .options import Clock, Options, SessionOptions, Tools, build_options
from .reaper import pause_reaper

__all__ = ("BaseSandbox",)

_MIB = 1024 * 1024
_UNSET: Any = object()
_EXPIRY = 10.0
"""Seconds for the reaper to end a pause."""
OnUnknown = Literal["raise", "ask"] | Callable[[ToolCall], Any]
D = TypeVar("D", bound=Driver)


class BaseSandbox(Generic[D]):
    """Not for use by itself: see `AgentSandbox` and `AsyncAgentSandbox`."""

    _driver: D
    _core_type: type[Session] = Session

    def __init__(
        self,
        tools: Tools,
        *,
        max_tool_calls: int | None = None,
        namespace: str | None = None,
        clock: Clock = None,
        random_seed: int | None = None,
        timeout: float | None = None,
        max_pause: float = 600.0,
        max_journal_bytes: int = 8 * _MIB,
        max_output_bytes: int = 64 * 1024,
        max_result_bytes: int = 1 * _MIB,
        **options: Unpack[SessionOptions],
    ) -> None:
        self._prepare(
            build_options(
                tools,
                max_tool_calls=max_tool_calls,
                namespace=namespace,
                clock=clock,
                random_seed=random_seed,
                timeout=timeout,
                max_pause=max_pause,
                max_journal_bytes=max_journal_bytes,
                max_output_bytes=max_output_bytes,
                max_result_bytes=max_result_bytes,
                more=options,
            )
        )

    def _prepare(self, options: Options) -> None:
        self._options = options
        self._core = self._core_type(
            session_id=secrets.token_hex(16),
            identity=options.identity,
            limits=options.limits,
            tools=options.infos,
            console=options.on_console,
            sequential=options.sequential,
            catalog=options.catalog,
        )
        self._core.saves_sources = options.typecheck != "off"
        self._checking = Checking(
            options.typecheck, options.sandbox, options.identity.engine, options.identity.bootstrap
        )
        self._driver = self._make_driver(options)
        self._take_policy(options)
        self._use = threading.Lock()
        self._expiring = False
        """Whether the one who uses it is the reaper, which is about to be done."""
        self._hub: EventHub | None = None
        self._paused_at = 0.0
        self._pause_token = 0

    def _make_driver(self, options: Options) -> D:
        raise NotImplementedError

    def _take_policy(self, options: Options) -> None:
        core, driver = self._core, self._driver
        if options.policy is not None:
            core.has_policy, driver.desk = True, PolicyDesk(options.policy, options.bridge)
        core.logs_calls, driver.call_log = options.call_log is not None, options.call_log
        if callable(options.on_unknown):
            core.can_find_out, options.bridge.find_out = True, options.on_unknown

    # ── what needs no waiting ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def pending(self) -> ToolCall | None:
        """The call that the session is paused at, also after `load`; else `None`."""
        return self._core.pending

    @property
    def calls_made(self) -> int:
        """Tool calls charged over the session's life."""
        return self._core.budget.made

    @property
    def calls_remaining(self) -> int | None:
        """Tool calls that are left of `max_tool_calls`; `None` without a limit."""
        return self._core.budget.remaining

    @property
    def calls_remaining_by_tool(self) -> dict[str, int]:
        """Calls that are left of each tool with a budget of its own, by name; `max_tool_calls` included. While paused, in this run."""
        return self._core.remaining_by_tool()

    @property
    def policy_error(self) -> PolicyError | None:
        """Why the policy failed the last time it did; `None` if it never has in this process."""
        return self._core.policy_error

    @property
    def unknown_calls(self) -> tuple[ToolCall, ...]:
        """Calls that may have been made or not, as far as `call_log` knows: those that are pending, and those that a process made after
        this session was saved. Of the latter the arguments are not known (`args` is empty)."""
        core = self._core
        pending = core.pending
        unmade = (ToolCall(c.name, (), c.call_id, None, True, c.idempotency_key) for c in core.unmade)
        return (*((pending,) if pending is not None and pending.unknown else ()), *unmade)

    @property
    def clock(self) -> dt.datetime:
        """Where the session's clock began (UTC). Inside, it advances by what timers and tools take."""
        return dt.datetime.fromtimestamp(self._core.identity.clock_ms / 1000, dt.timezone.utc)

    @property
    def random_seed(self) -> int:
        """The seed of `Math.random`."""
        return self._core.identity.seed

    @property
    def lost_runs(self) -> int:
        """Runs that were rolled back: timeouts, out of memory, crashes, cancellations. Their calls stay charged."""
        return self._core.lost_runs

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools, by the names they were given."""
        return tuple(spec.name for spec in self._options.specs.values())

    @property
    def catalog_names(self) -> tuple[str, ...]:
        """The tools of the catalog as they are now, by the names they were given."""
        return () if self._options.catalog is None else self._options.catalog.names

    @property
    def discovered_tools(self) -> tuple[str, ...]:
        """The tools of the catalog that were found, by the names they were given, in the order they were found."""
        return tuple(self._core.discovery.found.values())

    @property
    def session_id(self) -> str:
        """Unique; the same through `dump` and `load`. A fork has its own."""
        return self._core.id

    @property
    def problems(self) -> tuple[TypeProblem, ...]:
        """What the type check of the run that was begun last found, also when `run` gave its value only."""
        return self._checking.problems

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id, while there is one."""
        link = self._driver.link
        return None if link is None else link.pid

    def events(self) -> EventStream:
        """What happens from now on, for one listener: runs, console output, tool calls (see `gloveport.events`).

        The stream is an iterator and an async iterator, and ends when the session is closed. Output comes when the code
        waits or ends, not while it computes. A listener that falls 10,000 events behind misses the oldest, and is told how many.
        """
        if self._hub is None:
            hub = self._hub = EventHub()
            self._core.tell = hub.tell
            weakref.finalize(self, hub.close)  # a session that is dropped without close()
            if self._core.closed:
                hub.close()
        return self._hub.open()

    def is_closed(self) -> bool:
        """Whether the session is closed."""
        return self._core.closed

    def describe_tools(self) -> str:
        """A block for the system prompt: how to write code here, and each tool's signature, text and an example."""
        identity = self._core.identity
        return describe_specs(
            self._options.specs.values(),
            namespace=identity.namespace,
            limits=self._options.limits,
            frozen_clock=identity.frozen_clock,
            catalog=self._catalog_object,
        )

    def typescript_stubs(self) -> str:
        """The tools as a `.d.ts` file."""
        namespace = self._core.identity.namespace
        return stubs_of(self._options.specs.values(), namespace=namespace, catalog=self._catalog_object)

    @property
    def _catalog_object(self) -> str | None:
        return None if self._options.catalog is None else self._options.catalog.object

    def __repr__(self) -> str:
        core = self._core
        state = "closed" if core.closed else "paused" if core.run is not None else "open"
        return f"{type(self).__name__}(tools={list(self.tool_names)!r}, {state}, calls={core.budget.made})"

    # ── shared parts of the operations ───────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _exclusive(self) -> Generator[None]:
        if not self._use.acquire(blocking=False) and not (self._expiring and self._use.acquire(timeout=_EXPIRY)):
            raise SessionBusyError(
                "the session is in use by another thread or task (or by the tool that it waits for); use it from one at a time"
            )
        try:
            yield
        finally:
            self._use.release()

    @staticmethod
    def _check_code(code: object) -> str:
        if not isinstance(code, str):
            raise TypeError(f"the code must be a string, not {type(code).__name__}")
        return code

    def _asked(self, ask: Iterable[str] | None) -> frozenset[str] | None:
        self._driver.pausing = ask is not None
        if ask is None:
            return None
        if isinstance(ask, str):
            raise TypeError("`ask` takes the names of tools, not one string")
        by_name = {spec.name: js_name for js_name, spec in self._options.specs.items()}
        return frozenset(by_name.get(name) or self._asked_of_catalog(name) for name in ask)

    def _asked_of_catalog(self, name: str) -> str:
        catalog = self._options.catalog
        spec = None if catalog is None else catalog.named(name)
        if catalog is None or spec is None:
            raise ValueError(f"`ask` names {name!r}, which is not a tool of this session")
        return f"{catalog.object}.{spec.js_name}"

    def _paused(self, step: Step, waited: float = 0.0) -> Step:
        """Note the time of a pause, which began `waited` seconds ago, and have it ended at `max_pause`."""
        if isinstance(step, ToolCall) and self._core.run is not None:
            self._paused_at = time.monotonic() - waited
            self._pause_token = pause_reaper().watch(self, max(0.0, self._core.run.pause_left - waited) + 0.01)
        return step

    def expire_pause(self, token: int) -> None:
        """Called by the reaper's thread."""
        if token != self._pause_token or not self._use.acquire(blocking=False):
            return
        self._expiring = True
        try:
            if token == self._pause_token and self._core.run is not None and not self._core.closed:
                self._core.expire()
                self._driver.cancel()
                self._driver.release()
        finally:
            self._expiring = False
            self._use.release()

    def _pause_length(self) -> float:
        """Seconds of the pause that ends now."""
        run = self._core.run
        self._driver.pausing = run is not None and run.ask is not None  # a loaded session does not know it yet
        self._pause_token = 0
        return time.monotonic() - self._paused_at

    def _answer(self, step: ToolCall, value: Any, error: BaseException | None) -> Answer:
        self._core.check_step(step)
        if error is None:
            return self._driver.bridge.value(step.call_id, None if value is _UNSET else value)
        if value is not _UNSET:
            raise TypeError("resume() takes a value or error=, not both")
        if not isinstance(error, Exception):
            raise TypeError(f"error= must be an Exception instance, not {error!r}")
        return self._driver.bridge.failure(step.call_id, error)

    @contextmanager
    def _observed(self, name: Span) -> Generator[Callable[[Step | bytes], None]]:
        """A span around an operation; yields what it is told the outcome with: a step, or the blob of a dump."""
        before = self._core.budget.made
        with span(name, engine=self._core.identity.engine, isolation=self._options.engine.isolation) as seen:
            self._driver.traced = seen is not None and seen.recording

            def tell(outcome: Step | bytes) -> None:
                if seen is None:
                    return
                if isinstance(outcome, bytes):
                    seen.size = len(outcome)
                    return
                seen.calls = self._core.budget.made - before
                paused = isinstance(outcome, ToolCall)
                code = getattr(outcome.error, "code", "error") if isinstance(outcome, Failed) else None
                seen.outcome("Paused" if paused else outcome.status, code)

            yield tell

    @staticmethod
    def _value_of(step: Done | Failed) -> Any:
        if isinstance(step, Failed):
            raise step.error
        return step.value

    def _check_call(self, step: ToolCall) -> None:
        self._core.check_open()
        if not isinstance(step, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"call() takes a ToolCall, not {type(step).__name__}")
        if step.name not in self.tool_names and step.name not in self.discovered_tools:
            raise StaleStepError(f"`{step.name}` is not a tool of this session")

    def _to_call(self, step: ToolCall, again: bool) -> Prepared:
        """What to do for a step; raises `CallOutcomeUnknownError` where that cannot be known."""
        self._check_call(step)
        core, bridge = self._core, self._driver.bridge
        info, opened = core.info_of(step), core.open_call(step)
        if again or not (step.unknown or (opened is not None and opened.unknown)):
            return bridge.prepare_step(step, info)
        if bridge.find_out is None:
            raise CallOutcomeUnknownError(
                f"call {step.call_id} of `{step.name}` was begun before, and nobody knows whether it happened: find out and "
                "resume() with what you know, or call(step, again=True) if it may happen twice",
                tool=step.name,
                call_id=step.call_id,
                idempotency_key=info.idempotency_key,
            )
        return bridge.prepare_unknown(step, info)

    def _known_answer(self, step: ToolCall) -> Answer | None:
        """The answer that the log knows for a pending call."""
        known = self._core.known.get(step.call_id)
        if known is None or self._core.open_call(step) is None:
            return None
        return Answer(step.call_id, bool(known.ok), known.answer or b"")

    @staticmethod
    def _given(answer: Answer) -> Any:
        value: Any = decode(answer.payload, SURROGATES if b"\\u" in answer.payload else 0)
        if answer.ok:
            return value
        raise ToolError(f"the tool failed when it ran: {value['name']}: {value['message']}")

    def _take_log(self, calls: Any) -> None:
        """What the log knows after a load; raises `CallOutcomeUnknownError` unless `on_unknown` allows for it."""
        if calls is not None:
            take_in(self._core, calls)
        if self._options.on_unknown == "raise":
            raise_unknown(self._core)

    def _sealed(self, saved: SavedSession, key: SealingKey, associated_data: bytes) -> bytes:
        blob = seal(encode_saved(saved), key, associated_data)
        most = self._options.limits.max_journal_bytes
        if len(blob) > most:
            raise JournalTooLarge(
                f"the dump has {len(blob)} bytes; max_journal_bytes allows {most}. The session goes on; "
                "free what it keeps on globalThis, or allow more"
            )
        return blob

    def _save_steps(self, *, journal: bool = False) -> Generator[Any, Any, Any]:
        return self._core.save(release=__version__, guest=self._driver.engine.build, journal=journal)

    @classmethod
    def _opened(
        cls,
        blob: bytes,
        key: SealingKey,
        tools: Tools,
        *,
        timeout: float | None,
        max_pause: float,
        max_journal_bytes: int,
        associated_data: bytes,
        on_unknown: OnUnknown,
        options: SessionOptions,
    ) -> tuple[Self, SavedSession]:
        """Authenticate, decode and check; nothing is started yet."""
        if on_unknown not in ("raise", "ask") and not callable(on_unknown):
            raise ValueError(f"`on_unknown` must be 'raise', 'ask' or a function, not {on_unknown!r}")
        saved = decode_saved(unseal(blob, key, associated_data, max_bytes=max_journal_bytes))
        built = build_options(
            tools,
            max_tool_calls=None,
            namespace=saved.identity.namespace,
            clock=None,
            random_seed=None,
            timeout=timeout,
            max_pause=max_pause,
            max_journal_bytes=max_journal_bytes,
            max_output_bytes=saved.max_output_bytes,
            max_result_bytes=saved.max_result_bytes,
            more=options,
        )
        _check_identity(saved, built)
        limits = dataclasses.replace(
            built.limits,
            max_tool_calls=saved.budget.limit,
            tool_budgets=saved.budget.tool_limits,
            run_budgets=saved.budget.run_limits,
        )
        options_of_it = dataclasses.replace(built.with_identity(saved.identity, limits), on_unknown=on_unknown)
        return cls._made(options_of_it), saved

    @classmethod
    def _made(cls, options: Options) -> Self:
        session = cls.__new__(cls)
        session._prepare(options)
        return session

    def _forked(self, saved: SavedSession, *, reseed: bool, calls: int | None) -> tuple[Self, SavedSession, int | None]:
        branch = self._core.branch(saved, session_id=secrets.token_hex(16), calls=calls)
        limits: Limits = dataclasses.replace(self._options.limits, max_tool_calls=branch.budget.limit, tool_budgets={})
        child = self._made(self._options.with_identity(self._core.identity, limits))
        return child, branch, secrets.randbits(64) if reseed else None

    def _end_events(self) -> None:
        if self._hub is not None:
            self._hub.close()

    def _shut(self) -> None:
        self._core.close()
        self._end_events()
        self._driver.cancel()
        self._driver.release()


def _check_identity(saved: SavedSession, built: Options) -> None:
    _check_catalog(saved, built)
    if saved.identity.tools != built.identity.tools:
        missing = sorted(set(saved.identity.tools) - set(built.identity.tools))
        extra = sorted(set(built.identity.tools) - set(saved.identity.tools))
        raise JournalError(f"the session was made with other tools: missing here {missing}, not there {extra}")
    if saved.identity.redact != built.identity.redact:
        raise JournalError(
            f"the session was made with redact_host_errors={saved.identity.redact}; load it with the same"
        )
    if built.identity.bootstrap is not None and built.identity.bootstrap != saved.identity.bootstrap:
        raise JournalError("the session was made with another bootstrap; load it with the same, or leave it out")
    if saved.identity.judged and not built.identity.judged:
        raise JournalError(
            "the session was made with a policy: load it with one (`policy=`); `policies.allow_all()` does without"
        )
    if saved.identity.engine != built.identity.engine:
        raise JournalError(f"the session was made with engine={saved.identity.engine!r}; load it with the same")


def _check_catalog(saved: SavedSession, built: Options) -> None:
    there, here = saved.identity.catalog, built.identity.catalog
    if there == here:
        return
    if there is None or here is None:
        which = "no tool catalog: load it without" if there is None else "a tool catalog: load it with the same"
        raise JournalError(f"the session was made with {which} `tools_catalog`")
    gone = sorted(set(saved.discovered.values()) - set(built.catalog.names if built.catalog else ()))
    raise JournalError(
        f"the session was made with another tool catalog: {_catalog_text(there)} there, {_catalog_text(here)} here"
        + (f"; missing here, of those it found: {gone[:20]}" if gone else "")
    )


def _catalog_text(identity: CatalogIdentity) -> str:
    sources = f" and the sources {list(identity.sources)}" if identity.sources else ""
    return f"{identity.size} tools ({identity.digest[:8]}){sources}"
