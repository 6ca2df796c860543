"""The way to the agent inside. What is at its end is hostile: also the name of its socket, in a folder that the machine can write to."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final

from ...errors import ProtocolViolation, SandboxError
from ..exec import ExecRequest
from ..wire import Ask, Fields, FrameReader, Tag, Tell, encode

__all__ = ("AgentLine", "say")

_NAME: Final = "agent.sock"
_ANSWER_SECONDS: Final = 20.0
_MOST_FRAMES: Final = 10_000


class AgentLine:
    """Connections to it."""

    @staticmethod
    def there(run: Path) -> bool:
        """Whether it has a socket. A link is none: it could lead to any socket of the host."""
        try:
            return stat.S_ISSOCK(os.stat(run / _NAME, follow_symlinks=False).st_mode)
        except OSError:
            return False

    @classmethod
    async def answers(cls, run: Path) -> bool:
        """Whether it listens."""
        try:
            (await cls.open(run)).close()
        except OSError:
            return False
        return True

    @staticmethod
    async def open(run: Path) -> socket.socket:
        """A connection. Raises `OSError`, also for a name that is no socket."""
        place = os.open(run / _NAME, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not stat.S_ISSOCK(os.fstat(place).st_mode):
                raise OSError(errno.ENOTSOCK, "the agent's socket is something else")
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
            try:
                # To the very thing that was looked at, whatever has the name by now.
                await asyncio.get_running_loop().sock_connect(sock, f"/proc/self/fd/{place}")
            except BaseException:
                sock.close()
                raise
            return sock
        finally:
            os.close(place)

    @classmethod
    async def ask(cls, run: Path, kind: Ask, body: bytes = b"") -> Fields:
        """One request and its answer. Raises `BlockingIOError` when it is busy, `SandboxError` for every other refusal."""
        async with contextlib.aclosing(cls.answers_to(run, encode(kind, body))) as answers:
            async for tell, told in answers:
                if tell is Tell.OK:
                    return Fields(told)
                if tell is Tell.ERROR and Fields(told).integer(Tag.ERRNO, 0) == errno.EBUSY:
                    raise BlockingIOError(errno.EBUSY, "busy")
                raise SandboxError(f"the machine's agent refused: {told[:200]!r}")
        raise SandboxError("the machine's agent closed the connection")

    @classmethod
    async def busy(cls, run: Path) -> bool:
        """Whether a command runs that was not started to run by itself."""
        with contextlib.suppress(OSError, SandboxError, ProtocolViolation):
            async with contextlib.aclosing(cls.answers_to(run, encode(Ask.LIST))) as answers:
                async for tell, told in answers:
                    if tell is not Tell.PROCESS:
                        return False
                    if Fields(told).text(Tag.STATE, "") == "running" and not Fields(told).integer(Tag.DETACH, 0):
                        return True
        return False

    @classmethod
    async def answers_to(cls, run: Path, request: bytes) -> AsyncGenerator[tuple[Tell, bytes], None]:
        """Every frame that comes for a request, until whoever reads them has enough."""
        loop, reader = asyncio.get_running_loop(), FrameReader()
        sock = await cls.open(run)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await loop.sock_sendall(sock, request)
                for _ in range(_MOST_FRAMES):
                    while (frame := reader.next()) is None:
                        data = await loop.sock_recv(sock, 65536)
                        if not data:
                            return
                        reader.feed(data)
                    yield frame
        except TimeoutError:
            raise SandboxError("the machine's agent does not answer") from None
        finally:
            sock.close()


async def say(run: Path, argv: Sequence[str]) -> None:
    """Run a command as root, to its end. Raises `SandboxError` when it fails."""
    request = ExecRequest(argv=tuple(argv), user="0", cwd="/", timeout_ms=10_000)
    async with contextlib.aclosing(AgentLine.answers_to(run, request.encode())) as answers:
        said = bytearray()
        async for tell, told in answers:
            if tell is Tell.OUTPUT:
                said += told[9:]
            elif tell is Tell.EXIT:
                if Fields(told).integer(Tag.EXIT_CODE, 0):
                    break
                return
    raise SandboxError(f"the machine could not be made ready: {bytes(said[-300:])!r}")
