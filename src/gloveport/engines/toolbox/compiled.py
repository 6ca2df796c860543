"""What the compiler gives back."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal, TypeAlias

Segment: TypeAlias = tuple[int, int, int]
"""Column in the body, line and column in the source; all 0-based, columns in UTF-16 units."""

PRELUDE_LINES = 1
"""Lines of `Compiled.code` before the body."""


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Where the parts of a transformed body come from. Made for sources with `enum`, `namespace` or the like only."""

    lines: tuple[tuple[Segment, ...], ...]
    """Segments of each line of the body, in column order."""

    def original(self, line: int, column: int) -> tuple[int, int]:
        """The 1-based source line and column that a 1-based body line and column come from.

        A place without a segment of its own belongs to the nearest one before it, also on an earlier line.
        """
        for index in range(min(line, len(self.lines)) - 1, -1, -1):
            segments = self.lines[index]
            at = len(segments)
            if index == line - 1:
                at = bisect_right(segments, max(column, 1) - 1, key=lambda segment: segment[0])
                # The start of an indented line has no segment of its own, but its statement has.
                at = at or min(1, len(segments))
            if at:
                _, source_line, source_column = segments[at - 1]
                return source_line + 1, source_column + 1
        return 1, 1


@dataclass(frozen=True, slots=True)
class Outline:
    """Model code as a type checker reads it."""

    text: str
    """Without the Markdown around it; its lines and columns are those of the source."""
    typed: bool
    """It is TypeScript and not JavaScript."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Model code, ready to be evaluated."""

    code: str
    """An expression that gives an async function of one argument, the publish function: one prelude line, the body, `})`.

    It calls publish once, with a null-prototype object: each top-level name to `[getter, setter]`, without a setter for
    `using` bindings.
    """
    names: tuple[str, ...]
    """Top-level names that the code declares, in order."""
    source_map: SourceMap | None = None
    """`None`: the lines of the body are the lines of the source."""

    def locate(self, line: int, column: int = 0) -> tuple[int, int]:
        """The 1-based line and column of the source for a line and column of `code`, as an engine reports them.

        Gives (0, 0) for a line outside of the body; column 0 means unknown and stays so.
        """
        body_line = line - PRELUDE_LINES
        if body_line < 1 or body_line > self.code.count("\n") - PRELUDE_LINES:
            return 0, 0
        if self.source_map is None:
            return body_line, column
        source_line, source_column = self.source_map.original(body_line, column)
        return source_line, source_column if column else 0


@dataclass(frozen=True, slots=True)
class ModuleImport:
    """One `import`, `export … from` or `import()` with a literal specifier."""

    specifier: str
    dynamic: bool
    line: int
    """1-based, in the source."""
    column: int


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """A module, or a plain script, ready for a worker."""

    kind: Literal["module", "script"]
    """A script exports nothing: its code is the body of an async function."""
    code: str
    head: str
    """What belongs in front of a script's function, on one line."""
    imports: tuple[ModuleImport, ...]
    source_map: SourceMap | None = None
    """`None`: lines and columns of the code are those of the source."""

    def locate(self, line: int, column: int) -> tuple[int, int]:
        """The 1-based line and column of the source for those of `code`; (0, 0) for a line outside of it."""
        if not 1 <= line <= self.code.count("\n") + 1:
            return 0, 0
        return (line, column) if self.source_map is None else self.source_map.original(line, column)
