"""What a dump holds, and how it is read back."""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

from ..errors import JournalError
from .budget import Budget
from .commands import OpenCall

__all__ = (
    "FORMAT",
    "CatalogIdentity",
    "Identity",
    "SavedRun",
    "SavedSession",
    "TailRun",
    "decode_saved",
    "encode_saved",
)

FORMAT: Final = 1
_MAX_INFLATED: Final = 1 << 30


class CatalogIdentity(msgspec.Struct, frozen=True):
    """Which catalog. A digest, because the names of thousands of tools would be a good part of every dump."""

    digest: str
    """Of the sorted names of its tools, as they were given."""
    size: int
    sources: tuple[str, ...] = ()
    """Names of the sources whose tools may change; theirs are not in the digest."""


class Identity(msgspec.Struct, frozen=True):
    """What makes a session the one that it is; a `load` with other tools or another redaction is refused."""

    clock_ms: float
    seed: int
    frozen_clock: bool
    namespace: str | None
    tools: tuple[str, ...]
    redact: bool
    bootstrap: str | None
    engine: str = "wasm"
    catalog: CatalogIdentity | None = None
    judged: bool = False
    """A policy decides about its calls; it does not load without one."""


class TailRun(msgspec.Struct):
    """A completed run since the last image, to be replayed by a rollback."""

    requests: list[bytes]
    digest: bytes
    begun: bytes = b""
    """The digest before the first of them: not nothing where the image was taken within the run."""


class SavedRun(msgspec.Struct):
    """A run that waits at a tool call."""

    number: int
    source: str
    images: list[bytes]
    """What differs from the first image of the session's `base`, if there is one."""
    open_calls: list[OpenCall]
    last_call: int
    used_ns: int
    paused: float
    charged: dict[str, int]
    digest: bytes
    output: list[object]
    ask: list[str] | None = None
    owed: list[bytes] = []
    """Requests with answers that a store was told of, and the guest was not yet."""
    waits: float | None = None
    """Since when it waits for whoever drives the session, where a store keeps it: epoch seconds by the store's clock."""
    requests: list[bytes] | None = None
    """What was asked of the guest so far, where there is no image."""


class SavedSession(msgspec.Struct):
    """A session. Everything in it was authenticated before it is decoded."""

    format: int
    release: str
    guest: str
    """SHA-256 of the guest build that the images belong to."""
    session: str
    """The same through a session's life; a fork gets its own."""
    identity: Identity
    budget: Budget
    max_result_bytes: int
    max_output_bytes: int
    runs: int
    lost_runs: int
    last_call: int
    ids_lost: int
    issued: list[str]
    base: list[bytes]
    tail: list[TailRun]
    run: SavedRun | None = None
    journal: bytes | None = None
    discovered: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Tools of the catalog that were found: JavaScript name to the name it was given."""
    counted: list[str] = msgspec.field(default_factory=list[str])
    """Keys of calls that a log knew of and that were charged by a load, in case the session makes them again."""
    sources: tuple[bool, list[str]] | None = None
    """For a type checker: whether these are the codes of all completed runs, and the codes; `None`: they are not kept."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SavedSession)


def encode_saved(saved: SavedSession) -> bytes:
    """As bytes. The images are compressed already; the rest is, here."""
    images = (saved.base, saved.run.images if saved.run else None)
    run = msgspec.structs.replace(saved.run, images=[]) if saved.run else None
    rest = zlib.compress(_encoder.encode(msgspec.structs.replace(saved, base=[], run=run)), 1)
    return _encoder.encode((FORMAT, images, rest))


def decode_saved(payload: bytes) -> SavedSession:
    """The reverse. Raises `JournalError` for another format, and for an authentic payload that is malformed."""
    try:
        number, images, rest = msgspec.msgpack.decode(
            payload, type=tuple[int, tuple[list[bytes], list[bytes] | None], bytes]
        )
        if number != FORMAT:
            raise JournalError(f"the dump has format {number}; this release reads format {FORMAT}")
        saved = _decoder.decode(_inflate(rest))
    except (msgspec.DecodeError, msgspec.ValidationError, zlib.error) as error:
        raise JournalError(f"the dump is malformed: {error}") from error
    saved.base = images[0]
    if saved.run is not None:
        saved.run.images = images[1] or []
    return saved


def _inflate(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    plain = inflater.decompress(data, _MAX_INFLATED)
    if inflater.unconsumed_tail:
        raise JournalError("the dump inflates to more than a gigabyte")
    return plain
