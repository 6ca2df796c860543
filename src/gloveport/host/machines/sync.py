"""`Sandbox`: a machine for blocking code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from ...machines.box import Box
from ...machines.copies import remove_snapshot, save_image
from ...machines.copies import snapshot as take_snapshot
from ...machines.driver import Capabilities
from ...machines.estate import Woken, estate
from . import base
from .base import Requirement
from .bases import ImageSource
from .commands import Commands
from .files import Files
from .info import SandboxInfo, SandboxStatus, Snapshot, info_of, snapshot_of
from .network import Network
from .options import UNSET, Unset, refuse_remote
from .progress import OnProgress

if TYPE_CHECKING:
    from ...egress.gateway.boxes.journal import NetworkLogRow
    from .network_control import PreviewPort, Verdict
    from .network_secrets import NetworkSecret
    from .pool import SandboxPool

__all__ = ("Sandbox", "create_options")


class Sandbox:
    """An isolated Linux machine with a shell and files, on this host, without a daemon.

    It lives until it is killed, and not only as long as this process: `id` is all that one has to keep, `Sandbox.connect(id)` finds it
    again. Any thread may use it, and several processes at a time. `with Sandbox.create() as sandbox` kills it at the end.
    """

    def __init__(self, box: Box, *, found: Woken | None = None) -> None:
        self._box = box
        self.found = found
        """How `connect` found it: `running`, `resumed`, or `restarted`: from its files, and what was in memory is lost."""
        self.commands = Commands(box)
        self.files = Files(box)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    # ── making and finding ───────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def create(
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
        """A new machine.

        Times are seconds. `timeout_seconds`: active time after which it is paused (default 3600, `None`: never). `idle_seconds`: time
        without a call and without a running command after which it is paused. `auto_delete_seconds`: time that it may be paused or
        stopped before it is deleted with its files (0: at once; `None`: never). `auto_resume=False`: a paused machine refuses calls
        instead of waking. `user`: who commands and file calls are by default (`"root"`: the machine's own root). Limits: `memory_mb`
        (MiB, default 1024), `pids` (512), `cpus` (none), `disk_mb` (4096), `open_files` (4096); `None` is no limit.

        `image`: `"host"` (default: this host's programs, read-only, and nothing else of it), `"debian"` (made at the first use, which
        takes minutes), or the path of an archive: a root file system, an OCI
        image or what `docker save` writes. `from_template` and `from_snapshot` begin with another machine's files.

        `network`: `None` (none at all, and none later), `"internet"` (every public host), or what may be reached: a list of rules
        (`"pypi.org"`, `"*.github.com:443"`), `NetworkRules`, `NetworkConfig`; `[]` is nothing until `update(network=…)`. `secrets`: by
        names of variables, values that the machine never has: its requests to their hosts get them outside of it.

        `on_progress` is called with a few words while an image is made or read, from the thread that does it.

        `require` names capabilities without which nothing is started (`{"limits.memory": "total"}`, `"freezer"`): `CapabilityError`.
        """
        return cls(base.create(**create_options(dict(locals()))))

    @classmethod
    def connect(cls, sandbox_id: str, *, base_url: str | None = None, api_key: str | None = None) -> Self:
        """The machine with this id, awake: a paused one is resumed, a pause that is under way is waited for, one whose processes died
        is started from its files (`found == "restarted"`). Raises `SandboxNotFoundError`."""
        refuse_remote(base_url, api_key)
        box, found = base.attach(sandbox_id)
        return cls(box, found=found)

    @classmethod
    def list(
        cls,
        *,
        metadata: Mapping[str, str] | None = None,
        status: SandboxStatus | Sequence[SandboxStatus] | None = None,
        owner: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[SandboxInfo]:
        """The machines of this user, the oldest first: those that have all of `metadata`, and one of `status`."""
        return base.find(metadata=metadata, status=status, owner=owner, limit=limit, offset=offset)

    @classmethod
    def pool(cls, size: int, **options: Any) -> SandboxPool:
        """A context manager of `size` machines that are ready before they are asked for. `options` are those of `create`."""
        from .pool import SandboxPool

        return SandboxPool(size, options)

    @classmethod
    def kill_by_id(cls, sandbox_id: str) -> bool:
        """Delete a machine with its files. Gives whether there was one: to delete it again is no error."""
        return base.kill(sandbox_id)

    @classmethod
    def update_by_id(cls, sandbox_id: str, **changes: Any) -> None:
        """As `update`, without a handle. It does not wake."""
        base.update(estate(), sandbox_id, **changes)

    @classmethod
    def list_snapshots(cls) -> list[Snapshot]:
        """All snapshots of this user, the oldest first; those of machines that were deleted, too."""
        return [snapshot_of(record, estate().root) for record in estate().registry.snapshots()]

    @classmethod
    def delete_snapshot(cls, snapshot: str | Snapshot) -> bool:
        """Forget a snapshot, by its id or name. Machines that were made of it stay. Gives whether there was one."""
        wanted = snapshot.id if isinstance(snapshot, Snapshot) else snapshot
        return remove_snapshot(estate(), wanted)

    @classmethod
    def capabilities(cls, driver: str | None = None) -> Capabilities:
        """What machines have on this host, measured once after each start of it."""
        return base.capabilities(estate(), driver)

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
        """How it is now. Raises `SandboxNotFoundError` when it was deleted."""
        return self.get_info().status

    def get_info(self) -> SandboxInfo:
        """What it was asked to be, and how it is now."""
        record = self._box.estate.record(self.id)
        return info_of(record, self._box.estate.seen(record))

    def usage(self) -> dict[str, int]:
        """What it uses now: `memory_bytes`, `processes`, `disk_bytes`, as far as the host can tell."""
        return base.usage(self._box)

    def kill(self) -> bool:
        """Delete it with its files. Gives whether it was there: to delete it again is no error."""
        killed = base.kill(self.id)
        self._box.end("killed")
        return killed

    def pause(self, *, wait: bool = True, timeout: float = 60.0) -> None:
        """Stop all of it; files and memory are kept. It is done when this returns, so that `wait` changes nothing: it takes
        milliseconds. Raises `ConflictError` when another process changes it for longer than `timeout` seconds."""
        del wait
        base.pause_now(self._box, timeout)

    def resume(self, *, timeout: float = 60.0) -> None:
        """Let it go on. A machine whose processes died is started from its files (`found == "restarted"`)."""
        _, self.found = self._box.estate.wake(self.id, timeout=timeout)

    def update(
        self,
        *,
        metadata: Mapping[str, str] | Unset | None = UNSET,
        timeout_seconds: float | Unset | None = UNSET,
        idle_seconds: float | Unset | None = UNSET,
        auto_delete_seconds: float | Unset | None = UNSET,
        auto_resume: bool | Unset = UNSET,
        network: Network | Unset = UNSET,
    ) -> None:
        """Change settings. `None` clears one, what is not given stays. A new `timeout_seconds` counts from now. Other rules of the
        network hold at once, also for connections that are open. It does not wake."""
        changes = dict(locals())
        changes.pop("self")
        self._box.record = base.update(self._box.estate, self.id, **changes)

    # ── network ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def get_network_log(
        self,
        limit: int = 100,
        *,
        before: float | str | None = None,
        since: float | None = None,
        verdict: Verdict | None = None,
    ) -> list[NetworkLogRow]:
        """What was connected to and asked for, and what was refused and why, newest first: see `SandboxNetwork.log`."""
        return base.network_of(self._box).log(limit, before=before, since=since, verdict=verdict)

    def preview(self, port: int, *, host_port: int | None = None, private: bool = False) -> PreviewPort:
        """Make a port of the machine one of 127.0.0.1 here, until it is closed or the machine ends; also without a network.

        `private` wants a token from whoever connects by HTTP: it is in `PreviewPort.url`. Raises `EngineUnavailableError` when
        `host_port` is somebody else's.
        """
        return base.preview(self._box, port, host_port, private)

    def close_preview(self, port: int) -> None:
        """Take it away, with its connections. No error when there is none."""
        base.network_of(self._box).close_preview(port)

    def previews(self) -> list[PreviewPort]:
        """The ports that lead into it."""
        return list(base.network_of(self._box).previews)

    # ── copies ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def snapshot(self, name: str | None = None) -> Snapshot:
        """A frozen copy of its files, for `create(from_snapshot=…)`. Memory is not in it."""
        return snapshot_of(take_snapshot(self._box.estate, self.id, name), self._box.estate.root)

    def save_template(self, name: str) -> None:
        """Its files as a template, for `create(from_template=name)`. One of that name is replaced; machines made of it stay."""
        save_image(self._box.estate, self.id, name)

    def snapshots(self) -> list[Snapshot]:
        """The snapshots of this machine, the oldest first."""
        return [snapshot_of(record, self._box.estate.root) for record in self._box.estate.registry.snapshots(self.id)]

    def fork(self, n: int = 1, *, memory: bool = False) -> list[Self]:
        """`n` machines with the files that this one has now. It goes on; what is in its memory is not copied: with `memory=True` that is
        a `CapabilityError`, unless its driver can (`Capabilities.fork`)."""
        return [
            type(self)(Box(self._box.estate, record))
            for record in base.fork(self._box.estate, self.id, n, memory=memory)
        ]

    # ── with ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def create_options(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `create` as `base.create` takes them."""
    options = {name: value for name, value in given.items() if name not in ("cls", "__class__")}
    if isinstance(options["from_snapshot"], Snapshot):
        options["from_snapshot"] = options["from_snapshot"].id
    return options
