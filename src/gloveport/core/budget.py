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
    run_limits: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """Per tool and run. The calls of a run are counted by the run."""

    @property
    def remaining(self) -> int | None:
        """Calls that are left, or `None` without a limit."""
        return None if self.limit is None else max(0, self.limit - self.made)

    def left_of(self, name: str, in_run: int = 0) -> int | None:
        """Calls that are left for a tool that was called `in_run` times in its run; `None` without a limit."""
        lefts = [self.remaining]
        if name in self.tool_limits:
            lefts.append(max(0, self.tool_limits[name] - self.tool_made.get(name, 0)))
        if name in self.run_limits:
            lefts.append(max(0, self.run_limits[name] - in_run))
        return min((left for left in lefts if left is not None), default=None)

    def refusal(self, name: str, in_run: int = 0) -> str | None:
        """Why no call of that tool is left, and what is; `None` if one is."""
        if self.limit is not None and self.made >= self.limit:
            return f"no tool call is left: this session may make {self.limit} in total"
        tool_limit = self.tool_limits.get(name)
        if tool_limit is not None and self.tool_made.get(name, 0) >= tool_limit:
            left = "" if self.limit is None else f" ({self.limit - self.made} calls of other tools are left)"
            return f"`{name}` may be called {_times(tool_limit)} in this session and was{left}"
        run_limit = self.run_limits.get(name)
        if run_limit is not None and in_run >= run_limit:
            later = self.left_of(name)
            left = "" if later is None else f" ({later} are left for later runs)"
            return f"`{name}` may be called {_times(run_limit)} in one run and was{left}"
        return None

    def charge(self, name: str, in_run: int = 0) -> str | None:
        """Charge one call. A text means that it is refused (nothing is charged) and says what is left."""
        refusal = self.refusal(name, in_run)
        if refusal is None:
            self.count(name)
        return refusal

    def count(self, name: str) -> None:
        """Count a call that was made, whether or not it was left."""
        self.made += 1
        self.tool_made[name] = self.tool_made.get(name, 0) + 1

    def split(self, given: int | None = None) -> Budget:
        """Divide what is left: the new budget gets `given` calls (default: half, rounded down), this one keeps the rest.

        Counters restart in the branch, so that both together can never make more calls than were left before.
        """
        tool_given = {
            name: max(0, limit - self.tool_made.get(name, 0)) // 2 for name, limit in self.tool_limits.items()
        }
        share = None
        if self.limit is not None:
            left = max(0, self.limit - self.made)
            share = left // 2 if given is None else given
            if not 0 <= share <= left:
                raise ValueError(f"`calls` must be between 0 and the {left} calls that are left, not {share}")
            self.limit -= share
        elif given is not None:
            share = given
        for name, count in tool_given.items():
            self.tool_limits[name] -= count
        return Budget(share, 0, tool_given, {}, dict(self.run_limits))

    def covers(self, names: Mapping[str, object]) -> str | None:
        """The first limit of a tool that does not exist, or `None`."""
        return next((name for name in (*self.tool_limits, *self.run_limits) if name not in names), None)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
