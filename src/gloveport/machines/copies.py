"""Copies of machines' files: snapshots, and forks."""

from __future__ import annotations

import dataclasses
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import CapabilityError, SandboxError, SnapshotNotFoundError, ValidationError
from .estate import Estate, Prepare, new_id
from .images.manifests import Image, image_name
from .images.trees import open_folder
from .registry import Record, SnapshotRecord

__all__ = ("find_snapshot", "fork", "remove_snapshot", "save_image", "snapshot")


def _freeze_layer(estate: Estate, id: str) -> tuple[Record, str]:  # noqa: A002
    """The machine's own files as a new layer. Nothing in it moves meanwhile: a copy of files that change would be of no moment."""

    if estate.driver(estate.record(id)).copy_memory is not None:
        raise CapabilityError(
            "files of a machine of this driver are in its memory, and are not copied without it",
            missing=("fork_files",),
            hint="fork() it, or download what is needed",
        )

    def act(record: Record, folder: Path) -> tuple[Record, str]:
        upper = open_folder(folder / "upper")
        try:
            return record, estate.layers.keep_copy(upper, why=f"files of {id}")
        except OSError as error:
            raise SandboxError(f"the files of the machine {id!r} cannot be copied: {error.strerror}") from error
        finally:
            os.close(upper)

    return estate.frozen(id, act)


def _over(options: Any, layer: str) -> dict[str, Any]:
    image = dict(options["image"])
    image["layers"] = [str(Path("layers", layer, "tree")), *image["layers"]]
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
        size=int(estate.layers.about(layer).get("bytes", 0)),
    )
    try:
        estate.registry.add_snapshot(made)
    except BaseException:
        estate.layers.remove(layer)
        raise
    return made


def save_image(estate: Estate, id: str, name: str) -> Image:  # noqa: A002
    """The machine's files as a template of this name, in place of one that there is. Raises `ValidationError`."""
    try:
        image_name(name)
    except ValueError as error:
        raise ValidationError(str(error)) from error
    if name in ("host", "debian"):
        raise ValidationError(f"{name!r} is an image of ours", hint="take another name")
    record, layer = _freeze_layer(estate, id)
    base = record.options["image"]
    return estate.images.put(
        Image(
            name=name,
            kind="template",
            layers=[layer, *(Path(text).parent.name for text in base["layers"])],
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
