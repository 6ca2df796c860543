"""`ToolScript`: the agent's tools as functions that a model calls from code it writes."""

from __future__ import annotations

import copy
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast, get_args

from pydantic_ai.agent import AbstractAgent, CallToolsNode
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, ToolSearch, durable_operation
from pydantic_ai.exceptions import UserError
from pydantic_ai.tools import AgentDepsT, RunContext, ToolApproved, ToolDefinition, ToolSelector
from pydantic_ai.toolsets import AbstractToolset

from ...core.seal import MIN_KEY, Sealer, SealingKey
from ...host.checking import TypeCheck, require_checker
from ...policy import DEFAULT_TIMEOUT, MAX_INFLIGHT, MIB, EngineName, Isolation, Limits, SandboxMode
from ...stores import MemoryStore, SQLiteStore, Store
from ...types import Policy
from . import history
from .catalog import Descriptions
from .durable import Outcome, check_agent
from .ledger import Ledger, RecentStore, Unreadable
from .runs import RunState
from .sessions import Settings
from .toolset import Choice, ScriptToolset
from .verdicts import Verdict

__all__ = ("ToolScript",)

_MAX_SESSIONS: Final = 1000
_NAMED_BY_TOOL_SELECTOR: Final = ToolDefinition
"""`ToolSelector` names it in quotes; the schema of specs resolves the quotes in this module."""


