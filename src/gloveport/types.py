"""The values that people see: steps, results, tools described by JSON Schema, and a session's configuration."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from .errors import TypeProblem

__all__ = (
    "Allow",
    "Ask",
    "CallRequest",
    "Decision",
    "Deny",
    "Done",
    "ExecutionResult",
    "Failed",
    "Policy",
    "RuntimeConfig",
    "SchemaTool",
    "Step",
    "ToolCall",
    "json_data",
)

Status = Literal["Succeeded", "Failed"]


@dataclasses.dataclass(frozen=True)
class SchemaTool:
    """A tool described by JSON Schema (MCP style): it takes one object and its callable receives a `dict`.

    A plain mapping with the same keys works wherever a `SchemaTool` does; `inputSchema` and `outputSchema` (the MCP
    spellings) are understood too.
    """

    name: str
    """The name as the model calls it; characters that JavaScript does not allow become `_`."""
    description: str
    """What it does, for the model."""
    input_schema: Mapping[str, Any]
    """JSON Schema of the one argument, an object."""
    callable: Callable[..., Any]
    """Receives the object as a `dict`; sync or async."""
    output_schema: Mapping[str, Any] | None = None
    """JSON Schema of what it returns; without it the model is told `unknown`."""
    annotations: Mapping[str, Any] | None = None
    """What is said of it for a policy, such as `{"readOnlyHint": True}` (MCP). As trustworthy as whoever said it."""
    validate: bool = True
    """Check the object against `input_schema` before the call; the callable then gets it as JSON data. `False`: it gets what came."""


@dataclasses.dataclass(frozen=True)
class RuntimeConfig:
    """What a session and an `IsolatedRuntime` have in common; every field may also be given as a keyword."""

    on_console: Callable[[str, str], None] | None = None
    """Called as `on_console(stream, text)` for console output as it arrives, `stream` being `"stdout"` or `"stderr"`."""
    bootstrap: str | None = None
    """JavaScript that is evaluated once, before the first run; what it puts on `globalThis` stays."""
    timeout: float | None = None
    """Seconds of guest computing time per run."""
    max_memory: int | None = None
    """Bytes of guest memory."""


@dataclasses.dataclass(frozen=True)
class ToolCall:
    """The session waits at this call: answer it with `session.resume(step, value)` or `resume(step, error=exc)`."""

    name: str
    """The tool's name, as it was given."""
    args: tuple[Any, ...]
    """Positional arguments: data that the guest chose. Validate it, and show it as data."""
    call_id: int
    """Unique within the session's life, also across `dump` and `load`."""
    reason: str | None = dataclasses.field(default=None, compare=False)
    """Why the policy wants someone to be asked; `None` if it does not, or there is none."""
    unknown: bool = dataclasses.field(default=False, compare=False)
    """The tool may have run for it already, in a process that ended before it noted an answer. Find out before you answer it."""
    idempotency_key: str = dataclasses.field(default="", compare=False, repr=False)
    """The same whenever this very call is made (see `gloveport.calls`); for services that take one."""


@dataclasses.dataclass(frozen=True)
class Allow:
    """A policy's decision: make the call."""


@dataclasses.dataclass(frozen=True)
class Deny:
    """A policy's decision: do not make the call. The code gets a `ToolDeniedError`; the call is not charged."""

    reason: str = ""
    """What the model reads. It is shown as it is, also with `redact_host_errors`."""
    end_run: bool = False
    """End the run, too: it is rolled back and fails with `RunDenied`."""


@dataclasses.dataclass(frozen=True)
class Ask:
    """A policy's decision: hand the call out to whoever drives the session (`ToolCall.reason`). Where nobody can be asked (`run`,
    `execute`) the code gets a `ToolDeniedError`."""

    reason: str = ""
    """What the person reads."""


Decision = Allow | Deny | Ask | Literal["allow", "deny", "ask"] | tuple[Literal["allow", "deny", "ask"], str]
"""What a policy gives. Anything else counts as a mistake of the policy, and as a denial."""


@dataclasses.dataclass(frozen=True)
class CallRequest:
    """What a policy is asked about: a call that was neither charged nor made yet."""

    name: str
    """The tool's name, as it was given."""
    args: tuple[Any, ...]
    """Positional arguments (one object for a schema tool): data that the guest chose."""
    call_id: int
    """As in `ToolCall`."""
    run: int
    """The run's number in its session, from 1."""
    session_id: str
    annotations: Mapping[str, Any]
    """What is said of the tool, such as `{"readOnlyHint": True}` (MCP); empty if nothing is. As trustworthy as whoever said it."""
    calls_made: int
    """Calls that were charged to the session so far."""
    calls_remaining: int | None
    """Calls that are left for this tool now, whichever budget is the tightest; `None` without a limit."""
    idempotency_key: str
    """As in `ToolCall`."""


