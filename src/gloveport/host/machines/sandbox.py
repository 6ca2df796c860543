"""`AsyncSandbox`: a machine for asyncio and trio."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio
from anyio.to_thread import run_sync

from ...machines.box import Box
from ...machines.copies import remove_snapshot, save_image
from ...machines.copies import snapshot as take_snapshot
from ...machines.driver import Capabilities
from ...machines.estate import Woken, estate
from . import base
from .async_commands import AsyncCommands
from .async_files import AsyncFiles
from .base import Requirement
from .bases import ImageSource
from .info import SandboxInfo, SandboxStatus, Snapshot, info_of, snapshot_of
from .network import Network
from .options import UNSET, Unset, refuse_remote
from .progress import OnProgress
from .sync import create_options

if TYPE_CHECKING:
    from ...egress.gateway.boxes.journal import NetworkLogRow
    from .network_control import PreviewPort, Verdict
    from .network_secrets import NetworkSecret
    from .pool import AsyncSandboxPool

__all__ = ("AsyncSandbox", "handed_over")

T = TypeVar("T")


async def handed_over(make: Callable[[], T], undo: Callable[[T], Any]) -> T:
    """What a function makes in a thread; if the caller is cancelled meanwhile, the thread goes on and undoes it.

    Whoever is cancelled cannot be given what was made, and nobody else knows of it.
    """
    lock = threading.Lock()
    made = list[T]()
    cancelled = False

    def work() -> None:
        result = make()
        with lock:
            if not cancelled:
                made.append(result)
                return
        undo(result)

    try:
        await run_sync(work)
        await anyio.lowlevel.checkpoint()  # a cancellation that was held back comes here
    except BaseException:
        with lock:
            cancelled = True
        if made:
            with anyio.CancelScope(shield=True):
                await run_sync(undo, made[0])
        raise
    return made[0]


class AsyncSandbox:
    """An isolated Linux machine with a shell and files: what `Sandbox` is, for event loops. See there for what each argument means.

    A handle is bound to no event loop. `async with await AsyncSandbox.create() as sandbox` kills it at the end.
    """

    def __init__(self, box: Box, *, found: Woken | None = None) -> None:
        self._box = box
        self.found = found
        """How `connect` found it: `running`, `resumed`, or `restarted`: from its files, and what was in memory is lost."""
        self.commands = AsyncCommands(box)
        self.files = AsyncFiles(box)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    # ── making and finding ───────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    async def create(
        cls,
        name: str | None = None,
        *,
        timeout_seconds: float | Unset | None = UNSET,
        auto_delete_seconds: float | None = None,
        idle_seconds: float | None = None,
        auto_resume: bool = True,
        metadata: Mapping[str, str] | None = None,
        env_vars: Mapping[str, str] | None = None,
        network: Network = None,
        secrets: Mapping[str, NetworkSecret] | None = None,
        image: ImageSource | None = None,
        from_template: str | None = None,
        from_snapshot: str | Snapshot | None = None,
        user: str | None = None,
        owner: str | None = None,
        memory_mb: int | Unset | None = UNSET,
        pids: int | Unset | None = UNSET,
        cpus: float | Unset | None = UNSET,
        disk_mb: int | Unset | None = UNSET,
        open_files: int | Unset | None = UNSET,
        driver: str | None = None,
        require: Requirement = None,
        base_url: str | None = None,
        api_key: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Self:
        """A new machine. When this is cancelled, there is none."""
        given = dict(locals())
        make = functools.partial(base.create, **create_options(given))
        return cls(await handed_over(make, lambda box: base.kill(box.id)))

    @classmethod
    async def connect(cls, sandbox_id: str, *, base_url: str | None = None, api_key: str | None = None) -> Self:
        """The machine with this id, awake."""
        refuse_remote(base_url, api_key)
        box, found = await run_sync(base.attach, sandbox_id)
        return cls(box, found=found)

    @classmethod
    async def list(
        cls,
        *,
        metadata: Mapping[str, str] | None = None,
        status: SandboxStatus | Sequence[SandboxStatus] | None = None,
        owner: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[SandboxInfo]:
        """The machines of this user, the oldest first."""
        return await run_sync(
            functools.partial(base.find, metadata=metadata, status=status, owner=owner, limit=limit, offset=offset)
        )

    @classmethod
    def pool(cls, size: int, **options: Any) -> AsyncSandboxPool:
        """A context manager of `size` machines that are ready before they are asked for. `options` are those of `create`."""
        from .pool import AsyncSandboxPool

        return AsyncSandboxPool(size, options)

    @classmethod
    async def kill_by_id(cls, sandbox_id: str) -> bool:
        """Delete a machine with its files. Gives whether there was one."""
        return await run_sync(base.kill, sandbox_id)

    @classmethod
    async def update_by_id(cls, sandbox_id: str, **changes: Any) -> None:
        """As `update`, without a handle."""
        await run_sync(lambda: base.update(estate(), sandbox_id, **changes))

    @classmethod
    async def list_snapshots(cls) -> list[Snapshot]:
        """All snapshots of this user, the oldest first; those of machines that were deleted, too."""
        return await run_sync(lambda: [snapshot_of(record, estate().root) for record in estate().registry.snapshots()])

    @classmethod
    async def delete_snapshot(cls, snapshot: str | Snapshot) -> bool:
        """Forget a snapshot, by its id or name. Machines that were made of it stay. Gives whether there was one."""
        wanted = snapshot.id if isinstance(snapshot, Snapshot) else snapshot
        return await run_sync(lambda: remove_snapshot(estate(), wanted))

    @classmethod
    async def capabilities(cls, driver: str | None = None) -> Capabilities:
        """What machines have on this host."""
        return await run_sync(lambda: base.capabilities(estate(), driver))

    # ── itself ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def id(self) -> str:
        """What `connect` takes."""
        return self._box.id

    @property
    def name(self) -> str:
        """What it was called."""
        return self._box.record.name

    @property
    def status(self) -> SandboxStatus:
        """How it is now: a look at two small files. Raises `SandboxNotFoundError` when it was deleted."""
        record = self._box.estate.record(self.id)
        return info_of(record, self._box.estate.seen(record)).status

    async def get_info(self) -> SandboxInfo:
        """What it was asked to be, and how it is now."""

        def look() -> SandboxInfo:
            record = self._box.estate.record(self.id)
            return info_of(record, self._box.estate.seen(record))

        return await run_sync(look)

    async def usage(self) -> dict[str, int]:
        """What it uses now."""
        return await run_sync(base.usage, self._box)

    async def kill(self) -> bool:
        """Delete it with its files. Gives whether it was there. It is done even when this is cancelled."""
        killed = False
        with anyio.CancelScope(shield=True):
            killed = await run_sync(base.kill, self.id)
        self._box.end("killed")
        return killed

    async def pause(self, *, wait: bool = True, timeout: float = 60.0) -> None:
        """Stop all of it; files and memory are kept."""
        del wait
        await run_sync(base.pause_now, self._box, timeout)

    async def resume(self, *, timeout: float = 60.0) -> None:
        """Let it go on."""
        _, self.found = await run_sync(lambda: self._box.estate.wake(self.id, timeout=timeout))

    async def update(
        self,
        *,
        metadata: Mapping[str, str] | Unset | None = UNSET,
        timeout_seconds: float | Unset | None = UNSET,
        idle_seconds: float | Unset | None = UNSET,
        auto_delete_seconds: float | Unset | None = UNSET,
        auto_resume: bool | Unset = UNSET,
        network: Network | Unset = UNSET,
    ) -> None:
        """Change settings. `None` clears one, what is not given stays."""
        changes = dict(locals())
        changes.pop("self")
        self._box.record = await run_sync(lambda: base.update(self._box.estate, self.id, **changes))

    # ── network ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def get_network_log(
        self,
        limit: int = 100,
        *,
        before: float | str | None = None,
        since: float | None = None,
        verdict: Verdict | None = None,
    ) -> list[NetworkLogRow]:
        """What was connected to and asked for, and what was refused and why, newest first: see `SandboxNetwork.log`."""
        return await run_sync(
            lambda: base.network_of(self._box).log(limit, before=before, since=since, verdict=verdict)
        )

    async def preview(self, port: int, *, host_port: int | None = None, private: bool = False) -> PreviewPort:
        """Make a port of the machine one of 127.0.0.1 here, until it is closed or the machine ends; also without a network.

        `private` wants a token from whoever connects by HTTP: it is in `PreviewPort.url`. Raises `EngineUnavailableError` when
        `host_port` is somebody else's.
        """
        return await run_sync(base.preview, self._box, port, host_port, private)

    async def close_preview(self, port: int) -> None:
        """Take it away, with its connections. No error when there is none."""
        await run_sync(lambda: base.network_of(self._box).close_preview(port))

    async def previews(self) -> list[PreviewPort]:
        """The ports that lead into it."""
        return await run_sync(lambda: list(base.network_of(self._box).previews))

    # ── copies ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def snapshot(self, name: str | None = None) -> Snapshot:
        """A frozen copy of its files, for `create(from_snapshot=…)`."""
        return snapshot_of(await run_sync(take_snapshot, self._box.estate, self.id, name), self._box.estate.root)

    async def save_template(self, name: str) -> None:
        """Its files as a template, for `create(from_template=name)`. One of that name is replaced; machines made of it stay."""
        await run_sync(lambda: save_image(self._box.estate, self.id, name))

    async def snapshots(self) -> list[Snapshot]:
        """The snapshots of this machine, the oldest first."""
        records = await run_sync(self._box.estate.registry.snapshots, self.id)
        return [snapshot_of(record, self._box.estate.root) for record in records]

    async def fork(self, n: int = 1, *, memory: bool = False) -> list[Self]:
        """`n` machines with the files that this one has now."""
        records = await handed_over(
            lambda: base.fork(self._box.estate, self.id, n, memory=memory),
            lambda made: [base.kill(record.id) for record in made],
        )
        return [type(self)(Box(self._box.estate, record)) for record in records]

    # ── with ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()
