"""How one module run came out: `ModuleResult`."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from ...egress.evaluator import Decision

__all__ = ("ExitReason", "ModuleResult")

ExitReason = Literal["returned", "threw", "refused", "timeout", "memory", "exited", "signal", "crashed"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModuleResult:
    """What became of one piece of code. Texts quote what the code said: treat them as data."""

    ok: bool
    value: Any = None
    """JSON data. Integers are exact as long as JavaScript's numbers are: up to 2**53."""
    error: str | None = None
    """For the model: what went wrong, where, and what to do about it. At most a few kilobytes; `None` when `ok`."""
    error_type: str | None = None
    """Stable: `"SyntaxError"`, `"ImportRefused"`, `"NoExport"`, `"NotJson"`, `"ResultTooLarge"`, `"Stuck"`, `"Timeout"`,
    `"OutOfMemory"`, `"Exited"`, `"Signal"`, `"Crashed"`; for what the code threw, the name of the standard error class, or `"Error"`."""
    line: int | None = None
    """1-based, in the code as it was given; `None` when unknown."""
    column: int | None = None
    stdout: str = ""
    """What the code printed, with its end kept when it was too long."""
    stderr: str = ""
    truncated: bool = False
    """Something of stdout or stderr was left out."""
    exit_reason: ExitReason = "returned"
    """How it ended. `"refused"`: nothing was run (it does not compile, an import is not allowed)."""
    exit_code: int | None = None
    """Of the worker, when the code ended it: `Deno.exit(3)` gives 3, a signal 128 and its number."""
    state_lost: bool = False
    """The state that earlier calls had left (`globalThis`) was gone when this one began: an earlier call had ended its worker."""
    duration: float = 0.0
    """Seconds, without waiting for other calls of the session."""
    cpu_time: float = 0.0
    """Seconds of computing time of the worker in this call."""
    peak_memory: int = 0
    """Bytes that the worker had in memory at most so far; 0 when it ended."""
    output_bytes: int = 0
    """Of the value, as compact JSON in UTF-8."""
    decisions: tuple[Decision, ...] = ()
    """What the network rules decided in this call, in order (`destination`, `host`, `port`, `allowed`, `rule`, `reason`, `when`)."""
