"""Copies of machines' files: snapshots, and forks."""

from __future__ import annotations

import dataclasses
import secrets
import time
from pathlib import Path
from typing import Any

from ..errors import SnapshotNotFoundError, ValidationError
from .estate import Estate, Prepare, new_id
from .registry import Record, SnapshotRecord
from .trees import copy_tree, remove_tree, tree_bytes

__all__ = ("find_snapshot", "fork", "prune_layers", "remove_snapshot", "snapshot")


def _freeze_layer(estate: Estate, id: str) -> tuple[Record, str]:  # noqa: A002
    """The machine's own files as a new layer. Nothing in it moves meanwhile: a copy of files that change would be of no moment."""
    name = f"layers/files-{secrets.token_hex(12)}"
    layer = estate.root / name

    def act(record: Record, folder: Path) -> Record:
        copy_tree(folder / "upper", layer)
        return record

    try:
        return estate.frozen(id, act), name
    except BaseException:
        remove_tree(layer)
        raise


def _over(options: Any, layer: str) -> dict[str, Any]:
    image = dict(options["image"])
    image["layers"] = [layer, *image["layers"]]
    return {**options, "image": image}


def snapshot(estate: Estate, id: str, name: str | None = None) -> SnapshotRecord:  # noqa: A002
    """A frozen copy of a machine's files, from which others can begin."""
    if name is not None and not (1 <= len(name) <= 64 and name.isprintable()):
        raise ValidationError(f"`name` must have 1 to 64 printable characters, not {name!r}")
    record, layer = _freeze_layer(estate, id)
    made = SnapshotRecord(
        id=f"snap-{secrets.token_hex(10)}",
        name=name,
        box=id,
        created=time.time(),
        options=_over(record.options, layer),
        size=tree_bytes(estate.root / layer),
    )
    try:
        estate.registry.add_snapshot(made)
    except BaseException:
        remove_tree(estate.root / layer)
        raise
    return made


def find_snapshot(estate: Estate, wanted: str) -> SnapshotRecord:
    """By id or name. Raises `SnapshotNotFoundError`."""
    for record in estate.registry.snapshots():
        if wanted in (record.id, record.name):
            return record
    raise SnapshotNotFoundError(f"no snapshot {wanted!r}")


def remove_snapshot(estate: Estate, wanted: str) -> bool:
    """Forget it. Its files go when no machine stands on them (`prune_layers`). Gives whether there was one."""
    try:
        found = find_snapshot(estate, wanted)
    except SnapshotNotFoundError:
        return False
    removed = estate.registry.remove_snapshot(found.id)
    prune_layers(estate)
    return removed


def fork(estate: Estate, id: str, n: int = 1, prepare: Prepare | None = None) -> list[Record]:  # noqa: A002
    """`n` new machines with the files that this one has now. It goes on; memory is not copied."""
    if isinstance(n, bool) or not 1 <= n <= 100:
        raise ValidationError(f"`n` must be between 1 and 100, not {n!r}")
    parent, layer = _freeze_layer(estate, id)
    made = list[Record]()
    try:
        for _ in range(n):
            fresh = dataclasses.replace(
                parent, id=new_id(), created=time.time(), options=_over(parent.options, layer), pool=None
            )
            made.append(estate.create(fresh, prepare))
    except BaseException:
        for record in made:
            estate.kill(record.id)
        prune_layers(estate)
        raise
    return made


def prune_layers(
    estate: Estate, prefix: str = "files-", *, older_than: float = 0.0, dry_run: bool = False
) -> list[Path]:
    """Remove layers with this prefix on which nothing stands: no machine, no snapshot. Gives what was, or would be, removed.

    Those of the last minute stay: somebody may be about to use them.
    """
    used = set[str]()
    for record in (*estate.registry.find(), *estate.registry.snapshots()):
        used |= {Path(layer).name for layer in record.options["image"]["layers"]}
    doomed = list[Path]()
    now = time.time()
    for layer in (estate.root / "layers").iterdir():
        if (
            layer.name in used
            or not layer.name.startswith(prefix)
            or now - layer.lstat().st_ctime < max(older_than, 60.0)
        ):
            continue
        doomed.append(layer)
        if not dry_run:
            remove_tree(layer)
    return doomed
