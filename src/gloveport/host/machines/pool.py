"""Machines that are ready before they are asked for."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, Generic, Self, TypeVar

import anyio
from anyio.to_thread import run_sync

from ...errors import SandboxError, ValidationError
from ...machines.box import Box
from ...machines.estate import estate
from ...machines.exec import ExecRequest, Follower
from ...machines.locks import hold
from ...machines.registry import Record
from . import base
from .options import UNSET, Unset, checked_changes, checked_env, checked_metadata, checked_name
from .sandbox import AsyncSandbox, handed_over
from .sync import Sandbox

__all__ = ("AsyncSandboxPool", "SandboxPool", "WarmBoxes")

_REFILL_SECONDS: Final = 0.02
_WARM: Final = ExecRequest(shell="true", label="warm")  # noqa: S604 (in the machine)
Handle = TypeVar("Handle", Sandbox, AsyncSandbox)


class WarmBoxes(Generic[Handle]):
    """Up to `size` waiting machines. When this process dies, they are deleted by the next one that uses machines."""

    def __init__(self, size: int, options: Mapping[str, Any]) -> None:
        if isinstance(size, bool) or not 1 <= size <= 1000:
            raise ValidationError(f"`size` must be between 1 and 1000, not {size!r}")
        self.size, self.options = size, dict(options)
        self.estate = estate()
        require = self.options.pop("require", None)
        base.refuse_remote(self.options.pop("base_url", None), self.options.pop("api_key", None))
        self.options.setdefault("name", None)
        self._draft = base.Draft(self.estate, **self.options)  # mistakes are found now
        base.required(require, self.estate, self._draft.record.driver)
        self.id = f"pool-{secrets.token_hex(8)}"
        self._held = hold(self.estate.root, f"pool {self.id}")
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._wanted = threading.Event()
        self._filler: threading.Thread | None = None
        self._ready: collections.deque[Box] = collections.deque()
        self._taken: collections.deque[Record] = collections.deque()
        """Whose clocks have to begin anew: a moment later, too. Until then those run that began when it was made."""
        self.closed = False

    def waiting(self) -> int:
        """How many are ready."""
        return len(self._ready)

    def fill(self) -> None:
        """Make what is missing, one after the other."""
        while not self.closed and self._owner == os.getpid() and len(self._ready) < self.size:
            box = self._draft.create(pool=self.id)
            if self.closed:  # in the meantime, by another thread, which did not see this one
                box.channel.drop()
                self.estate.kill(box.id, "pool-closed")
                return
            box.channel.run(
                lambda: Follower(limit=4096).run(_WARM)
            )  # its programs are in memory, and a connection is open
            self._ready.append(box)

    def refill(self) -> None:
        """The same in a thread. A moment later, so that it is not in the way of who has just taken one."""
        if self.closed or self._owner != os.getpid():
            return
        if self._filler is None:
            with self._lock:
                if self._filler is None and not self.closed:
                    self._filler = threading.Thread(target=self._keep_full, name="gloveport-pool", daemon=True)
                    self._filler.start()
        self._wanted.set()

    def _keep_full(self) -> None:
        while not self.closed:
            self._wanted.wait()
            self._wanted.clear()
            closing = self._closing.wait(_REFILL_SECONDS)
            self._rearm()
            if closing:
                return
            with contextlib.suppress(SandboxError, OSError):  # whoever takes one when there is none is told
                self.fill()

    def _rearm(self) -> None:
        while self._taken:
            with contextlib.suppress(SandboxError, OSError):  # of one machine, which another process is changing
                self.estate.rearm(self._taken.popleft())

    def take(
        self,
        name: str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        env_vars: Mapping[str, str] | None = None,
        timeout_seconds: float | Unset | None = UNSET,
        **changes: Any,
    ) -> Box:
        """One of them, or a new one when none is ready."""
        if self.closed:
            raise SandboxError("the pool of machines is closed")
        fresh = self._draft.record
        env = checked_env("env_vars", env_vars)
        wanted: dict[str, Any] = {
            "name": fresh.name if name is None else checked_name(name),
            "metadata": {**fresh.metadata, **checked_metadata(metadata)},
            "created": time.time(),
            "timeout": fresh.timeout,
            "idle": fresh.idle,
            **checked_changes(timeout_seconds=timeout_seconds, **changes),
        }
        box = self._claim(wanted, env) or self._draft.create(**wanted, options=_with(fresh.options, env))
        self.refill()
        return box

    def _claim(self, wanted: dict[str, Any], env: dict[str, str]) -> Box | None:
        while self._ready and self._owner == os.getpid():
            try:
                box = self._ready.popleft()
            except IndexError:
                return None
            record = self.estate.claim(
                box.record, alive=box.channel.ready(), options=_with(box.record.options, env), **wanted
            )
            if record is not None:
                box.record = record
                self._taken.append(record)
                return box
        return None

    def close(self) -> None:
        """Delete those that wait. Those that were taken live on."""
        with self._lock:
            self.closed = True
            self._closing.set()
            self._wanted.set()
            filler, self._filler = self._filler, None
        if filler is not None and self._owner == os.getpid():
            filler.join()
        if self._owner == os.getpid():
            self._rearm()  # of what was taken while the filler was busy
            while self._ready:
                self._ready.pop().channel.drop()
            for record in self.estate.registry.find(pool=self.id):
                self.estate.kill(record.id, "pool-closed")
        if self._held is not None:
            os.close(self._held)
            self._held = None


def _with(options: Mapping[str, Any], env: dict[str, str]) -> Mapping[str, Any]:
    return {**options, "env": {**options["env"], **env}}


class SandboxPool(WarmBoxes[Sandbox]):
    """`Sandbox.pool(size)`: `create()` takes a machine that is ready.

    with Sandbox.pool(4, memory_mb=512) as pool, pool.create("job-1") as sandbox: ...
    """

    def __enter__(self) -> Self:
        try:
            self.fill()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self, name: str | None = None, **options: Any) -> Sandbox:
        """One that is ready, or a new one when none is. `options`: `metadata`, `env_vars`, and what `Sandbox.update` takes."""
        return Sandbox(self.take(name, **options))


class AsyncSandboxPool(WarmBoxes[AsyncSandbox]):
    """`AsyncSandbox.pool(size)`."""

    async def __aenter__(self) -> Self:
        try:
            await run_sync(self.fill)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await run_sync(self.close)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await run_sync(self.close)

    async def create(self, name: str | None = None, **options: Any) -> AsyncSandbox:
        """One that is ready, or a new one when none is."""
        take = functools.partial(self.take, name, **options)
        return AsyncSandbox(await handed_over(take, lambda box: base.kill(box.id)))
