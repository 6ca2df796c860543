"""Sealing: a blob is authenticated before anything in it is read, let alone started.

Layout: `GLVS` magic, u8 format, then what the format says. Format 1 is what a plain key makes: u8 algorithm (1 = HMAC-SHA256), 32 bytes
tag, payload. The tag covers a domain text, the lengths and bytes of the header, the associated data and the payload, so no two
different splits give the same input. Format 2 names its key and may be encrypted; a `Sealer` (`KeyRing`) makes and reads it.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final, Protocol, runtime_checkable

from ..errors import JournalError, JournalTooLarge, SealError

__all__ = (
    "MAGIC",
    "MAX_ASSOCIATED_DATA",
    "MIN_KEY",
    "NOT_AUTHENTIC",
    "Sealer",
    "SealingKey",
    "check_key",
    "seal",
    "unseal",
)

MIN_KEY: Final = 16
MAX_ASSOCIATED_DATA: Final = 4096
MAGIC: Final = b"GLVS"

_HEADER: Final = MAGIC + b"\x01\x01"
_TAG: Final = 32
_DOMAIN: Final = b"gloveport session seal v1\0"
NOT_AUTHENTIC: Final = "the dump is not authentic: it was changed, or the key or the associated data is another one"


@runtime_checkable
class Sealer(Protocol):
    """Seals and unseals by its own means, where more than one plain key is needed."""

    def seal_bytes(self, payload: bytes, associated_data: bytes) -> bytes:
        """The payload, sealed."""
        ...

    def unseal_bytes(self, blob: bytes, associated_data: bytes) -> bytes:
        """The reverse. Raises `SealError`."""
        ...


SealingKey = bytes | Sealer
"""A plain key of at least 16 bytes, or a `KeyRing`."""


def seal(payload: bytes, key: SealingKey, associated_data: bytes = b"") -> bytes:
    """The payload under `key`, bound to `associated_data` (which is not stored)."""
    _check_associated_data(associated_data)
    if isinstance(key, Sealer):
        return key.seal_bytes(payload, associated_data)
    return _HEADER + _tag(payload, key, associated_data) + payload


def unseal(blob: bytes, key: SealingKey, associated_data: bytes = b"", *, max_bytes: int | None = None) -> bytes:
    """The payload. Raises `SealError` unless the blob is exactly what `seal` gave under this key and associated data."""
    if not isinstance(blob, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a dump is bytes, not {type(blob).__name__}")
    data = bytes(blob)
    if max_bytes is not None and len(data) > max_bytes:
        raise JournalTooLarge(f"the dump has {len(data)} bytes; `max_journal_bytes` allows {max_bytes}")
    if not data.startswith(MAGIC):
        raise SealError("this is not a dump of a session")
    _check_associated_data(associated_data)
    if isinstance(key, Sealer):
        return key.unseal_bytes(data, associated_data)
    if data[4:5] == b"\x02":
        raise SealError("the dump was sealed with a KeyRing, and can only be opened with one")
    if not data.startswith(_HEADER) or len(data) < len(_HEADER) + _TAG:
        raise SealError("the dump is truncated, or of a format that this release does not know")
    tag, payload = data[len(_HEADER) : len(_HEADER) + _TAG], data[len(_HEADER) + _TAG :]
    if not hmac.compare_digest(tag, _tag(payload, key, associated_data)):
        raise SealError(NOT_AUTHENTIC)
    return payload


def check_key(key: bytes) -> None:
    """Raise unless it is a plain key."""
    if not isinstance(key, (bytes, bytearray)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the key must be bytes or a KeyRing, not {type(key).__name__}")
    if len(key) < MIN_KEY:
        raise JournalError(f"the key must have at least {MIN_KEY} bytes, not {len(key)}: use secrets.token_bytes(32)")


def _check_associated_data(associated_data: bytes) -> None:
    if not isinstance(associated_data, (bytes, bytearray)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`associated_data` must be bytes, not {type(associated_data).__name__}")
    if len(associated_data) > MAX_ASSOCIATED_DATA:
        raise JournalError(
            f"`associated_data` may have at most {MAX_ASSOCIATED_DATA} bytes, not {len(associated_data)}"
        )


def _tag(payload: bytes, key: bytes, associated_data: bytes) -> bytes:
    check_key(key)
    lengths = struct.pack("<QQQ", len(_HEADER), len(associated_data), len(payload))
    mac = hmac.new(key, _DOMAIN + lengths + _HEADER + associated_data, hashlib.sha256)
    mac.update(payload)
    return mac.digest()