Policy = Callable[[CallRequest], Any]
"""Gives a `Decision`, or an awaitable of one. See `gloveport.policies`."""


@dataclasses.dataclass(frozen=True)
class ExecutionResult:
    """One bounded result of a run."""

    status: Status
    stdout: str = ""
    """`console.log`, `info`, `debug`, `table`, `dir`: one line per call, in call order."""
    stderr: str = ""
    """`console.warn`, `error`, `trace`, `assert`, and rejections that nothing handled."""
    result: Any = None
    """The value as JSON data; `None` when the run failed."""
    error: str | None = None
    """`"TypeError: x is not a function"`, or `None`."""
    error_type: str | None = None
    """The JavaScript name, or for a failure on the host's side the gloveport class (`"RuntimeTimeout"`)."""
    truncated: bool = False
    """Some console output was cut."""
    line: int | None = None
    """Where it failed: the line of the code as it was given, when known."""
    column: int | None = None
    problems: tuple[TypeProblem, ...] = ()
    """What a type check before the run found (`typecheck="warn"` or `"block"`)."""

    @property
    def ok(self) -> bool:
        """Whether the run succeeded."""
        return self.status == "Succeeded"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data; `line` and `column` only when known, `problems` only when there are any."""
        data = dataclasses.asdict(self)
        data["problems"] = list(data["problems"])
        if not data["problems"]:
            del data["problems"]
        for name in ("line", "column"):
            if data[name] is None:
                del data[name]
        return data


@dataclasses.dataclass(frozen=True)
class Done:
    """The run returned. Equality compares the value only, so `Done(3) == step`."""

    value: Any
    """The value as Python data (`undefined` is `None`)."""
    stdout: str = dataclasses.field(default="", compare=False)
    stderr: str = dataclasses.field(default="", compare=False)
    truncated: bool = dataclasses.field(default=False, compare=False)
    problems: tuple[TypeProblem, ...] = dataclasses.field(default=(), compare=False)
    """What a type check before the run found."""

    status = "Succeeded"
    error_type = None

    @property
    def result(self) -> Any:
        """The value as JSON data."""
        return json_data(self.value)

    def to_result(self) -> ExecutionResult:
        """The same as one `ExecutionResult`."""
        return ExecutionResult(
            "Succeeded",
            self.stdout,
            self.stderr,
            self.result,
            truncated=self.truncated,
            problems=self.problems,
        )


@dataclasses.dataclass(frozen=True)
class Failed:
    """The run failed. Equality compares the error only."""

    error: BaseException
    """A `JavaScriptError` for what the guest's code threw, a `RunError` for a failure on the host's side."""
    stdout: str = dataclasses.field(default="", compare=False)
    stderr: str = dataclasses.field(default="", compare=False)
    truncated: bool = dataclasses.field(default=False, compare=False)
    error_type: str = dataclasses.field(default="Error", compare=False)
    message: str = dataclasses.field(default="", compare=False)
    """The error's text, cleaned."""
    line: int | None = dataclasses.field(default=None, compare=False)
    column: int | None = dataclasses.field(default=None, compare=False)
    problems: tuple[TypeProblem, ...] = dataclasses.field(default=(), compare=False)
    """What a type check before the run found."""

    status = "Failed"
    result = None

    def to_result(self) -> ExecutionResult:
        """The same as one `ExecutionResult`."""
        text = f"{self.error_type}: {self.message}" if self.message else self.error_type
        return ExecutionResult(
            "Failed",
            self.stdout,
            self.stderr,
            None,
            text,
            self.error_type,
            self.truncated,
            self.line,
            self.column,
            self.problems,
        )


Step = ToolCall | Done | Failed
"""What `start` and `resume` return."""


def json_data(value: Any) -> Any:
    """A value of a run as JSON data: bytes as base64 text, dates as ISO 8601, sets as lists, NaN and infinities as null."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if value is None or kind is str or kind is bool or kind is int:
        return value
    if kind is float:
        if not math.isfinite(value):
            return None
        return int(value) if value == 0 else value
    if kind is list or kind is tuple or kind is set or kind is frozenset:
        return [json_data(item) for item in value]
    if kind is dict:
        return {key if type(key) is str else _key(key): json_data(item) for key, item in value.items()}
    return _rare(value)


def _key(key: Any) -> str:
    data = json_data(key)
    if isinstance(data, str):
        return data
    if isinstance(data, bool):
        return "true" if data else "false"
    return "null" if data is None else str(data)


def _rare(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(cast("bytes", value)).decode("ascii")
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, enum.Enum):
        return json_data(value.value)
    if isinstance(value, Mapping):
        return json_data(dict(cast("Mapping[Any, Any]", value)))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return json_data(list(cast("Sequence[Any]", value)))
    return str(value)
