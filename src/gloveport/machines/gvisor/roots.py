"""One folder for the root of a machine: gVisor takes no layers."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ...errors import SandboxError
from ..images.layers import LayerStore, Staging
from ..images.owners import Owners
from ..images.trees import merge_tree, open_folder
from ..spec import UID_BASE, Image
from .bundle import AGENT, KEPT, NET, RUN

__all__ = ("merged",)


def merged(root: Path, image: Image) -> Path:
    """The layers of an image as one tree, made once. Its files belong to the ids that they have in the machine: gVisor shows those of
    the host as they are, and nobody but we can enter the folder that they are in."""
    inside = Owners.here(UID_BASE)
    layers = LayerStore(root / "layers", Owners(0 if os.geteuid() == 0 else None))
    # 3: with the places of mounts. What is missing of those, runsc would make in this tree.
    digest = hashlib.sha256("\n".join(["3", *image.keep, *map(str, image.layers)]).encode()).hexdigest()[:32]

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
            _make_places(staging.tree, image)
        finally:
            os.close(target)

    return layers.path(layers.made_once(f"whole-{digest}", make, why=f"the root of {image.name} for gVisor"))


def _make_places(tree: Path, image: Image) -> None:
    for place in (RUN, NET, *(place for _, place in image.binds), *(f"{KEPT}/{n}" for n in range(len(image.keep)))):
        inside = tree / place.lstrip("/")
        if not inside.is_symlink():
            inside.mkdir(mode=0o755, parents=True, exist_ok=True)
    (tree / AGENT.lstrip("/")).touch(mode=0o755)
    (tree / AGENT.lstrip("/")).parent.chmod(0o700)  # for its root alone
