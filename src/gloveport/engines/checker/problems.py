"""What the compiler says, as what is worth telling a model: mistakes, in the model's own lines, and no matters of style."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from gloveport.core.outcome import clean
from gloveport.engines.checker.documents import Text
from gloveport.engines.checker.lsp import Diagnostic, Position
from gloveport.errors import TypeProblem

__all__ = ("MAX_MESSAGE", "found")

MAX_MESSAGE: Final = 400
"""Characters of a message."""
_MAX_READ: Final = 4000
"""Characters of what the compiler says that are looked at, so that a long text costs no time."""
_MAX_HINTS: Final = 3
_MAX_INDENT: Final = 200
_MAX_CODE: Final = 100_000
"""All codes of the compiler are below it."""

_MISSING_NAME: Final = frozenset({2304, 2318, 2503, 2552, 2580, 2581, 2582, 2583, 2584, 2591, 2592, 2593, 18004})
"""Nothing declares this name."""
_ARITHMETIC: Final = frozenset({2362, 2363, 2365, 2356, 2447})
"""An operand that is no number: dates, texts and truth values are legal JavaScript there, a promise never is meant."""
_NO_PROPERTY: Final = frozenset({2339, 2551})
_ASSIGNED: Final = 2322
_ARGUMENTS: Final = 2554
_KEPT_GRAMMAR: Final = frozenset({1345, 1360})
"""`void` tested for truth, and `satisfies`. What else is below 2000 is grammar, which the compiler of model code has judged."""
_STYLE: Final = frozenset(
    {
        *(
            2578,
            2695,
            2698,
            2794,
            2810,
        ),  # unused @ts-expect-error, comma operator, spread of a non-object, resolve() without a value
        *(2869, 2870, 2871, 2872, 2873, 2881),  # always or never nullish, always true or false
        2307,  # a module that cannot be found: the compiler of model code says it better
    }
)
_ADVICE: Final = re.compile(r"\. (?:Do you need to|Try changing|Consider)\b.*", re.DOTALL)
_TYPE: Final = re.compile(r"does not exist on type '([^'<]*)")
_COMMENT: Final = ("*", "/*", "//")


def found(
    diagnostics: list[Diagnostic], text: Text, hover: Callable[[Position], str], *, most: int
) -> list[TypeProblem]:
    """At most `most` problems in the order of the code. `hover` tells the type of what is at a place."""
    lines = text.code.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    problems: list[TypeProblem] = []
    for diagnostic in sorted(diagnostics, key=lambda one: (one.range.start.line, one.range.start.character)):
        at = diagnostic.range.start
        if not text.first_line <= at.line <= text.last_line:
            continue
        line = lines[at.line - text.first_line]
        if not _matters(diagnostic, text, line, hover):
            continue
        column = _column(line, at.character)
        problems.append(TypeProblem(at.line - text.first_line + 1, column, f"TS{diagnostic.code}", _said(diagnostic)))
        if len(problems) == most:
            break
    return problems


def _matters(diagnostic: Diagnostic, text: Text, line: str, hover: Callable[[Position], str]) -> bool:
    code = diagnostic.code
    if diagnostic.severity != 1 or not isinstance(code, int) or code >= _MAX_CODE:
        return False
    if code in _STYLE or 7000 <= code < 9000:
        return False
    if code < 2000:
        return code in _KEPT_GRAMMAR
    if code in _MISSING_NAME:
        return not text.any_name and not line[:_MAX_INDENT].lstrip().startswith(_COMMENT)  # JSDoc names types
    if code in _NO_PROPERTY and text.any_name and _type(diagnostic) == "typeof globalThis":
        return False
    if code in _ARITHMETIC:
        return "Promise<" in diagnostic.message[:_MAX_READ] or "Promise<" in hover(_last(diagnostic))
    if (
        code == _ASSIGNED and not text.code.typed
    ):  # a variable of JavaScript may change its type; a tool's argument may not
        return any(related.message.startswith("The expected type comes from") for related in diagnostic.related)
    return not text.mixed or not _loose(diagnostic, text)


def _loose(diagnostic: Diagnostic, text: Text) -> bool:
    """Whether it is legal in a JavaScript file, and only the TypeScript elsewhere in the session makes it a problem."""
    if diagnostic.code in _NO_PROPERTY:
        name = _type(diagnostic)
        return name in text.loose_classes or (not text.code.typed and name.startswith("{"))
    if diagnostic.code == _ARGUMENTS and not text.code.typed:
        return any(related.location.uri.endswith(text.document) for related in diagnostic.related)
    return False


def _type(diagnostic: Diagnostic) -> str:
    """The type that lacks a property, without its arguments; of an object literal, the beginning."""
    match = _TYPE.search(diagnostic.message[:_MAX_READ])
    return match[1] if match else ""


def _last(diagnostic: Diagnostic) -> Position:
    """The last character of what is complained of: in `order.total`, the property."""
    end = diagnostic.range.end
    return Position(end.line, max(0, end.character - 1))


def _said(diagnostic: Diagnostic) -> str:
    message = _ADVICE.sub(".", diagnostic.message[:_MAX_READ])
    hints = [one.message[:MAX_MESSAGE] for one in diagnostic.related if one.message.startswith("Did you")][:_MAX_HINTS]
    if diagnostic.code in _ARITHMETIC and not hints:
        hints = ["It is a promise. Did you forget to use 'await'?"]
    text = clean(" ".join([message, *hints]))
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def _column(line: str, units: int) -> int:
    """The 1-based column in characters for an offset in UTF-16 units."""
    units = min(max(0, units), 2 * len(line))
    if line.isascii():
        return min(units, len(line)) + 1
    return len(line.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "replace")) + 1
