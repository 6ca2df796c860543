"""Machines in Pydantic AI: `MachineSandbox` is the workspace of an agent's runs, `MachineTools` are tools for it."""

from __future__ import annotations

from .backend import MachineBackend
from .capability import MachineSandbox
from .tools import MachineTools

__all__ = ("MachineBackend", "MachineSandbox", "MachineTools")
