"""What people are shown of a run: bounded, cleaned output, and error types that a guest cannot choose."""

from __future__ import annotations

import json
import re
from typing import Final, Literal

import msgspec

from .. import errors
from ..types import Failed, json_data
from ..wire.messages import FailMessage, Log, Tail

__all__ = ("Output", "clean", "escaped", "failed", "guest_error", "json_size", "stream_name")

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls but tab and newline: terminals obey them
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"  # zero width, line separators, bidirectional controls
    "\ufe00-\ufe0f\ufff9-\ufffb\U000e0000-\U000e0fff"  # variation selectors, annotations, tag characters
    "\ud800-\udfff]"  # lone surrogates: no UTF-8 form
)


def stream_name(number: int) -> Literal["stdout", "stderr"]:
    """What people call the stream of a console message."""
    return "stderr" if number == 2 else "stdout"


def clean(text: str) -> str:
    """Text that neither drives nor disguises what a terminal or a log shows: each such character becomes `?`."""
    return _UNSAFE.sub("?", text)


def escaped(text: str) -> str:
    """JSON text in which each such character is an escape: they can be in its strings only."""
    return _UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


class Output:
    """The console output of one run: two streams, each within `cap` bytes of UTF-8.

    The guest sends each stream's beginning and keeps its end, up to `guest_cap` bytes together; what is shown is cut here,
    where it is known whether the whole fits.
    """

    __slots__ = ("_bytes", "_cap", "_dropped", "_lines", "_tails")

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._lines: tuple[list[str], list[str]] = ([], [])
        self._bytes = [0, 0]
        self._dropped: list[list[int]] = [[0, 0], [0, 0]]
        self._tails = ["", ""]

    @staticmethod
    def guest_cap(cap: int) -> int:
        """What the guest is allowed: each of its halves can hold all that may be shown."""
        return 2 * cap

    def add(self, log: Log) -> str | None:
        """Keep one line; gives it cleaned, or nothing when it is dropped. The guest keeps to its half by itself; a hostile one is
        cut here."""
        index = 1 if log.s == 2 else 0
        line = clean(log.m)
        size = len(line.encode()) + 1
        if self._bytes[index] + size > 2 * self._cap:
            self._dropped[index][0] += 1
            self._dropped[index][1] += size
            return None
        self._bytes[index] += size
        self._lines[index].append(line)
        return line

    def end(self, tail: Tail) -> None:
        """Keep the end of a stream."""
        index = 1 if tail.s == 2 else 0
        self._tails[index] = clean(tail.m).encode()[-2 * self._cap :].decode("utf-8", "ignore")
        self._dropped[index][0] += max(0, tail.lines)
        self._dropped[index][1] += max(0, tail.bytes)

    def text(self, stream: int) -> str:
        """stdout (1) or stderr (2): one line per call, each ended by a newline."""
        head = "".join(f"{line}\n" for line in self._lines[stream - 1])
        tail = self._tails[stream - 1]
        if tail and not tail.endswith("\n"):
            tail += "\n"
        return head + tail if self._fits(stream - 1) else self._cut(head, tail, *self._dropped[stream - 1])

    def _fits(self, index: int) -> bool:
        tail = self._tails[index]
        size = self._bytes[index] + len(tail.encode()) + (bool(tail) and not tail.endswith("\n"))
        return self._dropped[index] == [0, 0] and size <= self._cap

    def _cut(self, head: str, tail: str, lines: int, size: int) -> str:
        """Both ends, each of at most half the cap, and between them what is missing."""
        kept, rest = (head, tail) if lines or size else (head + tail, head + tail)
        room = max(0, self._cap - 64)  # the line between fits into 64 bytes
        start = _whole_lines(kept.encode()[: room // 2])
        end = _whole_lines(rest.encode()[max(0, len(rest.encode()) - (room - len(start.encode()))) :], last=True)
        if lines or size:
            lines += head.count("\n") - start.count("\n") + tail.count("\n") - end.count("\n")
            size += len(head.encode()) - len(start.encode()) + len(tail.encode()) - len(end.encode())
        else:
            lines = kept.count("\n") - start.count("\n") - end.count("\n")
            size = len(kept.encode()) - len(start.encode()) - len(end.encode())
        if start and not start.endswith("\n"):
            start += "\n"
        return f"{start}[truncated: {max(0, lines)} lines, {size} bytes]\n{end}"

    @property
    def truncated(self) -> bool:
        """Whether either stream lost something."""
        return not (self._fits(0) and self._fits(1))

    def state(self) -> list[object]:
        """As plain data, for an image."""
        return [list(self._lines[0]), list(self._lines[1]), self._bytes, self._dropped, self._tails]

    @classmethod
    def restored(cls, cap: int, state: list[object]) -> Output:
        """The reverse of `state`."""
        output = cls(cap)
        out, err, sizes, dropped, tails = msgspec.convert(
            state, tuple[list[str], list[str], list[int], list[list[int]], list[str]]
        )
        output._lines, output._bytes, output._dropped, output._tails = (out, err), sizes, dropped, tails
        return output


def _whole_lines(data: bytes, *, last: bool = False) -> str:
    """The whole lines at the beginning (or at the end) of a cut; one line that is longer than the cut is kept in part."""
    text = data.decode("utf-8", "ignore")
    if last:
        _, newline, rest = text.partition("\n")
        return rest if newline and rest else text
    kept, newline, _ = text.rpartition("\n")
    return kept + newline if newline else text


_HOST_NAMES: Final = frozenset(errors.__all__)
"""Names that only the host may give to a failure."""
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]{0,99}\Z", re.ASCII)
_MAX_MESSAGE: Final = 4000

_HINTS: Final = (
    (r"'?(fetch|XMLHttpRequest|WebSocket)'? is not defined", "there is no network here; call one of the tools instead"),
    (
        r"'?(require|module|exports|__dirname)'? is not defined",
        "there are no modules or packages here; use plain JavaScript and the tools",
    ),
    (
        r"'?(process|Buffer|Deno|Bun|fs|global)'? is not defined",
        "this is not Node.js; use plain JavaScript and the tools",
    ),
    (
        r"'?(window|document|localStorage|alert|prompt)'? is not defined",
        "this is not a browser; use plain JavaScript and the tools",
    ),
)
_HINT_PATTERNS: Final = tuple((re.compile(rf"{pattern}\Z"), hint) for pattern, hint in _HINTS)


def guest_error(fail: FailMessage, issued: frozenset[str] | set[str], source: str) -> errors.GloveportError:
    """The error for a failure inside the guest. `issued` are the names of errors that the host gave to this session."""
    message = clean(fail.message[:_MAX_MESSAGE])
    if fail.kind == "stuck":
        return errors.DeadlockError(message)
    if fail.kind == "value":
        return errors.ValueCrossingError(message)
    name = fail.name if _NAME.match(fail.name) else "Error"
    if name in _HOST_NAMES and name not in issued:
        name = "Error"
    for pattern, hint in _HINT_PATTERNS:
        if name == "ReferenceError" and pattern.match(message):
            message = f"{message} ({hint})"
    lines = source.splitlines()
    excerpt = clean(lines[fail.line - 1].strip())[:200] if 1 <= fail.line <= len(lines) else ""
    return errors.JavaScriptError(
        message,
        name=name,
        line=fail.line,
        column=fail.col if fail.line else 0,
        stack=clean(fail.stack[:_MAX_MESSAGE]),
        source_line=excerpt,
    )


def failed(error: BaseException, output: Output | None) -> Failed:
    """The step for an error."""
    kind, message, line, column = type(error).__name__, str(error), 0, 0
    if isinstance(error, errors.JavaScriptError):
        kind, message, line, column = error.name, error.message, error.line, error.column
    return Failed(
        error,
        output.text(1) if output else "",
        output.text(2) if output else "",
        output.truncated if output else False,
        error_type=kind,
        message=clean(message),
        line=line or None,
        column=column or None,
    )


def json_size(value: object) -> int:
    """Bytes of the value as compact JSON."""
    data = json_data(value)
    try:
        return len(msgspec.json.encode(data))
    except (UnicodeEncodeError, OverflowError):
        return len(json.dumps(data, separators=(",", ":")))
