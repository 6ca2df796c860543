"""The values that people see: steps, results, tools described by JSON Schema, and a session's configuration."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

__all__ = (
    "Done",
    "ExecutionResult",
    "Failed",
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

    @property
    def ok(self) -> bool:
        """Whether the run succeeded."""
        return self.status == "Succeeded"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data; `line` and `column` only when known."""
        data = dataclasses.asdict(self)
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

    status = "Succeeded"
    error_type = None

    @property
    def result(self) -> Any:
        """The value as JSON data."""
        return json_data(self.value)

    def to_result(self) -> ExecutionResult:
        """The same as one `ExecutionResult`."""
        return ExecutionResult("Succeeded", self.stdout, self.stderr, self.result, truncated=self.truncated)


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

    status = "Failed"
    result = None

    def to_result(self) -> ExecutionResult:
        """The same as one `ExecutionResult`."""
        text = f"{self.error_type}: {self.message}" if self.message else self.error_type
        return ExecutionResult(
            "Failed", self.stdout, self.stderr, None, text, self.error_type, self.truncated, self.line, self.column
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
