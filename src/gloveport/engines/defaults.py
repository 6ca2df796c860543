"""The resident processes that sessions of this process share: compiler, type checker, and those of widgets. One for each mode."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..policy import SandboxMode
from .toolbox import Toolbox

if TYPE_CHECKING:
    from .builder import Builder, Mounting
    from .checker import Checker

__all__ = ("builder", "checker", "mounting", "toolbox")

_T = TypeVar("_T")

_lock = threading.Lock()
_toolboxes: dict[str, Toolbox] = {}
_checkers: dict[str, Checker] = {}
_builders: dict[str, Builder] = {}
_mountings: dict[str, Mounting] = {}


def toolbox(sandbox: SandboxMode) -> Toolbox:
    """The compiler of model code; it starts with the first source. (A `Toolbox` is fork-safe by itself.)"""
    return _toolboxes.get(sandbox) or _one(_toolboxes, sandbox, lambda: Toolbox(sandbox=sandbox))


def checker(sandbox: SandboxMode) -> Checker:
    """The type checker; it starts with the first check."""
    from .checker import Checker  # few sessions need it

    box = toolbox(sandbox)
    return _one(_checkers, sandbox, lambda: Checker(sandbox=sandbox, toolbox=box))


def builder(sandbox: SandboxMode) -> Builder:
    """The builder of widgets; it starts with the first widget."""
    from .builder import Builder

    return _one(_builders, sandbox, lambda: Builder(sandbox=sandbox))


def mounting(sandbox: SandboxMode) -> Mounting:
    """The supply of workers that mount widgets."""
    from .builder import Mounting

    return _one(_mountings, sandbox, lambda: Mounting(sandbox=sandbox))


def _one(kept: dict[str, _T], sandbox: SandboxMode, make: Callable[[], _T]) -> _T:
    with _lock:
        found = kept.get(sandbox)
        if found is None:
            found = kept[sandbox] = make()
        return found


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
