"""The name server of a jail's network: RFC 1035, as far as one question goes. Every question comes from the guest."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from ...policy import host_name
from .names import Names

__all__ = ("WHY", "answer", "shortened")

WHY: Final = ".why.gloveport.internal"
"""`<port>.<host>.why.gloveport.internal`, TXT: why the last connection there failed. For an IPv6 address, `-` stands for `:`.

Not below `.invalid`, where resolvers answer by themselves (RFC 6761; seen with the one of Deno 2.9.8)."""

_A, _TXT, _ANY_IN = 1, 16, 1
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x8000, 0x400, 0x200, 0x100, 0x80
_OPCODE: Final = 0x7800
_FORMAT_ERROR, _SERVER_FAILURE, _NO_SUCH_NAME, _NOT_IMPLEMENTED = 1, 2, 3, 4
_TTL: Final = 60
_REVERSE: Final = (".in-addr.arpa", ".ip6.arpa")
_LOOPBACK: Final = {_A: b"\x7f\0\0\1", 28: bytes(15) + b"\1"}
_NAME_POINTER: Final = b"\xc0\x0c"
"""The name of the question, in the answer."""
_HEADER: Final = struct.Struct("!HHHHHH")


def answer(
    query: bytes, names: Names, why: Callable[[str, int], str | None], *, own_localhost: bool = False
) -> bytes | None:
    """The answer to a packet, or `None` for one that deserves none: shorter than a header, or an answer itself.

    A question for the address of any name gets the address that stands for it; nothing is asked of another name server. There are no
    IPv6 addresses and no other records, and nothing for what is no host name. `why(host, port)` knows why a connection failed.
    With `own_localhost`, `localhost` is where whoever asks runs (RFC 6761, 6.3), and no name that rules decide about.
    """
    if len(query) < _HEADER.size:
        return None
    identity, flags, questions, _, _, _ = _HEADER.unpack_from(query)
    if flags & _RESPONSE:
        return None
    given = _RESPONSE | _AUTHORITATIVE | _RECURSION_AVAILABLE | (flags & (_OPCODE | _RECURSION_DESIRED))
    if flags & _OPCODE:
        return _HEADER.pack(identity, given | _NOT_IMPLEMENTED, 0, 0, 0, 0)
    try:
        name, kind, end = _question(query, questions)
    except ValueError:
        return _HEADER.pack(identity, given | _FORMAT_ERROR, 0, 0, 0, 0)
    code, data = _data(name, kind, names, why, own_localhost)
    record = _NAME_POINTER + struct.pack("!HHIH", kind, _ANY_IN, _TTL if kind == _A else 0, len(data)) + data
    head = _HEADER.pack(identity, given | code, 1, bool(data), 0, 0)
    return head + query[_HEADER.size : end] + (record if data else b"")


def shortened(answer: bytes) -> bytes:
    """An answer as one datagram may be (RFC 1035, 4.2.1): what is longer than 512 bytes says so, and is asked for over TCP."""
    if len(answer) <= 512:
        return answer
    identity, flags, _, _, _, _ = _HEADER.unpack_from(answer)
    return _HEADER.pack(identity, flags | _TRUNCATED, 0, 0, 0, 0)


def _question(query: bytes, questions: int) -> tuple[str, int, int]:
    if questions != 1:
        raise ValueError("not one question")
    labels: list[str] = []
    at = _HEADER.size
    while True:
        if at >= len(query):
            raise ValueError("the name has no end")
        length = query[at]
        at += 1
        if length == 0:
            break
        if length > 63 or at + length > len(query):  # a pointer: there is nothing yet to point at
            raise ValueError("the name is broken")
        labels.append(query[at : at + length].decode("latin-1"))
        at += length
    if at + 4 > len(query) or at - _HEADER.size > 255:
        raise ValueError("the question is broken")
    kind, of = struct.unpack_from("!HH", query, at)
    if of != _ANY_IN:
        raise ValueError("another class")
    if any("." in label for label in labels):
        return "", kind, at + 4  # a dot in a label would be read as two labels: that is no host name
    return ".".join(labels), kind, at + 4


def _data(
    name: str, kind: int, names: Names, why: Callable[[str, int], str | None], own_localhost: bool
) -> tuple[int, bytes]:
    if name.lower().endswith(WHY):
        return _reason(name.lower().removesuffix(WHY), kind, why)
    try:
        host = host_name(name)
    except ValueError:
        return _NO_SUCH_NAME, b""
    if ":" in host or host.rpartition(".")[2].isdigit() or host.endswith(_REVERSE):
        return _NO_SUCH_NAME, b""  # an address is no name, and none has one
    if own_localhost and (host == "localhost" or host.endswith(".localhost")):
        return 0, _LOOPBACK.get(kind, b"")
    if kind != _A:
        return 0, b""
    address = names.address(host)
    return (0, address.packed) if address else (_SERVER_FAILURE, b"")


def _reason(asked: str, kind: int, why: Callable[[str, int], str | None]) -> tuple[int, bytes]:
    port, _, host = asked.partition(".")
    if kind != _TXT or not port.isascii() or not port.isdigit() or len(port) > 5:
        return 0, b""
    text = why(host.replace("-", ":") if "-" in host and "." not in host else host, int(port)) or ""
    data = text.encode()[:800]
    return 0, b"".join(bytes([len(part)]) + part for part in (data[i : i + 255] for i in range(0, len(data), 255)))
