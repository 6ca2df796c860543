"""Widgets: the resident builder that makes a model's module into a script, and single-use workers that mount it."""

from __future__ import annotations

from .client import Builder
from .mount import Mounting
from .spoken import Answer, Built, Mounted, Note

__all__ = ("Answer", "Builder", "Built", "Mounted", "Mounting", "Note")
