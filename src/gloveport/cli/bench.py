"""`gloveport bench`: measure, and compare with the promises."""

from __future__ import annotations

import argparse
from typing import get_args

from ..policy import EngineName, Isolation

__all__ = ("arguments", "run")

_SUBJECTS = ("sessions", "machines", "modules", "widgets", "network", "catalog", "arguments", "pool", "typecheck")
"""Each is a module of `gloveport.bench` with a function `measure`."""
_TAKEN = {
    "sessions": ("peers", "isolation", "engine"),
    "modules": ("peers",),
    "pool": ("isolation", "postgres"),
}
"""Which options, beside `quick`, it takes."""


def arguments(verb: argparse.ArgumentParser) -> None:
    """Its command line."""
    verb.add_argument("what", choices=_SUBJECTS, help="what to measure")
    verb.add_argument(
        "--peers", action="store_true", help="also measure the peers, installed into the cache, in turn with ours"
    )
    verb.add_argument("--json", action="store_true", help="print the rows as JSON")
    verb.add_argument("--check", action="store_true", help="exit with 1 when a bar of SPECIFICATION.md is missed")
    verb.add_argument("--quick", action="store_true", help="fewer samples: under 50 s")
    verb.add_argument("--postgres", metavar="CONNINFO", help="pool: this server instead of one started for it")
    verb.add_argument("--isolation", choices=get_args(Isolation), default="process")
    verb.add_argument("--engine", choices=get_args(EngineName), default="wasm")


def run(options: argparse.Namespace) -> int:
    """Measure and print."""
    from importlib import import_module

    from ..bench.report import show

    given = {name: getattr(options, name) for name in _TAKEN.get(options.what, ())}
    rows = import_module(f"gloveport.bench.{options.what}").measure(quick=options.quick, **given)
    return show(rows, as_json=options.json, check=options.check)
