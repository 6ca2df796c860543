"""The compiler of model code that sessions of this process share."""

from __future__ import annotations

import os
import threading

from ..policy import SandboxMode
from .toolbox import Toolbox

__all__ = ("toolbox",)

_lock = threading.Lock()
_toolboxes: dict[str, Toolbox] = {}


def toolbox(sandbox: SandboxMode) -> Toolbox:
    """One resident compiler per mode and process; it starts with the first source. (A `Toolbox` is fork-safe by itself.)"""
    with _lock:
        box = _toolboxes.get(sandbox)
        if box is None:
            box = _toolboxes[sandbox] = Toolbox(sandbox=sandbox)
        return box


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
