"""A machine's way to the gateway: the folder of its proxy's socket, and that there is a gateway behind it.

The folder `net` is shown to the machine read-only. The gateway makes the socket in it, and nobody but the host's side can remove, rename
or replace it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final

from .children import adopt_orphans

__all__ = ("FOLDER", "PORT", "SOCKET", "Attached", "Starter", "proxy_environment")

FOLDER: Final = "net"
SOCKET: Final = "proxy.sock"
PORT: Final = 3128
"""Of the machine's loopback: what proxies are usually found at (squid's)."""
_PLAN: Final = "network.json"
_MOST_PLAN: Final = 192 * 1024
_CLOSE: Final = b'{"do":"close"}'
_SOON: Final = 0.02
_LATER: Final = 1.0
_SOON_TRIES: Final = 100
_START_SECONDS: Final = 15.0
_START: Final = 'while read -r _; do "$@" </dev/null >/dev/null 2>&1; echo $?; done'
_NOT_BY_PROXY: Final = "localhost,127.0.0.1,::1"


def proxy_environment() -> dict[str, str]:
    """Where programs look for a proxy: curl (7.88) reads only `http_proxy` in small letters, others only the large ones."""
    url = f"http://127.0.0.1:{PORT}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return {
        **dict.fromkeys(names, url),
        "NO_PROXY": _NOT_BY_PROXY,
        "no_proxy": _NOT_BY_PROXY,
        "NODE_USE_ENV_PROXY": "1",  # Node 24 reads the others only then
    }


class Starter:
    """A small process, made before the keeper enters namespaces of its own: what it starts is as if the user had started it."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _START, "sh", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath},
            # A gateway leaves its parent: it is all machines', and must not become the keeper's, which would end it with its own.
            preexec_fn=adopt_orphans,  # noqa: PLW1509 (there are no threads yet)
        )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def start(self) -> bool:
        """Start a gateway, or find that one is there. Gives whether it went well."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
            return self._process.stdout.readline() == b"0\n"
        except OSError:
            return False

    def close(self) -> None:
        """End it."""
        self._process.communicate()


class Attached:
    """Keeps a machine attached to its user's gateway, and starts that when it is missing."""

    def __init__(self, folder: Path, gateway: str, starter: Starter) -> None:
        self._folder, self._gateway, self._starter = folder, gateway, starter
        self._channel: socket.socket | None = None

    def make_place(self) -> None:
        """The folder, with a socket: a machine that was written down with one open finds it again."""
        folder = self._folder / FOLDER
        folder.mkdir(mode=0o755, exist_ok=True)
        try:
            if stat.S_ISSOCK((folder / SOCKET).lstat().st_mode):
                return
        except FileNotFoundError:
            pass
        # An error: the gateway was faster.
        with _opened(folder) as directory, socket.socket(socket.AF_UNIX) as nobody, contextlib.suppress(OSError):
            nobody.bind(f"/proc/self/fd/{directory}/{SOCKET}")

    @property
    def starters(self) -> tuple[int, ...]:
        """Processes that are no machine's."""
        return (self._starter.pid,)

    async def run(self) -> None:
        """Until it is cancelled."""
        tries, loop = 0, asyncio.get_running_loop()
        while True:
            try:
                channel = self._channel = await asyncio.to_thread(self._attach)
            except (OSError, ValueError) as error:
                if not tries:
                    print(f"gateway: {error}", file=sys.stderr)
                started = await self._start()
                tries += 1
                await asyncio.sleep(_SOON if started and tries < _SOON_TRIES else _LATER)
                continue
            tries = 0
            with channel, contextlib.suppress(OSError):
                while await loop.sock_recv(channel, 4096):
                    pass  # how it went: the gateway keeps its own log
            self._channel = None
            await asyncio.sleep(_SOON)

    def close(self) -> None:
        """The machine has ended."""
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.send(_CLOSE)
            self._channel.close()
        self._starter.close()

    def _attach(self) -> socket.socket:
        """Bring it the plan as it is now, and one end of a channel that hangs up when it dies."""
        plan = (self._folder / _PLAN).read_bytes()
        if len(plan) > _MOST_PLAN:
            raise ValueError("the plan of the network is too long")
        path = Path(self._gateway)
        with _opened(path.parent) as directory, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(_START_SECONDS)
            client.connect(f"/proc/self/fd/{directory}/{path.name}")
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                try:
                    socket.send_fds(client, [plan], [theirs.fileno()])
                except BaseException:
                    ours.close()
                    raise
        ours.setblocking(False)
        return ours

    async def _start(self) -> bool:
        """Of all machines that miss it one starts it: the others would only keep the processors busy."""
        turn = os.open(f"{self._gateway}.starting", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return await asyncio.to_thread(self._starter.start)
        finally:
            os.close(turn)


@contextlib.contextmanager
def _opened(folder: Path) -> Generator[int]:
    """By its descriptor: an address has at most 107 bytes."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
