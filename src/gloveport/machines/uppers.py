"""What machines have written becomes layers without being copied: a rename, and for a machine that lives a new writable layer above.

A machine writes to `upper` in its folder, after that was frozen to `upper.1`, and so on. What is below the one that it writes to changes
no more, and goes to the folder of layers, in this order:

1. The machine writes to a new one (its supervisor's RELAYER; not for a machine that does not live).
2. `frozen` in its folder says which folder becomes which layer, and what the machine stands on then.
3. The list of machines says so, too.
4. The folder is renamed to be the layer.

Whoever dies in between leaves something that `settle` brings to its end: before 2 every folder below the last one is taken, from 2 on
`frozen` is done again. All of it happens under the machine's lock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from ..errors import SandboxError
from .driver import Driver
from .images.layers import LIVE, MERGED, LayerStore
from .images.trees import remove_tree
from .registry import Record, Registry
from .state import writable_layer

__all__ = ("Uppers", "layer_name")

_UPPER: Final = "upper"
_NAME: Final = re.compile(r"upper(?:\.([0-9]{1,9}))?")
_WORK: Final = re.compile(r"work(?:\.[0-9]{1,9})?")
_INTENT: Final = "frozen"
_MOST: Final = 32
"""Layers of machines on top of each other before they become one. Options of a mount are one page (mount(2)): 220 layers."""
_ATTEMPTS: Final = 3


def layer_name(text: str) -> str:
    """The id of a layer, as machines name it."""
    return Path(text).parent.name


def _number(name: str) -> int:
    return int(name.partition(".")[2] or 0)


class Uppers:
    """The writable layers of machines below a state directory."""

    def __init__(self, registry: Registry, layers: LayerStore) -> None:
        self._registry, self._layers = registry, layers

    def current(self, folder: Path) -> Path:
        """Where the machine writes to, or has written to last."""
        said = writable_layer(folder)
        if said is not None:
            return folder / said
        names = self._names(folder)
        return folder / (names[-1] if names else _UPPER)

    @staticmethod
    def _names(folder: Path) -> list[str]:
        """Oldest first."""
        return sorted((name for name in os.listdir(folder) if _NAME.fullmatch(name)), key=_number)

    # ── what was begun ───────────────────────────────────────────────────────────────────────────────────────────────

    def settle(self, record: Record, folder: Path) -> Record:
        """Bring to its end what somebody has begun and did not live to end. Gives the record as it is then."""
        record = self._resume(record, folder)
        last = _number(self.current(folder).name)
        for name in self._names(folder):
            if _number(name) < last:
                record = self._take(record, folder, name, _layers_of(record))
        for name in os.listdir(folder):
            if _WORK.fullmatch(name) and _number(name) < last:
                remove_tree(folder / name)
        return record

    def ready(self, record: Record, folder: Path) -> Record:
        """As `settle`, for a machine that does not live and is to be started: it begins with one folder, `upper`."""
        record = self.settle(record, folder)
        top = self.current(folder)
        for name in os.listdir(folder):
            if _WORK.fullmatch(name):
                remove_tree(folder / name)
        if top.name != _UPPER:
            os.rename(top, folder / _UPPER)
        return record

    def _resume(self, record: Record, folder: Path) -> Record:
        intent = _read(folder / _INTENT)
        if intent is None:
            return record
        name, layers = intent
        if not layers or not _NAME.fullmatch(name):
            return record
        if layer_name(layers[0]) in self._layers:
            return record if layers == _layers_of(record) else self._carry_out(record, folder, name, layers)
        alive = writable_layer(folder)
        if not (folder / name).is_dir() or (alive is not None and _number(alive) <= _number(name)):
            return record  # the layer was there, and somebody has removed it
        return self._carry_out(record, folder, name, layers)

    # ── freezing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def freeze(self, driver: Driver, record: Record, folder: Path) -> tuple[Record, bool]:
        """Make what it has written a layer of which it stands on. `False`: that cannot be done now, and nothing has changed: copy it."""
        for _ in range(_ATTEMPTS):
            record = self.settle(record, folder)
            top, layers = self.current(folder), _layers_of(record)
            alive = writable_layer(folder) is not None
            if self._is_blank(top, layers):
                return record, True
            if os.stat(top).st_dev != os.stat(self._layers.folder).st_dev:
                return record, False
            layers = self._short(layers)
            if not alive:
                return self._take(record, folder, top.name, layers), True
            pushed = driver.push_layer(folder, top.name, [self._path(text) for text in layers])
            if pushed == "done":
                return self._take(record, folder, top.name, layers), True
            if pushed != "stale":  # else one that was begun by somebody who died
                break
        return record, False

    def _is_blank(self, top: Path, layers: list[str]) -> bool:
        """Whether nothing was written since the last time: its root is as that of the layer below, and empty."""
        try:
            if os.listdir(top):
                return False
            ours, below = os.stat(top), os.stat(self._path(layers[0]))
        except OSError:
            return not top.exists()  # frozen, and not started since
        return (ours.st_mode, ours.st_uid, ours.st_gid) == (below.st_mode, below.st_uid, below.st_gid)

    def _short(self, layers: list[str]) -> list[str]:
        """The layers, the topmost of which are one when they are too many."""
        count = 0
        while count < len(layers) and layer_name(layers[count]).startswith((LIVE, MERGED)):
            count += 1
        if count < _MOST:
            return layers
        try:
            merged = self._layers.merged([layer_name(text) for text in layers[:count]], why=f"{count} layers")
        except OSError as error:
            raise SandboxError(f"the files of the machine cannot be put together: {error.strerror}") from error
        return [_text(merged), *layers[count:]]

    def _path(self, text: str) -> Path:
        return Path(text) if os.path.isabs(text) else self._layers.folder.parent / text

    def _take(self, record: Record, folder: Path, name: str, layers: list[str]) -> Record:
        """Its folder `name` becomes a layer, above `layers`."""
        above = [_text(self._layers.reserve()), *layers]
        _write(folder / _INTENT, name, above)
        return self._carry_out(record, folder, name, above)

    def _carry_out(self, record: Record, folder: Path, name: str, layers: list[str]) -> Record:
        options = {**record.options, "image": {**record.options["image"], "layers": layers}}
        self._registry.change(record.id, options=options)
        if layer_name(layers[0]) not in self._layers:
            self._layers.fill(layer_name(layers[0]), folder / name, machine=record.id)
        return dataclasses.replace(record, options=options)


def _layers_of(record: Record) -> list[str]:
    return list(record.options["image"]["layers"])


def _text(layer: str) -> str:
    return str(Path("layers", layer, "tree"))


def _write(path: Path, name: str, layers: list[str]) -> None:
    # Without fsync(2): file systems keep the order of renames in a directory tree, and a machine that ran is started from its files.
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    fresh.write_text(json.dumps({"folder": name, "layers": layers}), "utf-8")
    fresh.replace(path)


def _read(path: Path) -> tuple[str, list[str]] | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        told = cast("Mapping[str, Any]", json.loads(path.read_text("utf-8")))
        return str(told["folder"]), [str(text) for text in told["layers"]]
    return None
