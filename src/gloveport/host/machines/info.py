"""What is told about machines."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ...machines.copies import UNCOUNTED
from ...machines.images.layers import tree_bytes
from ...machines.registry import Record, SnapshotRecord
from ...machines.state import Seen

__all__ = ("SandboxInfo", "SandboxStatus", "Snapshot", "info_of", "snapshot_of")

SandboxStatus = Literal["active", "paused", "stopped"]
"""`stopped`: its processes are gone, by a crash or a restart of the host; `Sandbox.connect(id)` starts it again from its files."""
_STATUS: Mapping[str, SandboxStatus] = {
    "running": "active",
    "paused": "paused",
    "stopped": "stopped",
    "absent": "stopped",
}


@dataclasses.dataclass(frozen=True)
class SandboxInfo:
    """A machine, as it was when it was asked for."""

    id: str
    name: str
    status: SandboxStatus
    reason: str
    """Why it is paused or stopped: `pause`, `timeout`, `idle`, `crashed`, `reboot`, `holder-killed` …"""
    created_at: datetime.datetime
    owner: str
    driver: str
    image: str
    metadata: Mapping[str, str]
    timeout_seconds: float | None
    idle_seconds: float | None
    auto_delete_seconds: float | None
    auto_delete_at: datetime.datetime | None
    """When it will be deleted if it stays as it is."""
    auto_resume: bool
    limits: Mapping[str, Any]
    network: Any
    starts: int
    """How often its processes were started: memory was lost `starts - 1` times."""


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A frozen copy of a machine's files. Memory is not in it."""

    id: str
    name: str | None
    sandbox_id: str
    created_at: datetime.datetime
    kind: Literal["files"] = "files"
    _size: int = dataclasses.field(default=UNCOUNTED, repr=False, compare=False)
    _tree: str = dataclasses.field(default="", repr=False, compare=False)

    @property
    def size_bytes(self) -> int:
        """On disk, of what the machine had written since the snapshot before it. Counted when it is asked for; 0 when it is gone."""
        return self._size if self._size != UNCOUNTED else tree_bytes(Path(self._tree))


def info_of(record: Record, seen: Seen) -> SandboxInfo:
    """From what was asked for, and what was seen."""
    status = _STATUS[seen.condition]
    delete_at = None
    if status != "active" and record.auto_delete is not None:
        delete_at = _time((seen.since or record.created) + record.auto_delete)
    return SandboxInfo(
        id=record.id,
        name=record.name,
        status=status,
        reason="" if status == "active" else seen.reason,
        created_at=_time(record.created),
        owner=record.owner,
        driver=record.driver,
        image=str(record.options["image"]["name"]),
        metadata=dict(record.metadata),
        timeout_seconds=record.timeout,
        idle_seconds=record.idle,
        auto_delete_seconds=record.auto_delete,
        auto_delete_at=delete_at,
        auto_resume=record.auto_resume,
        limits=dict(record.options["limits"]),
        network=record.options.get("network"),
        starts=record.starts,
    )


def snapshot_of(record: SnapshotRecord, root: Path) -> Snapshot:
    """From the registry of a state directory."""
    tree = root / record.options["image"]["layers"][0]
    made = _time(record.created)
    return Snapshot(record.id, record.name, record.box, made, _size=record.size, _tree=str(tree))


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