@dataclass(kw_only=True)
class ToolScript(AbstractCapability[AgentDepsT]):
    """The agent's tools become functions of a JavaScript/TypeScript session, and the model gets one tool that runs code there.

    Every call that the code makes goes through Pydantic AI's tool manager: validation, hooks, usage limits, approvals, `deps`.
    The code itself can do nothing else. A call that needs an approval pauses the script in the store, until the run is resumed
    with `deferred_tool_results`, here or in another process. Sizes are bytes and times seconds; `None` is no limit.
    """

    id: str | None = "tool_script"

    tools: ToolSelector[Any] = "all"
    """Which tools become functions: all, names, metadata to match, or a predicate `(ctx, tool_def) -> bool`. External tools only if
    they are named or matched; tools that cannot, never: output tools, tool search, tools not revealed yet, tools that run code."""
    tools_catalog: ToolSelector[Any] | None = None
    """Which of those are found by search instead of being declared, so that the description stays small. `None`: none, and no search."""
    tool_name: str = "run_script"
    """The name of the tool that the model gets."""
    keep_tools: bool = False
    """The chosen tools stay callable directly as well."""
    namespace: str | None = None
    """The object that the functions are properties of; `None`: they are globals."""

    store: Store | str | os.PathLike[str] | None = field(default=None, repr=False)
    """Where sessions are kept between scripts and runs: a store, a path of an SQLite file, or `None`: this process's memory, for the
    1000 conversations used last."""
    key: bytes | str | Sealer | None = field(default=None, repr=False)
    """Seals what is stored: at least 16 bytes, a `KeyRing`, hexadecimal text, or `"env:NAME"` for that in an environment variable.
    `None`: a random one, for memory only."""
    expires: float | None = None
    """How long an unused session is kept usable."""

    max_failures: int | None = 5
    """Failed scripts in a row, after which a run's scripts are refused."""
    max_retries: int = 3
    """Calls with arguments that are not `{code: string, restart?: boolean}`, after which the run ends, as with any tool."""

    timeout: float = DEFAULT_TIMEOUT
    """Computing time of a script. Waiting for tools does not count."""
    max_pause: float = 600.0
    """Waiting time of a script, without the time that it waits in the store."""
    tool_timeout: float | None = None
    """Time per tool call, with inline approval."""
    max_memory: int = 256 * MIB
    """Of the session's heap."""
    max_output_bytes: int = 16 * 1024
    """Of stdout and stderr each."""
    max_result_bytes: int = 64 * 1024
    """Of the result as JSON."""
    max_journal_bytes: int = 8 * MIB
    """Of a stored session."""
    max_tool_calls: int | None = None
    """Tool calls over a conversation's life, also across `restart`."""
    tool_budgets: Mapping[str, int] = field(default_factory=dict[str, int])
    """The same per tool, by name."""
    run_budgets: Mapping[str, int] = field(default_factory=dict[str, int])
    """Tool calls per script and tool, by name."""
    max_host_calls: int | None = None
    """Tool calls per script."""
    policy: Policy | None = field(default=None, repr=False)
    """Decides about each call of a script before it is charged and made: see `gloveport.policies`. What it asks for becomes an approval of
    Pydantic AI, with `{"reason": …}` as its metadata."""
    max_inflight: int = MAX_INFLIGHT
    """Tool calls at the same time."""
    engine: EngineName = "wasm"
    """What executes the code: `"wasm"`, or `"v8"` for code that computes much. A stored session stays with its engine."""
    isolation: Isolation = "process"
    """`"process"`: a worker per session; `"shared"`: one for a `group`; `"inline"`: this process, for trusted code only."""
    sandbox: SandboxMode = "require"
    """`"require"`: refuse to run without the whole jail; `"auto"`: warn; `"off"`: no jail."""
    group: str = "default"
    """Which sessions share a worker under `isolation="shared"`."""
    bootstrap: str | None = None
    """JavaScript that every new session evaluates first."""
    typecheck: TypeCheck = "off"
    """`"block"`: scripts whose types do not fit are not run, and the model is told why; `"warn"`: it is told beside the result. Needs
    `gloveport install typecheck`."""

    def __post_init__(self) -> None:
        if not self.tool_name:
            raise UserError("ToolScript: `tool_name` must not be empty.")
        for name in ("max_failures", "max_retries"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < (1 if name == "max_failures" else 0)):
                raise UserError(f"ToolScript: `{name}` must be a number of times, not {value!r}.")
        # Resolved in place, so that a copy made with `dataclasses.replace` has the same store under the same key.
        self.store, self.key = _resolve_store(self.store, self.key)
        self._settings = self._make_settings()
        self._ledger = Ledger(
            self.store, self.key, self.id or "tool_script", expires=self.expires, max_bytes=self.max_journal_bytes
        )
        self._descriptions = Descriptions(self._settings.limits)
        self._run = self._make_run()

    def _make_settings(self) -> Settings:
        try:
            limits = Limits(
                timeout=self.timeout,
                max_pause=self.max_pause,
                tool_timeout=self.tool_timeout,
                max_memory=self.max_memory,
                max_output_bytes=self.max_output_bytes,
                max_result_bytes=self.max_result_bytes,
                max_journal_bytes=self.max_journal_bytes,
                max_tool_calls=self.max_tool_calls,
                tool_budgets=dict(self.tool_budgets),
                run_budgets=dict(self.run_budgets),
                max_host_calls=self.max_host_calls,
                max_inflight=self.max_inflight,
            )
        except (TypeError, ValueError) as error:
            raise UserError(f"ToolScript: {error}") from error
        if self.policy is not None and not callable(self.policy):
            raise UserError(f"ToolScript: `policy` must be callable, not {self.policy!r}.")
        if self.engine not in get_args(EngineName):
            raise UserError(f"ToolScript: `engine` must be one of {get_args(EngineName)}, not {self.engine!r}.")
        if self.engine == "v8" and self.isolation != "process":
            raise UserError("ToolScript: engine='v8' has isolation='process' only.")
        if self.typecheck not in get_args(TypeCheck):
            raise UserError(f"ToolScript: `typecheck` must be 'off', 'warn' or 'block', not {self.typecheck!r}.")
        if self.typecheck != "off":
            require_checker()
        return Settings(
            limits,
            self.namespace,
            self.engine,
            self.isolation,
            self.sandbox,
            self.group,
            self.bootstrap,
            self.policy,
            self.typecheck,
        )

    def _make_run(self) -> RunState:
        return RunState(
            self.tool_name, self._settings, self._ledger, tool_timeout=self.tool_timeout, max_failures=self.max_failures
        )

    # ── what Pydantic AI asks for ────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def combine(cls, capabilities: Sequence[AbstractCapability[AgentDepsT]]) -> AbstractCapability[AgentDepsT]:
        """The last one, whole: merging field by field would widen limits and mix one's store with another's key."""
        return capabilities[-1]

    def get_ordering(self) -> CapabilityOrdering:
        """Around everything that adds or changes tools, and around tool search, which the model goes on calling itself."""
        return CapabilityOrdering(position="outermost", wraps=[ToolSearch])

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> ToolScript[AgentDepsT]:
        """A copy with the state of one run; store and key are shared."""
        clone = copy.copy(self)
        clone._run = clone._make_run()
        clone._run.dispatch = clone.perform_script
        return clone

    def for_agent(self, agent: AbstractAgent[AgentDepsT, Any]) -> ToolScript[AgentDepsT]:
        """Raise `UserError` for an agent whose durable engine scripts do not work with."""
        assert isinstance(self.store, Store)  # resolved
        check_agent(agent, self.store)
        return self

    # ── what a durable engine records ────────────────────────────────────────────────────────────────────────────────

    @durable_operation(name="script")
    async def perform_script(self, ctx: RunContext[Any], call_id: str) -> Outcome:
        """Run the script of a tool call; called by the durable engine."""
        perform = self._run.operations.get(call_id)
        if perform is None or ctx.in_durable_context:
            raise UserError(
                "ToolScript: a script runs as an operation in the process of its workflow, and nowhere else."
            )
        return await perform(ctx)

    @durable_operation(name="waiting")
    async def find_waiting(self, ctx: RunContext[Any]) -> str | None:
        """The tool call id of the script that waits."""
        try:
            found = await self._ledger.get(history.conversation_of(ctx))
        except Unreadable:  # said when the script is called
            return None
        waiting = found.conversation.waiting
        return None if waiting is None else waiting.script_id

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        """Puts the script tool in front of the agent's tools."""
        choice = Choice(
            tools=self.tools,
            tools_catalog=self.tools_catalog,
            keep_tools=self.keep_tools,
            max_retries=self.max_retries,
            deferred_id=self.id if self.defer_loading else None,
            descriptions=self._descriptions,
        )
        return ScriptToolset(toolset, self._run, choice)

    async def before_node_run(self, ctx: RunContext[AgentDepsT], *, node: Any) -> Any:
        """Takes answers that were given for a script that waits, which would otherwise become the script's own result.

        A denial is for the one call that the script waits at: the script is told, and goes on.
        """
        if not isinstance(node, CallToolsNode) or not node.tool_call_results:
            return cast("Any", node)
        waiting = await self.find_waiting(ctx)
        answers = cast("dict[str, Any]", node.tool_call_results)
        given = answers.get(waiting) if waiting is not None else None
        if waiting is not None and given is not None and given != "skip":
            self._run.verdicts[waiting] = Verdict(given, taken=True)
            answers[waiting] = ToolApproved()
        return cast("Any", node)


def _resolve_store(
    store: Store | str | os.PathLike[str] | None, key: bytes | str | Sealer | None
) -> tuple[Store, SealingKey]:
    if isinstance(key, str):
        key = _key_from_text(key)
    if isinstance(key, bytes) and len(key) < MIN_KEY:
        raise UserError(f"ToolScript: `key` must have at least {MIN_KEY} bytes: use secrets.token_bytes(32).")
    if store is None:
        return RecentStore(_MAX_SESSIONS), key or secrets.token_bytes(32)
    if key is None and not isinstance(store, MemoryStore):
        raise UserError(
            "ToolScript: a store that outlives the process needs a `key` that does, too: "
            "make one with secrets.token_bytes(32) and keep it with your secrets."
        )
    if isinstance(store, (str, os.PathLike)):
        store = SQLiteStore(store)
    return store, key or secrets.token_bytes(32)


def _key_from_text(text: str) -> bytes:
    if text.startswith("env:"):
        name = text[4:]
        text = os.environ.get(name, "")
        if not text:
            raise UserError(f"ToolScript: the environment variable {name!r}, which is to hold the key, is not set.")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise UserError('ToolScript: a `key` given as text must be hexadecimal, or "env:NAME".') from None
