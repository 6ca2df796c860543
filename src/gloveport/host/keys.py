"""`KeyRing`: several keys by name, of which one seals; signed, or encrypted as well.

Layout (format 2): `GLVS`, u8 2, u8 algorithm, u8 length of the key's name, its name, body. Algorithm 1: 32 bytes HMAC-SHA256, payload.
Algorithm 2: 12 bytes nonce, AES-256-GCM-SIV (RFC 8452) of the payload with its 16 bytes tag. Magic, format, algorithm, name and associated
data are authenticated in both. The working key is derived from the ring's key, the algorithm and the name, so that one key given to two
names, to two algorithms or as a plain `key=` never does the same work twice.

Why GCM-SIV: nonces are random, and a machine that was cloned or restored may draw one again. Under AES-GCM and ChaCha20-Poly1305 that
gives an attacker the difference of two plaintexts and the means to forge; here it tells no more than that two blobs are equal.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import struct
from collections.abc import Mapping
from typing import Any, Final

from ..core.seal import MAGIC, NOT_AUTHENTIC, check_key
from ..errors import JournalError, SealError

__all__ = ("KeyRing",)

_SIGNED: Final = 1
_ENCRYPTED: Final = 2
_TAG: Final = 32
_NONCE: Final = 12
_FORMAT: Final = 2
_DOMAIN: Final = b"gloveport key ring seal v2\0"
_DERIVE: Final = b"gloveport key ring key v2\0"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


class KeyRing:
    """Keys by name. Use it wherever a `key=` is taken.

    - `keys`: names (1 to 64 letters, digits, `.`, `_`, `-`) and keys (at least 16 bytes; `secrets.token_bytes(32)`).
    - `primary`: the name of the one that seals; may be left out if there is only one. The others still open what they sealed: to rotate,
      add a key, make it primary on every host, and take the old one away when nothing sealed by it is needed any more.
    - `encrypt`: seal with AES-256-GCM-SIV, so that whoever has the store reads nothing. Needs `gloveport[encryption]`. Such a ring
      refuses what is only signed, so that nobody can have it read what is in clear;
    - `accept_signed`: unless this says that it may, while a store is brought over.
    - `unnamed`: a key that was given as plain `key=` before: opens what it sealed.

    Raises `SealError` for a blob of a key that is not there, of another algorithm than is accepted, or that is not authentic.
    """

    __slots__ = ("_accept_signed", "_encrypt", "_keys", "_primary", "_unnamed")

    def __init__(
        self,
        keys: Mapping[str, bytes],
        *,
        primary: str | None = None,
        encrypt: bool = False,
        accept_signed: bool = False,
        unnamed: bytes | None = None,
    ) -> None:
        for name, key in keys.items():
            if not isinstance(name, str) or not _NAME.match(name):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"the name of a key has 1 to 64 letters, digits, '.', '_' or '-', not {name!r}")
            check_key(key)
        if primary is None:
            if len(keys) != 1:
                raise ValueError("`primary` must name one of the keys when there is not exactly one")
            primary = next(iter(keys))
        if primary not in keys:
            raise ValueError(f"`primary` is {primary!r}, which is not among the keys")
        if unnamed is not None:
            check_key(unnamed)
        if encrypt:
            _cipher(bytes(32))  # so that a missing library is found here
        self._keys = {name: bytes(key) for name, key in keys.items()}
        self._primary = primary
        self._encrypt = encrypt
        self._accept_signed = accept_signed or not encrypt
        self._unnamed = unnamed

    def __repr__(self) -> str:  # never the keys
        how = "encrypt" if self._encrypt else "sign"
        return f"<KeyRing {', '.join(self._keys)}; {how} with {self._primary}>"

    def __reduce__(self) -> Any:
        raise TypeError("a KeyRing is not pickled: keys do not belong into files and queues")

    @property
    def primary(self) -> str:
        """The name of the key that seals."""
        return self._primary

    def seal_bytes(self, payload: bytes, associated_data: bytes) -> bytes:
        """See `Sealer.seal_bytes`."""
        algorithm = _ENCRYPTED if self._encrypt else _SIGNED
        header = _header(algorithm, self._primary)
        key = self._derived(self._primary, algorithm)
        bound = _bound(header, associated_data)
        if algorithm == _SIGNED:
            return header + _mac(key, bound, payload) + payload
        nonce = secrets.token_bytes(_NONCE)
        return header + nonce + _cipher(key).encrypt(nonce, payload, bound)

    def unseal_bytes(self, blob: bytes, associated_data: bytes) -> bytes:
        """See `Sealer.unseal_bytes`."""
        if blob[4:5] == b"\x01":
            return self._unseal_unnamed(blob, associated_data)
        if len(blob) < 7 or blob[4] != _FORMAT or len(blob) < 7 + blob[6]:
            raise SealError("the dump is truncated, or of a format that this release does not know")
        algorithm, header, body = blob[5], blob[: 7 + blob[6]], blob[7 + blob[6] :]
        name = header[7:].decode("ascii", "replace")
        if algorithm == _SIGNED and not self._accept_signed:
            raise SealError(
                "the dump is only signed, and this KeyRing encrypts: `accept_signed=True` opens it all the same"
            )
        if algorithm not in (_SIGNED, _ENCRYPTED):
            raise SealError(f"the dump has algorithm {algorithm}, which this release does not know")
        if name not in self._keys:
            raise SealError(f"the dump was sealed with the key {name[:64]!r}, which is not in this KeyRing")
        key, bound = self._derived(name, algorithm), _bound(header, associated_data)
        return _open_signed(key, bound, body) if algorithm == _SIGNED else _open_encrypted(key, bound, body)

    def _unseal_unnamed(self, blob: bytes, associated_data: bytes) -> bytes:
        from ..core.seal import unseal

        if self._unnamed is None:
            raise SealError("the dump was sealed with a plain key: give it to the KeyRing as `unnamed`")
        return unseal(blob, self._unnamed, associated_data)

    def _derived(self, name: str, algorithm: int) -> bytes:
        text = name.encode()
        return hmac.digest(self._keys[name], _DERIVE + bytes((algorithm, len(text))) + text, "sha256")


def _header(algorithm: int, name: str) -> bytes:
    text = name.encode()
    return MAGIC + bytes((_FORMAT, algorithm, len(text))) + text


def _bound(header: bytes, associated_data: bytes) -> bytes:
    return _DOMAIN + struct.pack("<QQ", len(header), len(associated_data)) + header + associated_data


def _mac(key: bytes, bound: bytes, payload: bytes) -> bytes:
    mac = hmac.new(key, bound, hashlib.sha256)  # `bound` says its own length
    mac.update(payload)
    return mac.digest()


def _open_signed(key: bytes, bound: bytes, body: bytes) -> bytes:
    tag, payload = body[:_TAG], body[_TAG:]
    if not hmac.compare_digest(tag, _mac(key, bound, payload)):
        raise SealError(NOT_AUTHENTIC)
    return payload


def _open_encrypted(key: bytes, bound: bytes, body: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return _cipher(key).decrypt(body[:_NONCE], body[_NONCE:], bound)
    except (InvalidTag, ValueError) as error:
        raise SealError(NOT_AUTHENTIC) from error


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV
    except ImportError as error:
        raise ImportError(f"{error}: install gloveport[encryption]", name=error.name) from error
    try:
        return AESGCMSIV(key)
    except UnsupportedAlgorithm as error:
        raise JournalError(
            f"encryption needs a cryptography that was built with OpenSSL 3.2 or later: {error}"
        ) from error
