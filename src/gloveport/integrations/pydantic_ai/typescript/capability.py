"""`TypeScriptSandbox`: complete JavaScript, TypeScript and TSX modules as a tool."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, cast, get_args

from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, ToolSearch, durable_operation
from pydantic_ai.exceptions import UserError
from pydantic_ai.tools import AgentDepsT, RunContext, ToolDefinition, ToolSelector
from pydantic_ai.toolsets import AbstractToolset

from ....errors import TypeScriptSandboxExecutionError
from ....events import ConsoleOutput
from ....host.modules.session import MAX_OUTPUT, MAX_TIMEOUT, MIN_OUTPUT, TypeScriptSandboxSession
from ....host.widgets.artifacts import Artifacts
from ....permissions import Packages
from ....policy import NetworkRules, SandboxMode, check_count, check_seconds
from ....tools.bridge import ToolBridge
from .outcome import Outcome, of_module, of_widget
from .runs import ModuleRun, RunSessions
from .texts import DESCRIPTION, instructions_for
from .tools import Surroundings
from .toolset import RUN, ModuleToolset

__all__ = ("TypeScriptSandbox",)

_NAMED_BY_TOOL_SELECTOR: Final = ToolDefinition
"""`ToolSelector` names it in quotes; the schema of specs resolves the quotes in this module."""


@dataclasses.dataclass(kw_only=True)
class TypeScriptSandbox(AbstractCapability[AgentDepsT]):
    """The model gets `run_typescript`: it runs a complete module in a jailed process of its own and returns what that returned.

    The module has no packages, no network, no files and no tools but what these options give it. Each agent run has a worker of its
    own, started by the first call; what a module leaves on `globalThis` is there for the next call of the run. Times are seconds.
    """

    id: str | None = "typescript_sandbox"

    allow_package_imports: bool | Packages = False
    """Imports from npm, JSR and URLs: none, all public ones, or what a `Packages` says. Gives no network."""
    allow_network: bool | NetworkRules | Sequence[str] = False
    """`fetch`, WebSocket, `node:http`, `Deno.connect`: none, every public host, or what rules say. Addresses that are not public are
    refused unless a rule names them."""
    enable_rendering: bool = False
    """The model gets `render_widget` as well: a React component becomes an HTML document."""
    plugins: Sequence[str] = ()
    """Of the renderer: `"npm:@tailwindcss/vite@latest"`."""
    max_old_generation_size_mb: int | None = 128
    """V8's heap in MiB; `None`: as `max_memory_mb`."""
    max_memory_mb: int = 512
    """All private memory of the worker beyond the program's own, in MiB: also buffers and WebAssembly memories."""
    timeout: float = 30.0
    """Of each call. Waiting for a worker does not count."""
    max_output_bytes: int = 50 * 1024
    """Of the result as compact JSON, of an error's text, and of stdout and stderr each, in bytes of UTF-8."""
    max_retries: int = 3
    """Failed calls in a row after which no more code is run in the agent run. With `on_error="retry"` one more ends the run."""
    session: TypeScriptSandboxSession | None = dataclasses.field(default=None, repr=False)
    """Use this open session instead of one per run. It is neither opened nor closed, and has its own settings."""
    instructions: str | None = None
    """Replaces the built-in instructions; `""`: none."""

    inputs: Mapping[str, Any] | Callable[[RunContext[AgentDepsT]], Mapping[str, Any]] | None = dataclasses.field(
        default=None, repr=False
    )
    """JSON data by name that every module is given: the argument of its exported function, or variables of a script. So data need not
    pass through the model. A function is asked before each call."""
    on_console: Callable[[ConsoleOutput], object] | None = dataclasses.field(default=None, repr=False)
    """Called with every line that a module prints, as it prints it."""
    tools: ToolSelector[Any] | None = None
    """Which of the agent's tools a module may call, as `await tools.<name>({...})`. `None`: none. They stay callable directly."""
    tool_timeout: float | None = None
    """Of each such call."""
    on_error: Literal["result", "retry"] = "result"
    """What a failed module is: a failed result, which uses up no retries, or a `ModelRetry`."""
    widget_output: Literal["artifact", "html"] = "artifact"
    """What the model gets of a widget: its id, size and warnings, or the whole document."""
    sandbox: SandboxMode = "require"
    """`"require"`: refuse to run without the whole jail; `"auto"`: warn; `"off"`: no jail."""

    widgets: Artifacts = dataclasses.field(init=False, repr=False, compare=False)
    """What was rendered, by `artifact_id`: for the application, also after the run."""

    def __post_init__(self) -> None:
        self._check()
        self.widgets = Artifacts()
        self._sessions = RunSessions(self._make_session)
        self._run = self._make_run()
        if self.session is None:
            self._make_session()  # refuses now what it would refuse at the first call
        if self.defer_loading and self.description is None:
            self.description = DESCRIPTION

    def _check(self) -> None:
        if isinstance(self.allow_package_imports, Mapping):  # from a spec
            self.allow_package_imports = Packages(**cast("dict[str, Any]", self.allow_package_imports))
        if isinstance(self.allow_network, Mapping):
            self.allow_network = NetworkRules(**cast("dict[str, Any]", self.allow_network))
        self.plugins = tuple(self.plugins) if not isinstance(self.plugins, str) else (self.plugins,)
        for name in ("timeout", "tool_timeout"):
            check_seconds(name, getattr(self, name), optional=name == "tool_timeout")
        if self.timeout > MAX_TIMEOUT:
            raise ValueError(f"`timeout` must be at most {MAX_TIMEOUT} seconds, not {self.timeout!r}")
        check_count("max_output_bytes", self.max_output_bytes, least=MIN_OUTPUT, most=MAX_OUTPUT)
        check_count("max_retries", self.max_retries, least=0)
        for name, choices in (
            ("on_error", ("result", "retry")),
            ("widget_output", ("artifact", "html")),
            ("sandbox", get_args(SandboxMode)),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"`{name}` must be one of {choices}, not {getattr(self, name)!r}")
        if self.inputs is not None and not callable(self.inputs) and not isinstance(self.inputs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`inputs` must be a mapping, a function of the run context, or None, not {self.inputs!r}")
        if self.on_console is not None and not callable(self.on_console):
            raise TypeError(f"`on_console` must be callable, not {self.on_console!r}")
        if self.instructions is not None and not isinstance(self.instructions, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`instructions` must be a text or None, not {self.instructions!r}")
        if self.session is not None:
            self._check_session(self.session)

    def _check_session(self, session: object) -> None:
        if not isinstance(session, TypeScriptSandboxSession):
            raise TypeError(f"`session` must be a TypeScriptSandboxSession, not {session!r}")
        given = [name for name in _OWNED if getattr(self, name) != _default(name)]
        if given:
            raise ValueError(
                f"{', '.join(f'`{name}`' for name in given)} cannot be set beside `session`: give it to the session"
            )

    def _make_session(self) -> TypeScriptSandboxSession:
        return TypeScriptSandboxSession(**{name: getattr(self, name) for name in _OWNED})

    def _make_run(self) -> ModuleRun:
        return ModuleRun(self._make_session, self.session, self.tool_timeout)

    # ── what Pydantic AI asks for ────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def combine(cls, capabilities: Sequence[AbstractCapability[AgentDepsT]]) -> AbstractCapability[AgentDepsT]:
        """The last one, whole: merging field by field would widen what it allows."""
        return capabilities[-1]

    def get_ordering(self) -> CapabilityOrdering | None:
        """With `tools`: around everything that adds or changes tools."""
        return None if self.tools is None else CapabilityOrdering(position="outermost", wraps=[ToolSearch])

    def for_agent(self, agent: AbstractAgent[AgentDepsT, Any]) -> TypeScriptSandbox[AgentDepsT]:
        """Raise `UserError` for what a durable engine cannot have."""
        from pydantic_ai.durable_exec import BaseDurabilityCapability

        durability = cast("BaseDurabilityCapability[Any] | None", BaseDurabilityCapability.from_agent(agent))
        if durability is not None and (self.tools is not None or self.session is not None):
            option = "tools" if self.tools is not None else "session"
            raise UserError(
                f"TypeScriptSandbox: `{option}` does not work with {durability.engine_name}: a module runs as an operation, which may be "
                "in another process. Leave it out; for code that calls tools use ToolScript."
            )
        return self

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> TypeScriptSandbox[AgentDepsT]:
        """A copy with the state of one run."""
        clone = copy.copy(self)
        clone._run = clone._make_run()
        return clone

    def get_instructions(self) -> str | None:
        """What the options mean for the code that the model writes."""
        if self.instructions is not None:
            return self.instructions or None
        return instructions_for(self)

    def get_toolset(self) -> AbstractToolset[AgentDepsT]:
        """`run_typescript`, and `render_widget` if that is enabled."""
        return ModuleToolset(self, self._run)

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT] | None:
        """With `tools`: looks at the agent's tools."""
        return None if self.tools is None else Surroundings(toolset, self._run.tools, self.tools, RUN)

    @property
    def renders(self) -> bool:
        """Whether there is `render_widget`."""
        return self.enable_rendering if self.session is None else self.session.renders

    # ── what a durable engine records ────────────────────────────────────────────────────────────────────────────────

    @durable_operation(name="module")
    async def perform_module(self, ctx: RunContext[Any], source: str, earlier: bool) -> Outcome:
        """Run a module in the session that this process has for the agent run; called by a durable engine. `earlier`: the run had
        modules before, so that a new session is one that has lost their state."""
        async with self._sessions.use(ctx.run_id or "", lost=earlier) as (session, lost):
            return await self.run(ctx, session, source, lost=lost)

    async def run(
        self,
        ctx: RunContext[Any],
        session: TypeScriptSandboxSession,
        source: str,
        *,
        tools: ToolBridge | None = None,
        lost: bool = False,
    ) -> Outcome:
        """Run a module in a session."""
        inputs = self.inputs(ctx) if callable(self.inputs) else self.inputs
        result = await session.run_module(
            source,
            inputs=inputs,
            timeout=self.timeout,
            max_output_bytes=self.max_output_bytes,
            tools=tools,
            on_event=self.on_console,
        )
        return of_module(result, lost=lost)

    @durable_operation(name="widget")
    async def perform_widget(self, ctx: RunContext[Any], source: str) -> Outcome:
        """Render a widget; called by a durable engine."""
        async with self._sessions.use(ctx.run_id or "", lost=False) as (session, _):
            return await self.render(session, source)

    async def render(self, session: TypeScriptSandboxSession, source: str) -> Outcome:
        """Render a widget in a session."""
        try:
            widget = await session.render(source, timeout=self.timeout)
        except TypeScriptSandboxExecutionError as error:
            metadata = {"typescript_sandbox": True, "error_type": error.code}
            return Outcome(ok=False, value=None, text=str(error), metadata=metadata)
        whole = self.widget_output == "html"
        if whole and widget.bytes > self.max_output_bytes:
            text = f"the document has more than {self.max_output_bytes} bytes: raise `max_output_bytes`, or use widget_output='artifact'"
            return Outcome(
                ok=False, value=None, text=text, metadata={"typescript_sandbox": True, "error_type": "result_too_large"}
            )
        self.widgets.put(widget)
        return of_widget(widget, whole=whole, call_input=source, toolset_id=self.id or "")


_OWNED: Final = (
    "allow_package_imports",
    "allow_network",
    "enable_rendering",
    "plugins",
    "max_old_generation_size_mb",
    "max_memory_mb",
    "sandbox",
)
"""Options of the session that a run has of its own."""


def _default(name: str) -> Any:
    return next(field.default for field in dataclasses.fields(TypeScriptSandbox) if field.name == name)
