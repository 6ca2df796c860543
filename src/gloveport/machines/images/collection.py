"""What no machine and no image uses any more: `collect`."""

from __future__ import annotations

import time
from collections.abc import Iterable

from .layers import LayerStore
from .manifests import ImageStore

__all__ = ("collect",)

_YOUNG: float = 3600.0


def collect(
    layers: LayerStore,
    images: ImageStore,
    used: Iterable[str],
    *,
    young: float = _YOUNG,
    prefix: str | tuple[str, ...] = "",
) -> list[str]:
    """Removes every layer that is neither of an image nor among `used` (those of machines), and gives their ids. `prefix`: only
    those whose ids begin so.

    Layers younger than `young` seconds stay: someone may have made one a moment ago for a machine that is not yet written down.
    """
    layers.sweep()
    kept = {*used, *(layer for image in images.all() for layer in image.layers)}
    before = time.time() - young
    gone = [
        layer
        for layer in layers.ids()
        if layer.startswith(prefix) and layer not in kept and layers.about(layer).get("made", 0.0) <= before
    ]
    for layer in gone:
        layers.remove(layer)
    return gone
