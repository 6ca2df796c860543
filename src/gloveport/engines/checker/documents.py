"""A session as the documents that a type checker reads.

Each run is the body of an async function inside of the one before:

    async function __run1__() {
    const orders = await open_orders("open")
    async function __run2__() {
    return orders.length
    }}

So a run sees what earlier runs declared, may declare it anew, and `return` and `await` are legal at its top level. They are function
*declarations*, so that code after an earlier run's `return` counts as reachable, and variables have their declared types there.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Final

from gloveport.engines.toolbox.compiled import Outline

__all__ = ("Question", "Text", "written")


@dataclasses.dataclass(frozen=True)
class Question:
    """What there is to check, and what it may refer to."""

    code: str
    """As it was given, Markdown included."""
    stubs: str = ""
    """Declarations of the tools."""
    earlier: tuple[str, ...] = ()
    """The codes of earlier runs."""
    complete: bool = True
    """These are all of the earlier runs. If not, a name that nothing declares may be from one of the others."""
    bootstrap: str = ""
    """JavaScript that was evaluated before the first run."""
    extras: frozenset[str] = frozenset()
    """Names that exist beside those of `guest.d.ts`."""


@dataclasses.dataclass(frozen=True)
class Text:
    """What is written for a question."""

    document: str
    """The name of the document that has the code."""
    text: str
    tools: str
    """The text of `tools.d.ts`."""
    first_line: int
    """The code's first line in the document, 0-based."""
    last_line: int
    code: Outline
    mixed: bool
    """The document is TypeScript, and some of it was written as JavaScript."""
    any_name: bool
    """A name that nothing declares may exist all the same."""
    loose_classes: frozenset[str] = frozenset()
    """Classes of the JavaScript in a mixed document, whose fields need no declaration."""


MAX_GLOBALS: Final = 1000
"""Names on `globalThis` that are declared; a session with more may have any name."""

_GLOBAL: Final = re.compile(r"\bglobalThis\b(?:\s*+(?:\?\.|\.)\s*+((?:[^\W\d]|\$)[\w$]*+)(?![^\x00-\x7f]|\\))?")
"""With the name that follows. Without one it is passed on, or the name has characters that Python counts differently."""
_DECLARED: Final = re.compile(r"\bdeclare\s+(?:function|const|let|var|class|enum|namespace)\s+([\w$]+)")
_CLASS: Final = re.compile(r"\bclass\s+([A-Za-z_$][\w$]*)")


def written(question: Question, earlier: Sequence[Outline], code: Outline) -> Text:
    """The documents for a question. `earlier` and `code` are outlines of its codes."""
    typed = code.typed or any(run.typed for run in earlier)
    parts: list[str] = []
    line = 0
    for number, run in enumerate((*earlier, code), 1):
        parts.append(f"async function __run{number}__() {{\n{run.text}\n")
        line += 1 + _lines(run.text)
    last = line - 1
    sources = [question.bootstrap, *(run.text for run in earlier), code.text]
    names, more = _globals(sources)
    names |= question.extras
    if names:
        names.difference_update(_DECLARED.findall(question.stubs))
    declared = "".join(f"declare var {name}: any;\n" for name in sorted(names))
    loose = (run.text for run in (*earlier, code) if not run.typed) if typed else ()
    return Text(
        document="run.ts" if typed else "run.js",
        text="".join(parts) + "}" * (len(earlier) + 1) + "\n",
        tools=question.stubs + declared,
        first_line=last - _lines(code.text) + 1,
        last_line=last,
        code=code,
        mixed=typed and not all(run.typed for run in (*earlier, code)),
        any_name=more or not question.complete,
        loose_classes=frozenset(name for source in loose for name in _CLASS.findall(source)),
    )


def _lines(text: str) -> int:
    """Lines as the Language Server Protocol and TypeScript count them: U+2028 and U+2029 end none in the protocol."""
    return text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1


def _globals(sources: Sequence[str]) -> tuple[set[str], bool]:
    """The names that codes put on `globalThis`, and whether there may be others."""
    names: set[str] = set()
    more = False
    for source in sources:
        for match in _GLOBAL.finditer(source) if "globalThis" in source else ():
            name = match[1]
            if name is None or len(names) == MAX_GLOBALS:
                more = True
            else:
                names.add(name)
    return names, more
