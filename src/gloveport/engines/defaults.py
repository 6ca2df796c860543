"""The compiler of model code, and its type checker, that sessions of this process share."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from ..policy import SandboxMode
from .toolbox import Toolbox

if TYPE_CHECKING:
    from .builder import Builder, Mounting
    from .checker import Checker

__all__ = ("builder", "checker", "mounting", "toolbox")

_lock = threading.Lock()
_toolboxes: dict[str, Toolbox] = {}
_checkers: dict[str, Checker] = {}
_builders: dict[str, Builder] = {}
_mountings: dict[str, Mounting] = {}


def toolbox(sandbox: SandboxMode) -> Toolbox:
    """One resident compiler per mode and process; it starts with the first source. (A `Toolbox` is fork-safe by itself.)"""
    with _lock:
        box = _toolboxes.get(sandbox)
        if box is None:
            box = _toolboxes[sandbox] = Toolbox(sandbox=sandbox)
        return box


def checker(sandbox: SandboxMode) -> Checker:
    """One resident type checker per mode and process; it starts with the first check."""
    from .checker import Checker  # few sessions need it

    box = toolbox(sandbox)
    with _lock:
        found = _checkers.get(sandbox)
        if found is None:
            found = _checkers[sandbox] = Checker(sandbox=sandbox, toolbox=box)
        return found


def builder(sandbox: SandboxMode) -> Builder:
    """One resident builder of widgets per mode and process; it starts with the first widget."""
    from .builder import Builder

    with _lock:
        found = _builders.get(sandbox)
        if found is None:
            found = _builders[sandbox] = Builder(sandbox=sandbox)
        return found


def mounting(sandbox: SandboxMode) -> Mounting:
    """The workers that mount widgets, one supply per mode and process."""
    from .builder import Mounting

    with _lock:
        found = _mountings.get(sandbox)
        if found is None:
            found = _mountings[sandbox] = Mounting(sandbox=sandbox)
        return found


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
