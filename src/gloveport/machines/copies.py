"""What begins with a machine's files: snapshots, templates, and forks."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ..errors import CapabilityError, SnapshotNotFoundError, ValidationError
from .estate import Estate, Prepare, new_id
from .images.manifests import Image, image_name
from .registry import Record, SnapshotRecord
from .uppers import layer_name

__all__ = ("UNCOUNTED", "find_snapshot", "fork", "remove_snapshot", "save_image", "snapshot")

UNCOUNTED: Final = -1
"""The size of a snapshot that is counted when somebody asks: that takes the longer the more files there are."""


def _keep(estate: Estate, id: str) -> tuple[Record, dict[str, Any]]:  # noqa: A002
    """A machine, and the options of others that begin with its files. Nothing in it moves meanwhile: files of several moments would be
    of no use."""
    if estate.driver(estate.record(id)).copy_memory is not None:
        raise CapabilityError(
            "files of a machine of this driver are in its memory, and are not copied without it",
            missing=("fork_files",),
            hint="fork() it, or download what is needed",
        )
    record, layers = estate.keep_files(id)
    return record, {**record.options, "image": {**record.options["image"], "layers": layers}}


def snapshot(estate: Estate, id: str, name: str | None = None) -> SnapshotRecord:  # noqa: A002
    """A frozen copy of a machine's files, from which others can begin."""
    if name is not None and not (1 <= len(name) <= 64 and name.isprintable()):
        raise ValidationError(f"`name` must have 1 to 64 printable characters, not {name!r}")
    _, options = _keep(estate, id)
    made = SnapshotRecord(
        id=f"snap-{secrets.token_hex(10)}", name=name, box=id, created=time.time(), options=options, size=UNCOUNTED
    )
    estate.registry.add_snapshot(made)
    return made


def save_image(estate: Estate, id: str, name: str) -> Image:  # noqa: A002
    """The machine's files as a template of this name, in place of one that there is. Raises `ValidationError`."""
    try:
        image_name(name)
    except ValueError as error:
        raise ValidationError(str(error)) from error
    if name in ("host", "debian"):
        raise ValidationError(f"{name!r} is an image of ours", hint="take another name")
    _, options = _keep(estate, id)
    base = options["image"]
    return estate.images.put(
        Image(
            name=name,
            kind="template",
            layers=[layer_name(text) for text in base["layers"]],
            binds=[place for _, place in base["binds"]],
            keep=list(base["keep"]),
            env=dict(base["env"]),
            workdir=base.get("workdir", "/workspace"),
            source=f"the machine {id}",
            machine=id,
        )
    )


def find_snapshot(estate: Estate, wanted: str) -> SnapshotRecord:
    """By id or name. Raises `SnapshotNotFoundError`."""
    for record in estate.registry.snapshots():
        if wanted in (record.id, record.name):
            return record
    raise SnapshotNotFoundError(f"no snapshot {wanted!r}")


def remove_snapshot(estate: Estate, wanted: str) -> bool:
    """Forget it. Its files go when no machine stands on them (`Estate.collect`). Gives whether there was one."""
    try:
        found = find_snapshot(estate, wanted)
    except SnapshotNotFoundError:
        return False
    removed = estate.registry.remove_snapshot(found.id)
    estate.collect()
    return removed


def fork(estate: Estate, id: str, n: int = 1, prepare: Prepare | None = None) -> list[Record]:  # noqa: A002
    """`n` new machines with the files that this one has now, and with its memory where the driver can. It goes on."""
    if isinstance(n, bool) or not 1 <= n <= 100:
        raise ValidationError(f"`n` must be between 1 and 100, not {n!r}")
    parent = estate.record(id)
    copy_memory = estate.driver(parent).copy_memory
    if copy_memory is not None:
        return _fork_memory(estate, id, n, copy_memory, prepare)
    parent, options = _keep(estate, id)
    made = list[Record]()
    try:
        for _ in range(n):
            fresh = dataclasses.replace(parent, id=new_id(), created=time.time(), options=options, pool=None)
            made.append(estate.create(fresh, prepare))
    except BaseException:
        for record in made:
            estate.kill(record.id)
        estate.collect()
        raise
    return made


def _fork_memory(
    estate: Estate,
    id: str,  # noqa: A002
    n: int,
    copy_memory: Callable[[Path, Path], None],
    before: Prepare | None,
) -> list[Record]:
    def act(parent: Record, source: Path) -> list[Record]:
        def prepare(record: Record, target: Path) -> Record:
            copy_memory(source, target)
            return before(record, target) if before is not None else record

        made = list[Record]()
        try:
            for _ in range(n):
                fresh = dataclasses.replace(parent, id=new_id(), created=time.time(), pool=None)
                made.append(estate.create(fresh, prepare))
        except BaseException:
            for record in made:
                estate.kill(record.id)
            raise
        return made

    return estate.frozen(id, act)
