"""The closed set of messages: what the host asks of a guest, and what a guest may answer."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec

from ..errors import ProtocolViolation

__all__ = (
    "INTERRUPTED",
    "NOT_PLAIN",
    "OK",
    "OUT_OF_MEMORY",
    "TRAP",
    "Call",
    "DoneMessage",
    "FailMessage",
    "Idle",
    "Log",
    "Message",
    "Reply",
    "Tail",
    "answer_request",
    "answered_call",
    "bind_request",
    "decode_output",
    "decode_reply",
    "open_request",
    "plain_request",
    "reseed_request",
    "run_request",
    "tick_request",
)

OK: Final = 0
INTERRUPTED: Final = 1
TRAP: Final = 2
OUT_OF_MEMORY: Final = 3

TAGGED: Final = 1
"""Flag: the value holds `{"$": tag}` objects."""
SURROGATES: Final = 2
"""Flag: the text holds lone surrogates as `\\uXXXX` escapes, which only the standard library's decoder accepts."""

GC_REQUEST: Final = b"G"

_NOT_PLAIN: Final = b'{"t":"fail","f":0,"kind":"compile","name":"","message":""}'
NOT_PLAIN: Final = len(_NOT_PLAIN).to_bytes(4, "little") + _NOT_PLAIN
"""The whole output of a guest that leaves a `plain_request` to the compiler. It has done nothing."""


class Call(msgspec.Struct, tag_field="t", tag="call", frozen=True, gc=False, forbid_unknown_fields=True):
    """A tool was called; `a` holds the arguments, undecoded."""

    id: int
    n: str
    a: msgspec.Raw
    f: int = 0


class Log(msgspec.Struct, tag_field="t", tag="log", frozen=True, gc=False, forbid_unknown_fields=True):
    """One console call."""

    s: int
    m: str
    f: int = 0


class Tail(msgspec.Struct, tag_field="t", tag="tail", frozen=True, gc=False, forbid_unknown_fields=True):
    """The kept end of a stream, after `lines` lines of `bytes` bytes that were dropped."""

    s: int
    m: str
    lines: int
    bytes: int
    f: int = 0


class DoneMessage(msgspec.Struct, tag_field="t", tag="done", frozen=True, gc=False, forbid_unknown_fields=True):
    """The run returned; without `v`, undefined."""

    v: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    f: int = 0


class FailMessage(msgspec.Struct, tag_field="t", tag="fail", frozen=True, gc=False, forbid_unknown_fields=True):
    """The run failed inside the guest."""

    kind: str
    name: str
    message: str
    stack: str = ""
    line: int = 0
    col: int = 0
    f: int = 0


class Idle(msgspec.Struct, tag_field="t", tag="idle", frozen=True, gc=False, forbid_unknown_fields=True):
    """The run waits: `calls` are open, and the next timer is due in `timer` ms."""

    calls: int
    timer: float | None
    now: float
    f: int = 0


Message = Call | Log | Tail | DoneMessage | FailMessage | Idle

_decoder = msgspec.json.Decoder(Message)


class Reply(msgspec.Struct, frozen=True, gc=False):
    """A worker's answer to one step."""

    status: int
    ns: int
    """Nanoseconds that the guest computed."""
    clock_reads: int
    """How often this run has read the clock: tells a busy wait from a computation."""
    output: bytes
    wall_ns: int = 0
    """Nanoseconds that the host waited for it, by its own clock; 0 where the worker's word is the host's own."""


_REPLY = struct.Struct("<BQI")


def decode_reply(body: bytes, wall_ns: int = 0) -> Reply:
    """The body of an `r` frame, for which the host waited so long."""
    if len(body) < _REPLY.size:
        raise ProtocolViolation("a worker sent a truncated reply")
    status, ns, reads = _REPLY.unpack_from(body)
    if status > OUT_OF_MEMORY:
        raise ProtocolViolation(f"a worker sent the unknown status {status}")
    return Reply(status, ns, reads, body[_REPLY.size :], wall_ns)


