"""JSON messages with one process, under asyncio and trio."""

from __future__ import annotations

import itertools
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import msgspec

from ...errors import ProtocolViolation
from ...wire.frames import FrameDecoder, encode_frame
from ..deno.worker import DenoWorker

__all__ = ("Ended", "Nonsense", "Talk")

_MESSAGE: Final = 0x6A
_CHUNK: Final = 1 << 18
_LARGE: Final = 1 << 18
_numbers: Final = itertools.count(1)

T = TypeVar("T")


class Ended(Exception):
    """The process ended, or sent what none of ours sends."""


class Nonsense(Ended):
    """It sent what none of ours sends, and may be alive."""


class Talk:
    """Messages to and from one worker. `max_message`: bytes of the largest one that is read."""

    def __init__(self, worker: DenoWorker, max_message: int) -> None:
        self.worker = worker
        self.number: Final = next(_numbers)
        """No other one has it."""
        self._decoder = FrameDecoder(max_message)
        worker.sock.setblocking(False)

    async def send(self, message: Any, *, size: int = 0) -> None:
        """Sends one. `size`: characters of the code in it, so that much of it does not hold the event loop up. Raises `Ended`."""
        # ASCII escapes, as the source of a model may have lone surrogates, which UTF-8 cannot carry.
        text = _ascii(message) if size < _LARGE else await anyio.to_thread.run_sync(_ascii, message)
        body = memoryview(encode_frame(_MESSAGE, text))
        while body:
            try:
                body = body[self.worker.sock.send(body) :]
            except BlockingIOError:
                await anyio.wait_writable(self.worker.sock)
            except OSError as error:
                raise Ended(str(error)) from error

    async def receive(self, kind: type[T]) -> T:
        """The next one. Raises `Ended`, of which `Nonsense` is one kind."""
        while True:
            try:
                frame = self._decoder.next()
                if frame is not None:
                    return self._decoded(frame, kind)
                data = self.worker.sock.recv(_CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(self.worker.sock)
                continue
            except OSError as error:
                raise Ended(str(error)) from error
            except (ProtocolViolation, msgspec.DecodeError, RecursionError) as error:
                raise Nonsense(str(error)) from error
            if not data:
                raise Ended("it ended")
            self._decoder.feed(data)

    def _decoded(self, frame: tuple[int, bytes], kind: type[T]) -> T:
        if frame[0] != _MESSAGE or self._decoder.pending:  # it never speaks unasked
            raise ProtocolViolation("it sent a message of another kind, or one too many")
        return msgspec.json.decode(frame[1], type=kind)

    def kill(self) -> None:
        """Ends the process at once."""
        self.worker.kill()

    def close(self) -> None:
        """Ends the process; its end is waited for in the background."""
        self.worker.close()


def _ascii(message: Any) -> bytes:
    import json

    return json.dumps(message).encode("ascii")
