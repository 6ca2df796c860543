"""What a session is made with: checked, completed, and turned into the parts that the drivers need."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, get_args

import msgspec

from ..calls import CallLog
from ..core.saved import Identity
from ..core.session import ToolInfo
from ..engines.defaults import toolbox
from ..engines.v8.engine import V8Engine
from ..engines.wasm.engine import WasmEngine
from ..errors import EngineUnavailableError
from ..policy import V8_MIN_MEMORY, EngineName, Isolation, Limits, SandboxMode
from ..tools.bridge import ToolBridge
from ..tools.spec import ToolSpec, build_specs, check_schemas
from ..types import Policy, RuntimeConfig, SchemaTool
from .checking import TypeCheck, require_checker
from .log import check_log

if TYPE_CHECKING:
    from ..tools.finders import SessionCatalog

__all__ = ("Clock", "Options", "SessionOptions", "Tools")

Tools = (
    Mapping[str, Callable[..., Any] | SchemaTool | Mapping[str, Any]]
    | Sequence[Callable[..., Any] | SchemaTool | Mapping[str, Any]]
)
Clock = dt.datetime | float | Literal["frozen"] | None

_DEFAULTS: Final = Limits()
_TYPE_CHECKS, _ENGINE_NAMES = get_args(TypeCheck), get_args(EngineName)
_SANDBOX_MODES, _ISOLATIONS = get_args(SandboxMode), get_args(Isolation)


class SessionOptions(TypedDict, total=False):
    """The keyword options that a session and an `IsolatedRuntime` have in common."""

    config: RuntimeConfig | None
    """The same as one object; a keyword wins over it."""
    max_memory: int
    """Bytes of guest memory (default 256 MiB)."""
    tool_timeout: float | None
    """Seconds per tool call that the session runs itself (default: no limit but `max_pause`)."""
    tool_budgets: Mapping[str, int]
    """Calls per tool over the session's life."""
    run_budgets: Mapping[str, int]
    """Calls per tool in one run."""
    max_host_calls: int | None
    """Tool calls in one run."""
    policy: Policy | None
    """Decides about every call before it is charged and made: see `gloveport.policies`. A coroutine function may take its time."""
    call_log: CallLog | None
    """Told of each call before its tool runs and when it answered; asked by `load`: see `gloveport.calls`."""
    max_inflight_host_calls: int
    """Tool calls at the same time, plus one (default 64, so 63 calls)."""
    sequential: bool
    """Answer one tool call at a time."""
    redact_host_errors: bool
    """Show the guest only the class name of a tool's error (default)."""
    expose_host_errors: tuple[type[BaseException], ...]
    """Classes whose text the guest may read all the same."""
    validate: bool
    """Check the arguments of calls against annotations and schemas, and convert them, before a tool is called (default)."""
    sandbox: SandboxMode
    """`"require"` (default) refuses to run without the whole jail, `"auto"` warns, `"off"` has none."""
    isolation: Isolation
    """`"process"` (default): a worker per session. `"shared"`: one for a `group`. `"inline"`: this process, trusted code only."""
    group: str
    """Which sessions share a worker under `isolation="shared"`."""
    engine: EngineName
    """What executes the code: `"wasm"` (default), or `"v8"`: many times as fast at computing, but a session is restored by replay."""
    tools_catalog: Any
    """Tools that are found by search instead of declared: as `tools`, or a `ToolCatalog`, or a source such as an MCP server."""
    on_console: Callable[[str, str], None] | None
    """Called as `on_console(stream, text)` as output arrives."""
    bootstrap: str | None
    """JavaScript evaluated once, before the first run."""
    typecheck: TypeCheck
    """`"block"` fails a run whose types do not fit before anything of it runs, `"warn"` only notes what was found. Default `"off"`."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Everything of a session that is not state."""

    limits: Limits
    identity: Identity
    specs: dict[str, ToolSpec]
    bridge: ToolBridge
    engine: WasmEngine | V8Engine
    compiler: Any
    sequential: bool
    on_console: Callable[[str, str], None] | None
    catalog: SessionCatalog | None = None
    policy: Policy | None = None
    call_log: CallLog | None = None
    on_unknown: Any = "raise"
    typecheck: TypeCheck = "off"
    sandbox: SandboxMode = "require"

    @property
    def infos(self) -> dict[str, ToolInfo]:
        """The tools as the core knows them."""
        return {js: ToolInfo(spec.name, js, spec.sequential) for js, spec in self.specs.items()}

    def with_identity(self, identity: Identity, limits: Limits) -> Options:
        """The same for a stored session."""
        judged = identity.judged or self.policy is not None
        return dataclasses.replace(self, identity=msgspec.structs.replace(identity, judged=judged), limits=limits)


