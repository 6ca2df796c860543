"""What a session may use, as plain data that is checked once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Final, Literal

__all__ = ("DEFAULT_TIMEOUT", "V8_MIN_MEMORY", "EngineName", "Isolation", "Limits", "SandboxMode")

SandboxMode = Literal["require", "auto", "off"]
"""`require` refuses to start when a layer of the jail is missing, `auto` warns, `off` has no jail."""
Isolation = Literal["process", "shared", "inline"]
"""A worker process per session, one for a group of sessions, or the host's own process (trusted code only)."""
EngineName = Literal["wasm", "v8"]
"""QuickJS in WebAssembly, or V8 in a Deno process."""

MIB: Final = 1024 * 1024
DEFAULT_TIMEOUT: Final = 30.0
MIN_MEMORY: Final = 8 * MIB
"""The base image alone takes about 5 MiB."""
V8_MIN_MEMORY: Final = 32 * MIB
"""With less, little would be left beside what V8 needs for itself."""
MAX_MEMORY: Final = 3072 * MIB
"""A WebAssembly memory has 4 GiB; the rest is left for the host's arithmetic."""
MAX_INFLIGHT: Final = 63
"""Tool calls at the same time in one session, by default; the rest wait in the order they were made."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one session. Sizes are bytes, times seconds; `None` means no limit."""

    timeout: float = DEFAULT_TIMEOUT
    """Guest computing time per run; waiting for tools does not count."""
    max_pause: float = 600.0
    """Waiting time per run: for tools, and for whoever has to resume it."""
    tool_timeout: float | None = None
    """Time per tool call that the session runs itself."""
    max_memory: int = 256 * MIB
    """The guest's linear memory: heap, typed arrays, stacks and code."""
    max_output_bytes: int = 64 * 1024
    """stdout and stderr of a run, each."""
    max_result_bytes: int = 1 * MIB
    """The value of a run as compact JSON."""
    max_journal_bytes: int = 8 * MIB
    """A dump, and the journal that is kept beside the heap; with `engine="v8"` the history, which is all that is kept."""
    max_tool_calls: int | None = None
    """Tool calls over the session's life."""
    tool_budgets: Mapping[str, int] = dataclasses.field(default_factory=dict[str, int])
    """Calls over the session's life of single tools, by name."""
    max_host_calls: int | None = None
    """Tool calls in one run."""
    max_inflight: int = MAX_INFLIGHT
    """Tool calls at the same time."""

    def __post_init__(self) -> None:
        for name in ("timeout", "max_pause", "tool_timeout"):
            _check_seconds(name, getattr(self, name), optional=name == "tool_timeout")
        for name in ("max_output_bytes", "max_result_bytes", "max_journal_bytes"):
            _check_count(name, getattr(self, name), least=16)
        _check_count("max_memory", self.max_memory, least=MIN_MEMORY, most=MAX_MEMORY)
        _check_count("max_inflight_host_calls", self.max_inflight, least=1, most=1024)
        for name in ("max_tool_calls", "max_host_calls"):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name), least=0)
        for tool, limit in self.tool_budgets.items():
            _check_count(f"tool_budgets[{tool!r}]", limit, least=0)


def _check_seconds(name: str, value: float | None, *, optional: bool) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{name}` must be a number of seconds, not {value!r}")
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"`{name}` must be a positive, finite number of seconds, not {value!r}")


def _check_count(name: str, value: int, *, least: int, most: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`{name}` must be an integer, not {value!r}")
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ValueError(f"`{name}` must be {bounds}, not {value!r}")
