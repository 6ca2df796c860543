"""An interactive program of a machine at this terminal."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..host.machines.commands import Command
    from ..host.machines.sync import Sandbox

__all__ = ("interact",)

_SHELL = 'if [ -x /bin/bash ]; then exec /bin/bash; else exec "${SHELL:-/bin/sh}"; fi'


def interact(sandbox: Sandbox, command: Sequence[str], user: str | None) -> int:
    """Until it ends. Gives its exit code. Without a terminal, what is piped in is what it reads."""
    size = shutil.get_terminal_size()
    started = sandbox.commands.start(
        list(command) or _SHELL,
        user=user,
        env={"TERM": os.environ.get("TERM", "dumb")} if sys.stdin.isatty() else {},
        pty=(size.lines, size.columns),
    )
    ended, wake = os.pipe()
    codes = list[int]()

    def follow() -> None:
        try:
            codes.append(started.wait(on_data=_show).exit_code)
        finally:
            os.close(wake)

    reader = threading.Thread(target=follow, daemon=True)
    try:
        with _raw(), _resized(started):
            reader.start()  # now: what is typed at its first words must be treated by the terminal in the machine
            _feed(started, ended)
        reader.join()
    finally:
        os.close(ended)
        if not codes:
            started.kill()
    return codes[0] if codes else 1


def _show(piece: tuple[int, bytes]) -> None:
    sys.stdout.buffer.write(piece[1])
    sys.stdout.buffer.flush()


def _feed(started: Command, ended: int) -> None:
    """What is typed goes in, until it has ended."""
    source = sys.stdin.fileno()
    while True:
        ready, _, _ = select.select([source, ended], [], [])
        if ended in ready:
            return
        data = os.read(source, 65536)
        if not data:
            with contextlib.suppress(Exception):
                started.stdin.write(b"\x04")  # the end of input, as a terminal says it
            select.select([ended], [], [])
            return
        if not started.stdin.write(data):
            return


@contextlib.contextmanager
def _raw() -> Generator[None]:
    """Keys as they are pressed: the terminal in the machine treats them."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resized(started: Command) -> Generator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def tell(*_: Any) -> None:
        size = shutil.get_terminal_size()
        with contextlib.suppress(Exception):
            started.resize(size.lines, size.columns)

    before = signal.signal(signal.SIGWINCH, tell)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
