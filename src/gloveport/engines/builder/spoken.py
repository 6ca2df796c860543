"""What the builder and the mounting workers say, decoded into closed types."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Annotated, Final, Literal

import msgspec

from ...core.outcome import clean

__all__ = ("MOST_TEXT", "Answer", "Ask", "Built", "Mounted", "Note", "Refused", "Reply", "told")

Loader = Literal["js", "jsx", "ts", "tsx", "json", "css", "text"]
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
MOST_TEXT: Final = 1000
_BREAKS: Final = re.compile(r"[\t-\r\x1c-\x1e\x85\u2028\u2029]+")


def told(text: str, most: int = MOST_TEXT) -> str:
    """A text of theirs as one line of bounded length that disguises nothing: a widget's author chose it, and a model, a terminal or a
    log reads it."""
    if len(text) > most:
        text = text[:most] + "…"
    return clean(_BREAKS.sub(" ", text))


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A module that the host gives for an import. `name` tells it from others; imports in it come with that name as their importer."""

    name: str
    code: str
    loader: Loader = "js"
    side_effects: bool = True
    """Whether it is there even if nothing of it is used."""


class Refused(msgspec.Struct, frozen=True):
    """Why the host does not give one; for the model."""

    refused: str


class Ask(msgspec.Struct, frozen=True):
    """An import that the builder asks the host about."""

    specifier: str
    importer: str
    kind: str = "import-statement"
    """As esbuild calls it: also `require-call`, `dynamic-import` and, in style sheets, `import-rule`."""


class Built(msgspec.Struct, frozen=True):
    """A widget's script and style sheet."""

    code: str
    """The body of a function of `require`, `module` and `exports`."""
    page: str | None
    """The same as the content of a `<script>`; `None`: it is `code`."""
    css: str
    process: int
    """The number of the process that made it."""
    map: list[list[tuple[int, int, int]]]
    """Per line of `code`: column, source line and source column, 0-based; line -1: of no line of the widget's own."""

    def locate(self, line: int, column: int) -> tuple[int, int] | None:
        """The 1-based source line and column (in UTF-16 units) of a 1-based place of `code`; `None`: not the widget's own."""
        if not 1 <= line <= len(self.map):
            return None
        segments = self.map[line - 1]
        at = bisect_right(segments, column - 1, key=lambda segment: segment[0])
        if not at or segments[at - 1][1] < 0:
            return None
        _, source_line, source_column = segments[at - 1]
        return source_line + 1, source_column + 1


class Reply(msgspec.Struct, frozen=True):
    """One message of the builder: a question (`ask`), or the outcome (`ok`)."""

    id: int
    ask: Ask | None = None
    ok: bool = False
    kind: str = ""
    last: bool = False
    """The builder ends after it."""
    message: str = ""
    line: Count = 0
    column: Count = 0
    code: str = ""
    page: str | None = None
    css: str = ""
    map: list[list[tuple[int, int, int]]] = []


class Note(msgspec.Struct, frozen=True):
    """Something that went wrong, and places of the script, innermost first. Whatever it says, the widget may have said it."""

    text: str
    at: list[tuple[int, int]]


class Mounted(msgspec.Struct, frozen=True):
    """How mounting went. All of it may be the widget's own doing, and concerns nobody but its author."""

    mounted: bool
    error: Note | None
    stage: Literal["module", "export", "render"] | None
    warnings: list[Note]
    name: str
