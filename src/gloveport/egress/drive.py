"""Two ways to give a request what it asks for: blocking sockets, and asyncio. Both under one deadline."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import GloveportError, HttpFetchError, HttpFetchTimeout
from .dialing import AsyncStream, BlockingStream, dial, dial_async
from .exchange import Dial, Receive, Resolve, Send, Steps
from .lookup import Lookups

__all__ = ("drive", "drive_async")

T = TypeVar("T")
_LATE = "the request was not done within {:g} s"
_BROKEN = "the connection broke"


def drive(steps: Steps[T], lookups: Lookups, context: Callable[[], ssl.SSLContext], timeout: float) -> T:
    """Run a request to its end on this thread.

    Every operation waits for what is left of `timeout`, and no longer: a server that sends a byte now and then gains nothing.
    """
    deadline = time.monotonic() + timeout
    stream: BlockingStream | None = None
    answer: Any = None
    try:
        while True:
            if time.monotonic() >= deadline:
                raise HttpFetchTimeout(_LATE.format(timeout))
            command = steps.send(answer)
            answer = None
            if isinstance(command, Resolve):
                answer = lookups.blocking(command.host, command.port, deadline)
            elif isinstance(command, Dial):
                if stream is not None:
                    stream.close()
                stream = dial(command.vetted, deadline, context() if command.tls else None)
            else:
                assert stream is not None
                answer = stream.send(command.data) if isinstance(command, Send) else stream.receive()
    except StopIteration as stop:
        return stop.value
    except HttpFetchError:
        raise
    except TimeoutError:
        raise HttpFetchTimeout(_LATE.format(timeout)) from None
    except OSError as error:
        raise _broken(error) from None
    finally:
        steps.close()
        if stream is not None:
            stream.close()


async def drive_async(steps: Steps[T], lookups: Lookups, context: Callable[[], ssl.SSLContext], timeout: float) -> T:
    """The same on asyncio."""
    clock = asyncio.timeout(timeout)
    try:
        async with clock:
            return await _driven(steps, lookups, context, time.monotonic() + timeout)
    except HttpFetchError:
        raise
    except TimeoutError:
        raise HttpFetchTimeout(_LATE.format(timeout)) from None
    except OSError as error:
        raise _broken(error) from None


async def _driven(steps: Steps[T], lookups: Lookups, context: Callable[[], ssl.SSLContext], deadline: float) -> T:
    stream: AsyncStream | None = None
    answer: Any = None
    try:
        while True:
            if time.monotonic() >= deadline:  # `asyncio.timeout` sees nothing of a loop that never waits
                raise TimeoutError
            command = steps.send(answer)
            answer = None
            if isinstance(command, Resolve):
                answer = await lookups.awaited(command.host, command.port)
            elif isinstance(command, Dial):
                if stream is not None:
                    await stream.close()
                stream = await dial_async(command.vetted, deadline, context() if command.tls else None)
            elif isinstance(command, Receive):
                assert stream is not None
                answer = await stream.receive()
            else:
                assert stream is not None
                await stream.send(command.data)
    except StopIteration as stop:
        return stop.value
    finally:
        steps.close()
        if stream is not None:
            await stream.close()


def _broken(error: OSError) -> OSError:
    """What the network said, without its words; what is an error of ours stays."""
    return error if isinstance(error, GloveportError) else HttpFetchError(_BROKEN)
