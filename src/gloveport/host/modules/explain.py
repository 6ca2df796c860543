"""The results of runs that gave no value, in words for the model."""

from __future__ import annotations

import re
import signal
from typing import Any, Final

from ...core.outcome import clean
from ...engines.modules.link import Thrown
from ...engines.toolbox.compiled import CompiledModule
from ...errors import CompileError, PackageError
from .result import ExitReason

__all__ = ("PINNED", "broken", "compile_failure", "ended", "located", "package_failure", "thrown", "too_late")

PINNED: Final = "pinned"
"""Kind of the error of a worker in which tools cannot be offered any more."""
_KINDS: Final[dict[str, tuple[str, ExitReason]]] = {
    "not_json": ("NotJson", "returned"),
    "too_large": ("ResultTooLarge", "returned"),
    "no_export": ("NoExport", "refused"),
    "import": ("ImportRefused", "refused"),
    "stuck": ("Stuck", "returned"),
    PINNED: ("TypeError", "refused"),
}
_STANDARD: Final = frozenset(
    (
        *("Error", "TypeError", "RangeError", "ReferenceError", "SyntaxError", "EvalError", "URIError"),
        *("AggregateError", "SuppressedError", "DOMException", "NotCapable", "NotFound", "PermissionDenied"),
    )
)
_FLAG: Final = re.compile(r", run again with the --allow-[a-z]+ flag")
"""What Deno 2.9.8 says to people at a terminal."""
_HINTS: Final = {
    "require is not defined": "modules use import: import fs from 'node:fs'",
    "module is not defined": "export the function: export default function run() { … }",
    "exports is not defined": "export the function: export default function run() { … }",
    "document is not defined": "there is no page here; markup comes from renderToStaticMarkup of react-dom/server",
    "window is not defined": "there is no page here; globals are on globalThis",
}
_MAX_TEXT: Final = 6000
_SOURCE_LINE: Final = 160
_MEMORY: Final = frozenset({128 + signal.SIGTRAP})
"""How V8 15 ends a process whose heap is full."""
_FATAL: Final = frozenset({128 + signal.SIGILL, 128 + signal.SIGABRT, 128 + signal.SIGSEGV, 128 + signal.SIGBUS})
_LOST: Final = "What earlier calls left on globalThis is gone; the next call starts afresh."

Fields = dict[str, Any]


def _bounded(text: str) -> str:
    text = clean(text)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def _where(line: int | None, column: int | None) -> str:
    return f" (line {line}{f', column {column}' if column else ''})" if line else ""


def _quoted(source: str, line: int | None) -> str:
    lines = source.splitlines()
    if not line or line > len(lines):
        return ""
    text = lines[line - 1].strip()
    return f"\n  {line} | {text if len(text) <= _SOURCE_LINE else text[:_SOURCE_LINE] + '…'}"


def compile_failure(error: CompileError, source: str) -> Fields:
    """It does not compile."""
    line, column = error.line or None, error.column or None
    return {
        "ok": False,
        "error": _bounded(f"SyntaxError: {error.message}{_where(line, column)}{_quoted(source, line)}"),
        "error_type": "SyntaxError",
        "line": line,
        "column": column,
        "exit_reason": "refused",
    }


def package_failure(error: PackageError, compiled: CompiledModule, source: str) -> Fields:
    """A package that it imports is not allowed, or cannot be fetched."""
    place = next((each for each in compiled.imports if each.specifier == error.specifier), None)
    line, column = (place.line or None, place.column or None) if place is not None else (None, None)
    return {
        "ok": False,
        "error": _bounded(f"ImportRefused: {error}{_where(line, column)}{_quoted(source, line)}"),
        "error_type": "ImportRefused",
        "line": line,
        "column": column,
        "exit_reason": "refused",
    }


def located(error: Thrown, compiled: CompiledModule, number: int) -> tuple[list[str], int | None, int | None]:
    """The frames in words, and the place in the source of the innermost one that is in it."""
    own = f"module-{number}.ts"
    texts: list[str] = []
    line = column = None
    for function, module, at_line, at_column in error.frames:
        if module != own:
            texts.append(f"at {function or '(top level)'} (an earlier call)")
            continue
        found_line, found_column = compiled.locate(at_line, at_column)
        if not found_line:
            continue
        if line is None:
            line, column = found_line, found_column or None
        texts.append(f"at {function or '(top level)'} (line {found_line})")
    if error.kind == "import" and line is None:
        place = next((each for each in compiled.imports if each.specifier == error.specifier), None)
        if place is not None:
            line, column = place.line or None, place.column or None
    return texts, line, column


def thrown(error: Thrown, compiled: CompiledModule, number: int, source: str) -> Fields:
    """What the code threw, or why its value is none."""
    texts, line, column = located(error, compiled, number)
    known = _KINDS.get(error.kind)
    name = error.name if error.name in _STANDARD else "Error"
    error_type, reason = known or (name, "threw")
    message = _FLAG.sub(": this sandbox does not grant it", error.message)
    if name == "ReferenceError" and message in _HINTS:
        message = f"{message} ({_HINTS[message]})"
    head = f"{error_type}: {message}" if known else f"{error.name}: {message}" if error.name else message
    stack = "".join(f"\n    {text}" for text in texts) if len(texts) > 1 else ""
    return {
        "ok": False,
        "error": _bounded(f"{head}{_where(line, column)}{_quoted(source, line)}{stack}"),
        "error_type": error_type,
        "line": line,
        "column": column,
        "exit_reason": reason,
    }


def too_late(timeout: float) -> Fields:
    """It took longer than it may; its worker was killed."""
    return {
        "ok": False,
        "error": f"Timeout: the code ran longer than {timeout:g} s and was stopped. {_LOST}",
        "error_type": "Timeout",
        "exit_reason": "timeout",
    }


def broken() -> Fields:
    """The worker said what none of ours says."""
    text = (
        "Crashed: the code broke the channel of its own process, which was stopped: print with console.log, Deno.stdout or node:fs, "
        f"not by other ways to descriptor 1, such as WASI. {_LOST}"
    )
    return {"ok": False, "error": text, "error_type": "Crashed", "exit_reason": "crashed"}


def ended(status: int, heap_mb: int | None, memory_mb: int) -> Fields:
    """The worker ended by itself, with that status (128 + n for signal n)."""
    if status in _MEMORY:
        heap = f"{heap_mb} MiB of heap, " if heap_mb is not None else ""
        text = f"OutOfMemory: the code needed more memory than it may have ({heap}{memory_mb} MiB in all). {_LOST}"
        return {"ok": False, "error": text, "error_type": "OutOfMemory", "exit_reason": "memory", "exit_code": status}
    if status in _FATAL:
        text = f"Crashed: the engine ended abnormally (out of memory, abort(), or a value beyond its limits). {_LOST}"
        return {"ok": False, "error": text, "error_type": "Crashed", "exit_reason": "crashed", "exit_code": status}
    if status > 128:
        name = signal.Signals(status - 128).name if status - 128 in set(signal.Signals) else str(status - 128)
        text = f"Signal: the code's process was ended by {name}. {_LOST}"
        return {"ok": False, "error": text, "error_type": "Signal", "exit_reason": "signal", "exit_code": status}
    text = f"Exited: the code ended its own process with exit code {status}: return the value instead of calling exit. {_LOST}"
    return {"ok": False, "error": text, "error_type": "Exited", "exit_reason": "exited", "exit_code": status}
