"""Whose session it is: its key in the store, and what everything that is stored of it is bound to."""

from __future__ import annotations

import hashlib
import json
import struct
import unicodedata
from typing import Final, Literal
from urllib.parse import quote

__all__ = ("MAX_NAME", "Name", "check_name", "owner_prefix")

MAX_NAME: Final = 200
"""Characters of an owner, and of a session's id."""

_DOMAIN: Final = b"gloveport.pool\0"


def check_name(what: str, value: str) -> None:
    """Raise unless it can name an owner or a session."""
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{what} must be a string, not {type(value).__name__}")
    if not 1 <= len(value) <= MAX_NAME or len(quote(value, safe="", errors="replace")) > 2 * MAX_NAME:
        raise ValueError(f"{what} must have 1 to {MAX_NAME} characters (fewer if they are not ASCII), not {len(value)}")
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in value):
        raise ValueError(f"{what} must have no control characters and no surrogates: {value!r}")


def owner_prefix(prefix: str, owner: str) -> str:
    """What the keys of an owner's sessions begin with, and no other's."""
    return f"{prefix}{quote(owner, safe='')}/"


class Name:
    """An owner's session in a store."""

    __slots__ = ("_binding", "key", "owner", "sid")

    def __init__(self, prefix: str, owner: str, sid: str) -> None:
        check_name("owner", owner)
        check_name("sid", sid)
        self.owner = owner
        self.sid = sid
        self.key = owner_prefix(prefix, owner) + quote(sid, safe="")
        names = json.dumps([prefix, owner, sid])  # no two triples give the same text
        self._binding = _DOMAIN + hashlib.sha256(names.encode()).digest()

    def __str__(self) -> str:
        return f"session {self.sid!r} of {self.owner!r}"

    def binding(self, kind: Literal["dump", "segment", "tally"], number: int) -> bytes:
        """The associated data of what is stored under that version (of a tally: beside that many calls)."""
        return self._binding + kind.encode() + b"\0" + struct.pack("<Q", number)
