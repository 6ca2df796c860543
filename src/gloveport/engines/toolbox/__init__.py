"""The compiler of model code, in a process of its own."""

from __future__ import annotations

from gloveport.engines.toolbox.client import Toolbox
from gloveport.engines.toolbox.compiled import Compiled, SourceMap

__all__ = ("Compiled", "SourceMap", "Toolbox")