def build_options(
    tools: Tools,
    *,
    max_tool_calls: int | None,
    namespace: str | None,
    clock: Clock,
    random_seed: int | None,
    timeout: float | None,
    max_pause: float,
    max_journal_bytes: int,
    max_output_bytes: int,
    max_result_bytes: int,
    more: SessionOptions,
) -> Options:
    """Check and complete. Raises `TypeError` or `ValueError` naming the option."""
    unknown = sorted(set(more) - set(SessionOptions.__annotations__))
    if unknown:
        known = ", ".join(sorted(SessionOptions.__annotations__))
        raise TypeError(f"unknown option {unknown[0]!r}; beside the named ones there are: {known}")
    config = more.get("config") or RuntimeConfig()
    specs = build_specs(tools, namespace=namespace)
    validate = _choice("validate", more.get("validate", True), (True, False))
    if validate:
        check_schemas(specs.values())
    _require_gil()
    catalog = None
    if more.get("tools_catalog") is not None:
        from ..tools.finders import session_catalog  # a search engine that few sessions need

        catalog = session_catalog(more.get("tools_catalog"), specs, namespace)
        specs = {**specs, **catalog.specs}
    inflight = more.get("max_inflight_host_calls", _DEFAULTS.max_inflight + 1)
    limits = Limits(
        timeout=_first(timeout, config.timeout, _DEFAULTS.timeout),
        max_pause=max_pause,
        tool_timeout=more.get("tool_timeout"),
        max_memory=_first(more.get("max_memory"), config.max_memory, _DEFAULTS.max_memory),
        max_output_bytes=max_output_bytes,
        max_result_bytes=max_result_bytes,
        max_journal_bytes=max_journal_bytes,
        max_tool_calls=max_tool_calls,
        tool_budgets={
            **(catalog.catalog.budgets if catalog else {}),
            **{spec.name: spec.max_calls for spec in specs.values() if spec.max_calls is not None},
            **(more.get("tool_budgets") or {}),
        },
        run_budgets=dict(more.get("run_budgets") or {}),
        max_host_calls=more.get("max_host_calls"),
        max_inflight=inflight - 1 if type(inflight) is int else inflight,
    )
    typecheck: TypeCheck = _choice("typecheck", more.get("typecheck", "off"), _TYPE_CHECKS)
    if typecheck != "off":
        require_checker()
    redact = more.get("redact_host_errors", True)
    policy = more.get("policy")
    if policy is not None and not callable(policy):
        raise TypeError(f"`policy` must be callable, not {policy!r}")
    identity = Identity(
        clock_ms=_clock_ms(clock),
        seed=_seed(random_seed),
        frozen_clock=clock == "frozen",
        namespace=namespace,
        tools=tuple(sorted(spec.name for spec in specs.values())),
        redact=redact,
        bootstrap=more.get("bootstrap", config.bootstrap),
        engine=_choice("engine", more.get("engine", "wasm"), _ENGINE_NAMES),
        catalog=None if catalog is None else catalog.catalog.identity,
        judged=policy is not None,
    )
    return Options(
        limits,
        identity,
        specs,
        ToolBridge(
            specs,
            namespace=namespace,
            redact=redact,
            expose=tuple(more.get("expose_host_errors") or ()),
            catalog=catalog,
            validate=validate,
        ),
        _engine(more, limits),
        toolbox(_choice("sandbox", more.get("sandbox", "require"), _SANDBOX_MODES)),
        bool(more.get("sequential", False)),
        more.get("on_console", config.on_console),
        catalog,
        policy,
        check_log(more.get("call_log")),
        typecheck=typecheck,
        sandbox=more.get("sandbox", "require"),
    )


def _engine(more: SessionOptions, limits: Limits) -> WasmEngine | V8Engine:
    isolation = _choice("isolation", more.get("isolation", "process"), _ISOLATIONS)
    sandbox = _choice("sandbox", more.get("sandbox", "require"), _SANDBOX_MODES)
    if more.get("engine", "wasm") == "v8":
        if isolation != "process":
            raise ValueError(
                f"engine='v8' needs isolation='process', not {isolation!r}: V8 has no boundary of its own that would do"
            )
        if limits.max_memory < V8_MIN_MEMORY:
            raise ValueError(f"`max_memory` must be at least {V8_MIN_MEMORY} for engine='v8', not {limits.max_memory}")
        return V8Engine(sandbox=sandbox, max_memory=limits.max_memory)
    return WasmEngine(
        isolation=isolation,
        sandbox=sandbox,
        max_memory=limits.max_memory,
        group=more.get("group", "default"),
    )


def _choice(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def _require_gil() -> None:
    """Sessions are handed between threads under the protection of the GIL; without it nothing of that was proved."""
    enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)  # from 3.13 on
    if enabled is not None and not enabled():
        raise EngineUnavailableError("gloveport does not run on free-threaded Python without a GIL: set PYTHON_GIL=1")


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _clock_ms(clock: Clock) -> float:
    if clock is None or clock == "frozen":
        return float(int(time.time() * 1000))
    if isinstance(clock, dt.datetime):
        aware = clock if clock.tzinfo else clock.replace(tzinfo=dt.timezone.utc)
        return float(int(aware.timestamp() * 1000))
    if isinstance(clock, (bool, str)) or not math.isfinite(clock):
        raise TypeError(f"`clock` must be a datetime, epoch seconds or 'frozen', not {clock!r}")
    if abs(clock) > 8.64e12:  # ECMA-262 21.4.1.1: times reach 100,000,000 days from the epoch
        raise ValueError(f"`clock` must be epoch seconds within ±8.64e12, not {clock!r}")
    return float(int(clock * 1000))


def _seed(seed: int | None) -> int:
    if seed is None:
        return secrets.randbits(32)
    if isinstance(seed, bool) or not isinstance(seed, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`random_seed` must be an integer, not {seed!r}")
    if not 0 <= seed < 2**64:
        raise ValueError(f"`random_seed` must be between 0 and 2**64-1, not {seed}")
    return seed