def decode_output(output: bytes) -> list[Message]:
    """The messages of a guest's output. Anything but the closed set raises `ProtocolViolation`."""
    messages: list[Message] = []
    offset, end = 0, len(output)
    while offset < end:
        start = offset + 4
        if start > end:
            raise ProtocolViolation("a guest's output ends inside a length")
        offset = start + int.from_bytes(output[offset:start], "little")
        if offset > end:
            raise ProtocolViolation("a guest's output ends inside a message")
        raw = output[start:offset]
        try:
            message = _decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            message = _decode_surrogates(raw, error)
        except RecursionError as error:
            raise ProtocolViolation("a guest's message is nested too deep") from error
        in_range = _RANGES.get(type(message))
        if in_range is not None and not in_range(message):
            raise ProtocolViolation("a guest's message holds a number out of its range")
        messages.append(message)
    return messages


def _decode_surrogates(raw: bytes, cause: Exception) -> Message:
    """Lone surrogates: msgspec refuses their escapes, the standard library keeps them."""
    try:
        data = json.loads(raw, parse_constant=_no_constant)
        if not isinstance(data, dict):
            raise TypeError
        fields = cast("dict[str, Any]", data)
        if int(fields.get("f", 0)) & SURROGATES == 0:
            raise TypeError
        for key in ("a", "v"):
            if key in fields:
                fields[key] = msgspec.Raw(json.dumps(fields[key]).encode("ascii"))
        return msgspec.convert(fields, Message)
    except (ValueError, TypeError, RecursionError):
        raise ProtocolViolation(f"a guest's message is not of the protocol: {cause}") from cause


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_MAX_INTEGER: Final = 2**53
_MAX_ID: Final = 2**32 - 1
_MAX_LOCATION: Final = 2**31


_RANGES: Final[dict[type, Callable[[Any], bool]]] = {
    Call: lambda message: 0 < message.id <= _MAX_ID,
    Tail: lambda message: 0 <= message.lines <= _MAX_INTEGER and 0 <= message.bytes <= _MAX_INTEGER,
    Idle: lambda message: 0 <= message.calls <= _MAX_ID and (message.timer is None or math.isfinite(message.timer)),
    FailMessage: lambda message: 0 <= message.line <= _MAX_LOCATION and 0 <= message.col <= _MAX_LOCATION,
}
"""What the types admit is more than the protocol does: integers of any length, which nothing downstream expects."""


# ── host → guest ─────────────────────────────────────────────────────────────────────────────────────────────────────

_U32 = struct.Struct("<I")
_ANSWER = struct.Struct("<cdIBI")
_TICK = struct.Struct("<cd")
_RUN = struct.Struct("<cIII")


def open_request(
    *,
    clock_ms: float,
    seed: int,
    frozen: bool,
    namespace: str | None,
    tools: Sequence[str],
    bootstrap: str | None,
    catalog: str | None = None,
) -> bytes:
    """Installs the tools, and the object `catalog` whose every name is a call; once, on a fresh guest."""
    options = {
        "clock": clock_ms,
        "seed": str(seed),
        "frozen": frozen,
        "namespace": namespace,
        "tools": list(tools),
        "bootstrap": bootstrap,
        "catalog": catalog,
    }
    body = msgspec.json.encode(options)
    return b"O" + _U32.pack(len(body)) + body


def run_request(number: int, max_output_bytes: int, code: str) -> bytes:
    """Evaluates what the compiler made."""
    source = code.encode("utf-8", "surrogatepass")
    return _RUN.pack(b"R", number, max_output_bytes, len(source)) + source


def plain_request(number: int, max_output_bytes: int, source: str) -> bytes:
    """Compiles and evaluates plain JavaScript as it was given; the output is `NOT_PLAIN` when that is for the compiler."""
    text = source.encode("utf-8", "surrogatepass")
    return _RUN.pack(b"P", number, max_output_bytes, len(text)) + text


def answer_request(advance_ms: float, call_id: int, ok: bool, payload: bytes) -> bytes:
    """Settles one call."""
    return _ANSWER.pack(b"A", advance_ms, call_id, ok, len(payload)) + payload


def answered_call(request: bytes) -> int | None:
    """The call that a request settles, if it settles one."""
    return _ANSWER.unpack_from(request)[2] if request[:1] == b"A" else None


def tick_request(advance_ms: float) -> bytes:
    """Advances the clock and fires the timers that are due."""
    return _TICK.pack(b"T", advance_ms)


def bind_request(js_name: str) -> bytes:
    """Installs one more tool, as a global; between runs."""
    name = js_name.encode()
    return b"B" + _U32.pack(len(name)) + name


def reseed_request(seed: int) -> bytes:
    """Starts a new random stream."""
    return b"E" + struct.pack("<Q", seed)
