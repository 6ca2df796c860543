"""What is kept of a conversation between scripts, sealed in a store.

One record per conversation holds the session's dump, what was spent, and the call that a script waits at. It is authenticated as a
whole, bound to the conversation and the capability's id, and carries the version that the store gives it, so that a row copied
from elsewhere or from earlier is noticed. A whole store that is set back to an earlier day is not: that takes a store that cannot be.
"""

from __future__ import annotations

import functools
import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

import anyio.to_thread
import msgspec

from ...core.seal import SealingKey, seal, unseal
from ...errors import JournalError, RecordNotFound, StoreConflict
from ...stores import MemoryStore, Record, Store

__all__ = ("Conversation", "Found", "Held", "Kind", "Ledger", "RecentStore", "Unreadable", "Waiting")

T = TypeVar("T")
Kind = Literal["approval", "external", "question"]

_FORMAT: Final = 1
_CALL: Final = b"\0call"
_MAX_ANSWERED: Final = 64
_MAX_SEEN: Final = 4096


class Held(msgspec.Struct):
    """A call of a tool that nobody answered inside the run."""

    tool: str
    arguments: bytes
    """JSON."""
    call_id: str
    """The tool call id that Pydantic AI knows it by."""
    kind: Kind
    metadata: bytes
    """JSON of what came with `ApprovalRequired` or `CallDeferred`."""


class Waiting(msgspec.Struct):
    """The call that a script waits at."""

    token: str
    """Random; what an answer has to be meant for."""
    script_id: str
    """The tool call id of the script."""
    run_id: str
    number: int
    """Which pause of the script this is, from 1."""
    call: Held
    calls: int
    """Nested calls so far."""
    others: list[Held] = []
    """Further calls that were held at the same time; their turn comes later."""
    content: bytes = b"[]"
    """JSON of the user content that tools gave so far."""
    claimed: bool = False
    """Someone began to answer it. It is never answered again."""


class Conversation(msgspec.Struct):
    """A record."""

    format: int = _FORMAT
    version: int = 0
    blob: bytes = b""
    """The session's dump; empty: there is none."""
    tools: list[str] = []
    """The tools of that session."""
    spent: int = 0
    """Tool calls over the conversation's life."""
    earlier: int = 0
    """Those of them that sessions before this one made."""
    used: dict[str, int] = {}
    """Per tool: calls over the conversation's life."""
    waiting: Waiting | None = None
    answered: list[tuple[str, str]] = []
    """Token and script of the pauses that were answered last."""
    lost: str = ""
    """Why there is no dump though there was a session."""
    attempts: dict[str, str] = {}
    """By durable run: the script that was begun last."""
    ended: str = ""
    """Which of them ended last."""
    outcome: bytes = b""
    """JSON of what it ended with; empty if that is too large."""

    def claim(self, waiting: Waiting) -> None:
        """Note that its pause is answered now."""
        waiting.claimed = True
        self.answered = [*self.answered, (waiting.token, waiting.script_id)][-_MAX_ANSWERED:]


class Begun(msgspec.Struct):
    """A call of a script in a durable workflow, noted before it is made, in the version that it makes of the record."""

    version: int
    tool: str


class Found(msgspec.Struct):
    """What the store has. `version` is `None` when it has nothing."""

    conversation: Conversation
    version: int | None
    begun: list[str] = []
    """The tools of calls that were noted since the record was written. They are charged."""


