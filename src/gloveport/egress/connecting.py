"""TCP to addresses that passed, and to no other. Apart from `dialing`: the gateway's memory has no room for TLS that it does not speak."""

from __future__ import annotations

import asyncio
import socket
import time

from ..errors import HttpFetchError, HttpFetchTimeout
from .evaluator import Vetted

__all__ = ("connect_async", "remaining", "tcp_socket", "unreachable")


def remaining(deadline: float) -> float:
    """Seconds until then. Raises `TimeoutError` when it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def tcp_socket(address: str) -> socket.socket:
    """A socket for connections to that address."""
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)


def unreachable(vetted: Vetted, deadline: float) -> HttpFetchError:
    """What to say when none of the addresses answered."""
    if time.monotonic() >= deadline:
        return HttpFetchTimeout(f"{vetted.destination.host} did not accept a connection in time")
    return HttpFetchError(f"cannot connect to {vetted.destination.host}, port {vetted.destination.port}")


async def connect_async(vetted: Vetted, deadline: float) -> socket.socket:
    """A connected socket that does not block, to the first of the addresses that answers.

    Raises `HttpFetchError` if none does, `HttpFetchTimeout` or `TimeoutError` at `deadline` (`time.monotonic`).
    """
    loop = asyncio.get_running_loop()
    for index, address in enumerate(vetted.addresses):
        share = remaining(deadline) / (len(vetted.addresses) - index)
        connection = tcp_socket(address)
        try:
            connection.setblocking(False)
            async with asyncio.timeout(share):
                await loop.sock_connect(connection, (address, vetted.destination.port))
        except OSError:
            connection.close()
            continue
        except BaseException:
            connection.close()
            raise
        return connection
    raise unreachable(vetted, deadline)
