"""The daemon's loop: who connects, which boxes there are, and when it is over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import time
from typing import Final

import msgspec

from ....errors import GloveportError
from ...lookup import Resolver
from .box import Box
from .commands import MAX_DESCRIPTORS, VERSION, Command, Said
from .plans import MAX_PLAN, BoxPlan, box_folder, read_plan

__all__ = ("Daemon", "is_held")

_INT: Final = struct.calcsize("i")
_CREDENTIALS: Final = struct.Struct("3i")
_LOOK: Final = 1.0
"""Seconds between looks at boxes that nobody holds on to."""
_GRACE: Final = 5.0
"""Seconds in which a supervisor that died may be back, before its box's connections end."""
_encode = msgspec.json.Encoder().encode
_decode_plan = msgspec.json.Decoder(BoxPlan).decode
_decode_command = msgspec.json.Decoder(Command).decode


def is_held(folder: str) -> bool:
    """Whether somebody holds the lock of a box's directory: it lives. The lock is not touched, as that could stop a box that starts."""
    try:
        inode = os.lstat(os.path.join(folder, "lock")).st_ino
    except OSError:
        return False
    with open("/proc/locks", encoding="ascii") as file:
        return any(" FLOCK " in line and f":{inode} " in line for line in file)


class Daemon:
    """Serves a listening socket of a directory of state."""

    def __init__(self, root: str, listener: socket.socket, idle: float, resolver: Resolver) -> None:
        self._root, self._listener, self._idle, self._resolver = root, listener, idle, resolver
        self._boxes: dict[str, Box] = {}
        self._left: dict[str, float] = {}
        self._clients: set[socket.socket] = set()
        self._over = asyncio.Event()
        self._used = time.monotonic()

    async def run(self) -> None:
        """Until no box has needed it for the idle time, or `SIGTERM`."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._over.set)
        loop.add_reader(self._listener, self._accept)
        self._resume()
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), min(_LOOK, self._idle))
            self._look()
        loop.remove_reader(self._listener)
        self._listener.close()
        for box in self._boxes.values():
            box.close()

    def _resume(self) -> None:
        """What an earlier gateway served without a supervisor that would ask for it again."""
        try:
            names = os.listdir(os.path.join(self._root, "boxes"))
        except OSError:
            return
        for name in names:
            with contextlib.suppress(ValueError, OSError):
                folder = box_folder(self._root, name)
                plan = read_plan(folder)
                if plan is not None and (plan.previews or plan.proxy) and is_held(folder):
                    self._box(plan).load(plan)

    def _look(self) -> None:
        now = time.monotonic()
        for box in list(self._boxes.values()):
            if box.channel is not None or is_held(box.folder):
                self._left.pop(box.id, None)
                if box.wanted:
                    self._used = now
            elif now - self._left.setdefault(box.id, now) >= _GRACE:
                self._forget(box)
        if self._clients:
            self._used = now
        if now - self._used >= self._idle:
            self._over.set()

    def _forget(self, box: Box) -> None:
        self._left.pop(box.id, None)
        self._boxes.pop(box.id, None)
        box.close()

    def _box(self, plan: BoxPlan) -> Box:
        box = self._boxes.get(plan.box)
        if box is None:
            box = self._boxes[plan.box] = Box(plan, box_folder(self._root, plan.box), self._resolver)
        return box

    # ── who connects ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setblocking(False)
                peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                if _CREDENTIALS.unpack(peer)[1] not in (os.geteuid(), 0):
                    client.close()
                    continue
                self._clients.add(client)
                asyncio.get_running_loop().add_reader(client, self._hear, client)

    def _hear(self, client: socket.socket) -> None:
        try:
            room = socket.CMSG_LEN(MAX_DESCRIPTORS * _INT)
            packet, ancillary, _, _ = client.recvmsg(MAX_PLAN, room, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            packet, ancillary = b"", []
        fds: list[int] = []
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds += struct.unpack(f"{len(content) // _INT}i", content[: len(content) // _INT * _INT])
        if not packet and not fds:
            asyncio.get_running_loop().remove_reader(client)
            self._clients.discard(client)
            client.close()
        elif fds:
            self._attach(packet, fds)
        else:
            said = self._answer(packet)
            with contextlib.suppress(OSError):
                client.send(_encode(said))

    # ── supervisors ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _attach(self, packet: bytes, fds: list[int]) -> None:
        channel = socket.socket(fileno=fds.pop(0))
        channel.setblocking(False)
        try:
            plan = _decode_plan(packet)
            # The file is newer than what the supervisor read, if they differ.
            plan = read_plan(box_folder(self._root, plan.box)) or plan
            box = self._box(plan)
            if box.channel is not None:
                self._hang_up(box.channel)
            given, fds = fds, []
            try:
                box.attach(channel, plan, given)
                errors = box.load(plan)
            except BaseException:
                box.detach()  # its channel is closed, and the next supervisor's must find none
                raise
        except Exception as error:  # of one box; the others go on
            for fd in fds:
                os.close(fd)
            with contextlib.suppress(OSError):
                channel.send(_encode(Said(error=f"{type(error).__name__}: {error}")))
            channel.close()
            return
        self._used = time.monotonic()
        self._left.pop(box.id, None)
        asyncio.get_running_loop().add_reader(channel, self._channel, channel, box)
        with contextlib.suppress(OSError):
            channel.send(_encode(Said(pid=os.getpid(), known=True, error="; ".join(errors))))

    def _channel(self, channel: socket.socket, box: Box) -> None:
        try:
            packet = channel.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if packet and b'"close"' not in packet:
            return
        self._hang_up(channel)
        if box.channel is channel:
            box.detach()
            if packet:
                self._forget(box)

    @staticmethod
    def _hang_up(channel: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(channel)
        channel.close()

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _answer(self, packet: bytes) -> Said:
        try:
            return self._done(_decode_command(packet))
        except (GloveportError, ValueError, OSError) as error:
            return Said(error=f"{type(error).__name__}: {error}", pid=os.getpid())

    def _done(self, command: Command) -> Said:
        said = Said(version=VERSION, pid=os.getpid())
        if command.do == "status":
            said.boxes = sorted(self._boxes)
            return said
        if command.do == "end":
            self._over.set()
            return said
        folder = box_folder(self._root, command.box)
        box = self._boxes.get(command.box)
        if command.do == "load":
            plan = read_plan(folder)
            if plan is None:
                raise ValueError(f"the sandbox {command.box} has no plan of its network")
            if box is None and not (plan.previews or plan.proxy):
                return said  # its supervisor will bring the plan as it is then
            box = self._box(plan)
            said.error = "; ".join(box.load(plan))
            self._used = time.monotonic()
        if box is None:
            return said
        said.known = True
        if command.do == "why":
            said.why = box.policy.why(command.host, command.port) or ""
        elif command.do == "decisions":
            said.count, decisions = box.policy.decisions(command.since)
            said.decisions = list(decisions)
        elif command.do == "close":
            if box.channel is not None:
                self._hang_up(box.channel)
            self._forget(box)
        return said
