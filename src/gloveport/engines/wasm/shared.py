"""A worker for many sessions of one trust unit: one thread and one instance of the guest for each."""

from __future__ import annotations

import _thread
import os
import socket
from collections.abc import Callable

from gloveport.engines.jail import descriptors
from gloveport.engines.wasm.worker import GuestLike, serve

__all__ = ("serve_group",)


def serve_group(control: socket.socket, make: Callable[[], GuestLike]) -> None:
    """Starts a session for each `[socket, memory file of one page]` that comes over `control`, until that ends."""
    while True:
        try:
            word, fds = descriptors.receive(control, 1, 2)
        except descriptors.NoRoom:
            continue  # that one's socket is closed; the others go on
        if not word or len(fds) != 2:
            return
        _thread.start_new_thread(_session, (make, fds[0], fds[1]))


def _session(make: Callable[[], GuestLike], channel: int, page: int) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=channel) as sock:
        try:
            guest = make()
            guest.share_flag(page)
        except MemoryError:
            return
        finally:
            os.close(page)
        serve(sock, guest)
