"""Which sources are plain JavaScript, as far as a look can tell: those the guest may compile by itself.

Only speed depends on most of what is looked for here: the guest refuses what is no JavaScript, and then the compiler is asked.
Two things it cannot see. Text that *is* JavaScript and means something else as TypeScript, which is what the compiler takes it for:
`f<A>(x)` compares, or calls. And what the compiler refuses though an engine would take it, such as `import()`.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ("AsWritten", "declares", "is_plain")

_MAX_CHARACTERS: Final = 64 * 1024
"""In larger sources the compiler's round trip is not what takes the time, and its results are cached."""

_FOREIGN: Final = (
    *("```", "\ufeff", "#!", "<!--", "-->"),  # fences, marks, and comments that engines do not agree on
    *("import", "export", "__gloveport", "use strict", "using"),
    *("enum", "namespace", "interface ", "abstract ", "declare ", " as ", "satisfies "),
)

_CLOSING_ANGLE: Final = re.compile(r">(?<!=>)(?:\s*[^\s\w$\"'=+~-]|[^\S\n\r\u2028\u2029]*[\n\r\u2028\u2029]|\s*\Z)")
"""After any `<`: what may end type arguments. A comparison goes on with an operand on the same line, and that is a name or a literal."""
_ESCAPED_NAME: Final = re.compile(r"\\u(?:00[0-7]|\{)")
"""May spell a reserved name; other escapes are those of strings."""
_ANNOTATION: Final = re.compile(
    r":\s*(?:(?:string|number|boolean|any|unknown|never|void|object|bigint|symbol)\b|[A-Z]\w*(?:<|\[\]|\s*=[^=>]))"
)
_PARAMETER: Final = re.compile(r"\(\s*[\w$]+\??\s*:")


_LET_AS_NAME: Final = re.compile(r"\blet\b(?![ \t]+(?!(?:in|instanceof|of)\b)[\w$\[{]|['\"])")
"""Where no declaration follows on the line: a name in sloppy functions, and an error for the compiler. (Quotes: of a text, "let's".)"""


_DECLARES: Final = re.compile(r"\b(?:let|const|var|function|class)\b")


class AsWritten:
    """A source that runs as it is: every place in it is its own."""

    __slots__ = ("code",)

    def __init__(self, source: str) -> None:
        self.code = source

    def locate(self, line: int, column: int = 0) -> tuple[int, int]:
        """See `commands.Compiled`: line 1 is the prelude."""
        return (line - 1, column) if 1 < line <= self.code.count("\n") + 2 else (0, 0)


def is_plain(source: str) -> bool:
    """Whether to let the guest try. Microseconds, so it looks for texts where a parser would know."""
    if len(source) > _MAX_CHARACTERS or any(text in source for text in _FOREIGN):
        return False
    opening = source.find("<")
    if opening >= 0 and _CLOSING_ANGLE.search(source, opening):
        return False
    if ":" in source and (_ANNOTATION.search(source) or _PARAMETER.search(source)):
        return False
    if "let" in source and _LET_AS_NAME.search(source):
        return False
    return "\\u" not in source or not _ESCAPED_NAME.search(source)


def declares(source: str) -> bool:
    """Whether there may be declarations in it, whose names a guest without a parser of its own cannot tell."""
    return _DECLARES.search(source) is not None
