"""The output of a command as it is kept: the beginning and the end of each stream, counted, and decoded piece by piece."""

from __future__ import annotations

import codecs
from collections import deque

from ..errors import ProtocolViolation

__all__ = ("Stream",)


class Stream:
    """One stream within `limit` bytes: half of it the beginning, half the end.

    `add` takes pieces by their offset. What was seen already is left out, so that reading again from an earlier offset does no harm;
    a hole is what the machine itself has let go of.
    """

    def __init__(self, limit: int) -> None:
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._lost = 0
        """Bytes between head and tail."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.offset = 0
        """Where the next piece begins that is not known yet."""

    def add(self, offset: int, data: bytes) -> str:
        """Keep a piece. Gives the text that it adds; a character that is not complete yet comes with the next piece."""
        if offset < self.offset:
            data = data[self.offset - offset :]
        elif offset > self.offset:
            self._hole(offset - self.offset)
        if not data:
            return ""
        self.offset += len(data)
        self._keep(data)
        return self._decoder.decode(data)

    def _hole(self, size: int) -> None:
        self._lost += size + self._tail_size
        self._tail.clear()
        self._tail_size = 0
        self.offset += size
        self._head_limit = len(self._head)  # nothing after a hole belongs to the beginning
        self._decoder.reset()

    def _keep(self, data: bytes) -> None:
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size > self._tail_limit:
            over = self._tail_size - self._tail_limit
            oldest = self._tail[0]
            if len(oldest) > over:
                self._tail[0] = oldest[over:]
                cut = over
            else:
                self._tail.popleft()
                cut = len(oldest)
            self._lost += cut
            self._tail_size -= cut

    def finish(self, total: int) -> str:
        """The stream has ended after `total` bytes. Gives what was left of an incomplete character."""
        if total < self.offset:
            raise ProtocolViolation("a machine counted less output than it sent")
        if total > self.offset:
            self._hole(total - self.offset)
        return self._decoder.decode(b"", final=True)

    def text(self) -> tuple[str, int]:
        """The text, and how many bytes are left out of it."""
        tail = b"".join(self._tail)
        if not self._lost:
            return (self._head + tail).decode("utf-8", "replace"), 0
        head, before = _whole_end(bytes(self._head))
        tail, after = _whole_start(tail)
        lost = self._lost + before + after
        start, end = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
        gap = "" if not start or start.endswith("\n") else "\n"
        return f"{start}{gap}[truncated: {lost} bytes]\n{end}", lost

    def raw(self) -> bytes:
        """What is kept, as bytes, without a mark."""
        return bytes(self._head) + b"".join(self._tail)


def _whole_end(data: bytes) -> tuple[bytes, int]:
    """Without the beginning of a character at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return (data[:-back], back) if size > back else (data, 0)
    return data, 0


def _whole_start(data: bytes) -> tuple[bytes, int]:
    """Without the rest of a character at the start."""
    cut = 0
    while cut < min(3, len(data)) and 0x80 <= data[cut] < 0xC0:
        cut += 1
    return data[cut:], cut
