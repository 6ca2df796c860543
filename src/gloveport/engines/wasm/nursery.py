"""The host's end of one zygote: starting it, judging what it reports about its jail, and receiving workers."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import threading
import time
from typing import Any, Final

from gloveport.engines.jail import descriptors
from gloveport.engines.jail.child import HelperProcess
from gloveport.engines.jail.verdict import Sandbox, judge
from gloveport.engines.wasm.handle import Worker
from gloveport.errors import EngineUnavailableError

__all__ = ("Nursery", "NurseryGone", "Sandbox")

_START_TIMEOUT: Final = 60.0
"""Seconds; the first start on a machine compiles the guest."""


class NurseryGone(Exception):
    """The zygote ended; its text says why when it is known."""


class Nursery:
    """One zygote and the workers that wait in its socket.

    Raises `SandboxUnavailableError` when a layer of the jail is missing, or does not hold, under `sandbox="require"`,
    `EngineUnavailableError` when the zygote does not start.
    """

    def __init__(self, sandbox: Sandbox, spares: int, guests: str) -> None:
        self.lock = threading.Lock()
        self.waiting = 0
        """How many threads wait for a worker; guarded by `lock`."""
        self.closed = False
        self._pidfd = -1
        self.process = HelperProcess("gloveport.engines.wasm.zygote", [sandbox, str(spares), guests])
        self.control = self.process.control
        try:
            judge(sandbox, "workers", self._greeting())
        except BaseException:
            self.close()
            raise

    def _greeting(self) -> dict[str, Any]:
        self.control.settimeout(_START_TIMEOUT)
        try:
            packet, fds = descriptors.receive(self.control, 65536, 1)
        except OSError:
            packet, fds = b"", []
        finally:
            self.control.setblocking(True)
        if not packet.startswith(b"H") or len(fds) != 1:
            self.process.poll()
            said = self.process.said()
            raise EngineUnavailableError(f"the worker process did not start: {said or 'it said nothing'}")
        self._pidfd = fds[0]
        return json.loads(packet[1:])

    def try_take(self) -> Worker | None:
        """A worker that is ready now, else `None`. Never blocks. Raises `NurseryGone`."""
        with self.lock:
            return self._try_take()

    def _try_take(self) -> Worker | None:
        if self.closed:
            raise NurseryGone("it was closed")
        try:
            packet, fds = self._receive()
        except BlockingIOError:
            return None
        except descriptors.NoRoom as error:  # it has ended by that
            self._say(b"+")
            raise OSError(error.errno, "too many open files: the descriptors of a worker did not fit") from error
        if packet != b"W":
            raise NurseryGone(packet[1:].decode(errors="replace") if packet else "it ended")
        self._say(b"+!" if self.waiting > 1 else b"+")
        if len(fds) != 3:
            for fd in fds:
                os.close(fd)
            raise NurseryGone("it gave no worker")
        channel, pidfd, page = fds
        worker = Worker(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=channel), pidfd, page)
        if worker.alive:
            return worker
        worker.close()  # killed while it waited: by the kernel, when memory was short
        return self._try_take()

    def _receive(self) -> tuple[bytes, list[int]]:
        for _ in range(2):
            try:
                return descriptors.receive(self.control, 4096, 3, socket.MSG_DONTWAIT)
            except ConnectionError:
                # It ended before it read all of our words. That is told once, and before its last words.
                continue
        return b"", []

    def take(self, deadline: float) -> Worker | None:
        """Waits for a worker until `deadline` (monotonic seconds); `None` when there was none. Raises `NurseryGone`."""
        with self.lock:
            worker = self._try_take()
            if worker is not None:
                return worker
            self.waiting += 1
            self._say(b"!")
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        try:
            while True:
                poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
                worker = self.try_take()
                if worker is not None or time.monotonic() >= deadline:
                    return worker
        finally:
            with self.lock:
                self.waiting -= 1
                if self.closed and not self.waiting:
                    self.control.close()

    def send_group(self, channel: socket.socket) -> None:
        """Has a worker for many sessions made at the other end of `channel`. Raises `NurseryGone`."""
        with self.lock:
            if self.closed:
                raise NurseryGone("it was closed")
            try:
                descriptors.send(self.control, b"G", (channel.fileno(),))
            except OSError as error:
                raise NurseryGone(str(error)) from error

    def _say(self, words: bytes) -> None:
        try:
            self.control.send(words)
        except OSError:
            pass  # it ended: the next read says so

    def close(self) -> None:
        """Ends the zygote and all of its workers. Idempotent."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            if self._pidfd >= 0:
                try:
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                os.close(self._pidfd)
                self._pidfd = -1
            try:
                self.control.shutdown(socket.SHUT_RDWR)  # wakes the threads that wait
            except OSError:
                pass
            if not self.waiting:
                self.control.close()
        self.process.reap()

    def forget(self) -> None:
        """In a forked copy of the host: closes what was inherited, and says nothing to the zygote, which is not its own."""
        self.lock = threading.Lock()
        if self.closed:
            return
        self.closed = True
        self.control.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
        self.process.forget()
