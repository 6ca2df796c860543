"""Widgets: React components that a model wrote, as self-contained pages."""

from __future__ import annotations

from .artifacts import Artifacts
from .widget import Widget

__all__ = ("Artifacts", "Widget")
