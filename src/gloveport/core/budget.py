"""Counters of tool calls. What is spent is never regained: not by a crash, a rollback or a reload."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ("Budget",)


class Budget(msgspec.Struct):
    """Calls of a session: in total and per tool (by the name it was given)."""

    limit: int | None = None
    made: int = 0
    tool_limits: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    tool_made: dict[str, int] = msgspec.field(default_factory=dict[str, int])

    @property
    def remaining(self) -> int | None:
        """Calls that are left, or `None` without a limit."""
        return None if self.limit is None else max(0, self.limit - self.made)

    def charge(self, name: str) -> str | None:
        """Charge one call. A text means that it is refused (nothing is charged) and says what is left."""
        if self.limit is not None and self.made >= self.limit:
            return f"no tool call is left: this session may make {self.limit} in total"
        tool_limit = self.tool_limits.get(name)
        used = self.tool_made.get(name, 0)
        if tool_limit is not None and used >= tool_limit:
            times = "once" if tool_limit == 1 else f"{tool_limit} times"
            left = "" if self.limit is None else f" ({self.limit - self.made} calls of other tools are left)"
            return f"`{name}` may be called {times} in this session and was{left}"
        self.made += 1
        self.tool_made[name] = used + 1
        return None

    def split(self, given: int | None = None) -> Budget:
        """Divide what is left: the new budget gets `given` calls (default: half, rounded down), this one keeps the rest.

        Counters restart in the branch, so that both together can never make more calls than were left before.
        """
        tool_given = {name: (limit - self.tool_made.get(name, 0)) // 2 for name, limit in self.tool_limits.items()}
        share = None
        if self.limit is not None:
            left = self.limit - self.made
            share = left // 2 if given is None else given
            if not 0 <= share <= left:
                raise ValueError(f"`calls` must be between 0 and the {left} calls that are left, not {share}")
            self.limit -= share
        elif given is not None:
            share = given
        for name, count in tool_given.items():
            self.tool_limits[name] -= count
        return Budget(share, 0, tool_given, {})

    def covers(self, names: Mapping[str, object]) -> str | None:
        """The first per-tool limit whose tool does not exist, or `None`."""
        return next((name for name in self.tool_limits if name not in names), None)
