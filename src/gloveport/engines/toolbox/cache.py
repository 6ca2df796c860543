"""Compiled sources, by hash, in bounded memory."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections import OrderedDict

from gloveport.engines.toolbox.compiled import Compiled, CompiledModule
from gloveport.errors import CompileError

Outcome = Compiled | CompiledModule | CompileError

ENTRY_OVERHEAD = 300
"""Bytes that an entry costs beyond its texts, roughly."""


def source_key(op: str, source: str) -> bytes:
    """The key of what `op` makes of a source. Collision resistant: sources of different sessions, hostile ones too, share the cache."""
    return hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=32, person=op.encode()).digest()


def outcome_size(outcome: Outcome) -> int:
    """Bytes of memory that an outcome holds, roughly."""
    if isinstance(outcome, CompileError):
        return ENTRY_OVERHEAD + sys.getsizeof(outcome.message)
    size = ENTRY_OVERHEAD + sys.getsizeof(outcome.code)
    if isinstance(outcome, CompiledModule):
        size += sys.getsizeof(outcome.head) + sum(200 + sys.getsizeof(each.specifier) for each in outcome.imports)
    else:
        size += sum(sys.getsizeof(name) for name in outcome.names)
    if outcome.source_map is not None:
        size += sum(56 + 160 * len(segments) for segments in outcome.source_map.lines)
    return size


class OutcomeCache:
    """Least recently used first out, bounded in bytes. Any thread may use it."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self._entries: OrderedDict[bytes, tuple[Outcome, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> Outcome | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: bytes, outcome: Outcome) -> None:
        """Keeps an outcome, unless it is larger than the whole cache."""
        if isinstance(outcome, CompileError):  # one that was raised holds its cause and the frames of whoever asked
            outcome = CompileError(outcome.message, line=outcome.line, column=outcome.column)
        size = outcome_size(outcome)
        if size > self.max_bytes:
            return
        with self._lock:
            _, replaced = self._entries.pop(key, (None, 0))
            self._entries[key] = (outcome, size)
            self.size += size - replaced
            while self.size > self.max_bytes:
                _, (_, dropped) = self._entries.popitem(last=False)
                self.size -= dropped

    def after_fork(self) -> None:
        """In the child of a fork: another thread may have held the lock, and that thread does not exist here."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)
