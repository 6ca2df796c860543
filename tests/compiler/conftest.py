"""Fixtures of the compiler's tests; the helpers are in `compiling.py`, whose name is its own."""

from compiling import toolbox, v8

__all__ = ("toolbox", "v8")
