"""Machines that are ready before they are asked for."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import secrets
import threading
from collections.abc import Mapping
from typing import Any, Generic, Self, TypeVar

import anyio
from anyio.to_thread import run_sync

from ...errors import SandboxError, ValidationError
from ...machines.box import Box
from ...machines.estate import estate
from ...machines.locks import hold
from . import base
from .options import UNSET, Unset, checked_changes, checked_env, checked_metadata, checked_name, record_of
from .sandbox import AsyncSandbox, handed_over
from .sync import Sandbox

__all__ = ("AsyncSandboxPool", "SandboxPool", "WarmBoxes")

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
        record = record_of(self.estate, **{"name": None, **self.options})  # mistakes are found now
        base.required(require, self.estate, record.driver)
        self.id = f"pool-{secrets.token_hex(8)}"
        self._held = hold(self.estate.root, f"pool {self.id}")
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._filler: threading.Thread | None = None
        self.closed = False

    def waiting(self) -> int:
        """How many are ready."""
        return len(self.estate.registry.find(pool=self.id))

    def fill(self) -> None:
        """Make what is missing, one after the other."""
        while not self.closed and self._owner == os.getpid() and self.waiting() < self.size:
            record = record_of(self.estate, **{"name": None, **self.options})
            self.estate.create(dataclasses.replace(record, pool=self.id))

    def refill(self) -> None:
        """The same in a thread, which ends when it is done."""
        with self._lock:
            if self.closed or self._owner != os.getpid() or (self._filler and self._filler.is_alive()):
                return
            self._filler = threading.Thread(target=self._quiet_fill, name="gloveport-pool", daemon=True)
            self._filler.start()

    def _quiet_fill(self) -> None:
        with contextlib.suppress(SandboxError, OSError):  # whoever takes one when there is none is told
            self.fill()

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
        given = {"name": name or self.options.get("name"), **self.options}
        fresh = record_of(self.estate, **{**given, "name": checked_name(name or self.options.get("name"))})
        options = {**fresh.options, "env": {**fresh.options["env"], **checked_env("env_vars", env_vars)}}
        wanted = {
            "name": fresh.name,
            "metadata": {**fresh.metadata, **checked_metadata(metadata)},
            "options": options,
            "created": fresh.created,
            "timeout": fresh.timeout,
            **checked_changes(timeout_seconds=timeout_seconds, **changes),
        }
        record = self.estate.claim(self.id, **wanted)
        if record is None:
            record = self.estate.create(dataclasses.replace(fresh, **wanted))
        self.refill()
        return Box(self.estate, record)

    def close(self) -> None:
        """Delete those that wait. Those that were taken live on."""
        with self._lock:
            self.closed = True
            filler, self._filler = self._filler, None
        if filler is not None and self._owner == os.getpid():
            filler.join()
        if self._owner == os.getpid():
            for record in self.estate.registry.find(pool=self.id):
                self.estate.kill(record.id, "pool-closed")
        if self._held is not None:
            os.close(self._held)
            self._held = None


class SandboxPool(WarmBoxes[Sandbox]):
    """`Sandbox.pool(size)`: `create()` takes a machine that is ready.

    with Sandbox.pool(4, memory_mb=512) as pool, pool.create("job-1") as sandbox: ...
    """

    def __enter__(self) -> Self:
        self.fill()
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
