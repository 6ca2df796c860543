"""One folder for the root of a machine: gVisor takes no layers."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from ...errors import SandboxError
from ..images.layers import LayerStore, Staging
from ..images.owners import Owners
from ..images.trees import merge_tree, open_folder, remove_tree
from ..spec import UID_BASE, Image
from .bundle import AGENT, KEPT, NET, RUN

__all__ = ("merged", "merged_layer")


def merged(root: Path, image: Image) -> Path:
    """The layers of an image as one tree, made once. Its files belong to the ids that they have in the machine: gVisor shows those of
    the host as they are, and nobody but we can enter the folder that they are in."""
    inside = Owners.here(UID_BASE)
    layers = LayerStore(root / "layers", _owners())

    def make(staging: Staging) -> None:
        target = open_folder(staging.tree)
        try:
            for layer in reversed(image.layers):
                try:
                    source = open_folder(layer)
                except FileNotFoundError:
                    raise SandboxError(f"a layer of the image {image.name!r} is missing: {layer.parent.name}") from None
                try:
                    merge_tree(source, target, inside.inside)
                finally:
                    os.close(source)
            _make_places(target, image)
        finally:
            os.close(target)

    return layers.path(layers.made_once(_name(image), make, why=f"the root of {image.name} for gVisor"))


def merged_layer(image: Image) -> str:
    """The id of the layer that `merged` makes."""
    return f"{_name(image)}-{_owners().key}"


def _name(image: Image) -> str:
    # 4: with the places of mounts. What is missing of those, runsc would make in this tree.
    digest = hashlib.sha256("\n".join(["4", *image.keep, *map(str, image.layers)]).encode()).hexdigest()[:32]
    return f"whole-{digest}"


def _owners() -> Owners:
    return Owners(0 if os.geteuid() == 0 else None)


def _make_places(tree: int, image: Image) -> None:
    """By descriptors: whoever wrote the image may have put links of the host anywhere, also where ours come to be."""
    own, _, agent = AGENT.lstrip("/").partition("/")
    remove_tree(own, tree)
    for place in (RUN, NET, *(place for _, place in image.binds), *(f"{KEPT}/{n}" for n in range(len(image.keep)))):
        _make_folder(tree, place)
    for place in image.keep:  # which runsc opens on the host
        if not _make_folder(tree, place):
            raise SandboxError(f"the image {image.name!r} has no folder {place}")
    folder = open_folder(own, tree)
    try:
        os.close(os.open(agent, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o755, dir_fd=folder))
        os.fchmod(folder, 0o700)  # for its root alone
    finally:
        os.close(folder)


def _make_folder(tree: int, place: str) -> bool:
    """What is missing of a path. `False`: something on the way is no folder, a link for example, and is left as it is."""
    at = os.dup(tree)
    try:
        for name in place.strip("/").split("/"):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=at)
            inner = open_folder(name, at)
            os.close(at)
            at = inner
    except NotADirectoryError:
        return False
    finally:
        os.close(at)
    return True