class Unreadable(Exception):
    """The record is there and cannot be used."""

    def __init__(self, reason: str, record: Record, conversation: Conversation | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.version = record.version
        self.spent = record.spent
        """As the store says; it never shrinks there."""
        self.conversation = conversation
        """What it says, if it is authentic."""


class Ledger:
    """The records of one capability."""

    def __init__(
        self, store: Store, key: SealingKey, capability: str, *, expires: float | None, max_bytes: int
    ) -> None:
        self._store = store
        self._key = key
        self._capability = capability
        self._expires = expires
        self._max_bytes = 4 * max_bytes + 1024 * 1024
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def binding(self, conversation: str) -> bytes:
        """The associated data of everything that is sealed for a conversation."""
        owner = json.dumps([self._capability, conversation])  # no two pairs give the same text
        return b"gloveport.tool_script\0" + hashlib.sha256(owner.encode()).digest()

    @property
    def key(self) -> SealingKey:
        """The sealing key."""
        return self._key

    async def get(self, conversation: str) -> Found:
        """The record, or an empty one. Raises `Unreadable`."""
        name = self._name(conversation)
        try:
            record = await self._perform(self._store.get, name)
        except RecordNotFound:  # a record that is gone leaves its counter: what was spent stays spent
            spent = await self._perform(self._store.spent, name)
            return Found(Conversation(spent=spent, earlier=spent), None)
        try:
            found = _decode(unseal(record.blob, self._key, self.binding(conversation), max_bytes=self._max_bytes))
        except JournalError as error:
            raise Unreadable(str(error), record) from error
        try:
            begun = [self._begun(segment, conversation) for segment in record.segments]
        except JournalError as error:
            raise Unreadable(str(error), record) from error
        versions = [found.version, *(call.version for call in begun)]
        first = record.version - len(begun)
        if versions != list(range(first, record.version + 1)) or record.version < self._last(name):
            raise Unreadable("the stored record is an older one than was written last", record)
        if self._expires is not None and record.updated < time.time() - self._expires:
            raise Unreadable(f"it was not used for more than {self._expires:g} s", record, found)
        self._note(name, record.version)
        found.spent += len(begun)
        found.earlier += len(begun)  # no session that is stored made them
        for call in begun:
            found.used[call.tool] = found.used.get(call.tool, 0) + 1
        return Found(found, record.version, [call.tool for call in begun])

    async def begin(self, conversation: str, found: Found, tool: str) -> None:
        """Note that a call is about to be made, and charge it. Raises `StoreConflict`."""
        assert found.version is not None  # the script was noted
        begun = Begun(found.version + 1, tool)
        segment = seal(msgspec.msgpack.encode(begun), self._key, self.binding(conversation) + _CALL)
        append = functools.partial(
            self._store.append,
            self._name(conversation),
            segment,
            expect=found.version,
            spent=found.conversation.spent + len(found.begun) + 1,
        )
        found.version = await self._perform(append)
        found.begun.append(tool)
        self._note(self._name(conversation), found.version)

    def _begun(self, segment: bytes, conversation: str) -> Begun:
        payload = unseal(segment, self._key, self.binding(conversation) + _CALL, max_bytes=self._max_bytes)
        try:
            return msgspec.msgpack.decode(payload, type=Begun)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise JournalError(f"the record is malformed: {error}") from error

    async def put(self, conversation: str, found: Found) -> None:
        """Write, in place of the version that was found. Raises `StoreConflict`; a record over the limit is the caller's affair."""
        name, state = self._name(conversation), found.conversation
        for _ in range(
            2
        ):  # a record that was once deleted goes on counting where it was: write again under the right number
            state.version = (found.version or 0) + 1
            record = Record(
                key=name,
                blob=seal(msgspec.msgpack.encode(state), self._key, self.binding(conversation)),
                spent=state.spent,
                label=conversation,
                pending=None if state.waiting is None else state.waiting.call.tool,
            )
            found.version = await self._perform(functools.partial(self._store.put, record, expect=found.version))
            if found.version == state.version:
                found.begun = []
                self._note(name, found.version)
                return
        raise StoreConflict(f"the store numbers the record {name!r} in a way of its own")

    def _name(self, conversation: str) -> str:
        return f"tool_script/{self._capability}/{conversation}"

    async def _perform(self, function: Callable[..., T], *arguments: Any) -> T:
        if isinstance(self._store, MemoryStore):
            return function(*arguments)
        return await anyio.to_thread.run_sync(functools.partial(function, *arguments))

    def _last(self, name: str) -> int:
        with self._lock:
            return self._seen.get(name, 0)

    def _note(self, name: str, version: int) -> None:
        with self._lock:
            self._seen[name] = version
            self._seen.move_to_end(name)
            while len(self._seen) > _MAX_SEEN:
                self._seen.popitem(last=False)


class RecentStore(MemoryStore):
    """A memory store that forgets the conversations that were used least recently."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._order: OrderedDict[str, None] = OrderedDict()
        self._order_lock = threading.Lock()

    def put(self, record: Record, *, expect: int | None, token: int | None = None, release: bool = False) -> int:
        """See `Store.put`."""
        version = super().put(record, expect=expect, token=token, release=release)
        with self._order_lock:
            self._order[record.key] = None
            self._order.move_to_end(record.key)
            dropped = [self._order.popitem(last=False)[0] for _ in range(len(self._order) - self._most)]
        for key in dropped:
            self.delete(key)
        return version


def _decode(payload: bytes) -> Conversation:
    try:
        found = msgspec.msgpack.decode(payload, type=Conversation)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise JournalError(f"the record is malformed: {error}") from error
    if found.format != _FORMAT:
        raise JournalError(f"the record has format {found.format}; this release reads format {_FORMAT}")
    return found
