"""`gloveport install`: fetch an optional part that is no Python package. The only verb that uses a network."""

from __future__ import annotations

import argparse

from . import EXIT_OK

__all__ = ("arguments", "run")


def arguments(verb: argparse.ArgumentParser) -> None:
    """Its command line."""
    verb.add_argument("part", choices=["typecheck"], help="the native TypeScript compiler, from the npm registry")


def run(options: argparse.Namespace) -> int:
    """Fetch it, unless it is here, and say where it is."""
    from ..engines.checker.install import VERSION, install

    print(f"TypeScript {VERSION} is in {install().folder}")
    return EXIT_OK
