"""`gloveport bench`: measure, and compare with the promises."""

from __future__ import annotations

import argparse
from typing import get_args

from ..policy import EngineName, Isolation

__all__ = ("arguments", "run")


def arguments(verb: argparse.ArgumentParser) -> None:
    """Its command line."""
    verb.add_argument("what", choices=["sessions", "catalog", "pool", "arguments", "typecheck", "widgets"], help="what to measure")
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
    from ..bench.report import show

    if options.what == "catalog":
        from ..bench import catalog

        return show(catalog.measure(quick=options.quick), as_json=options.json, check=options.check)
    if options.what == "arguments":
        from ..bench import arguments as checking

        return show(checking.measure(quick=options.quick), as_json=options.json, check=options.check)
    if options.what == "typecheck":
        from ..bench import typecheck

        return show(typecheck.measure(quick=options.quick), as_json=options.json, check=options.check)
    if options.what == "widgets":
        from ..bench import widgets

        return show(widgets.measure(quick=options.quick), as_json=options.json, check=options.check)
    if options.what == "pool":
        from ..bench import pool

        rows = pool.measure(quick=options.quick, isolation=options.isolation, postgres=options.postgres)
        return show(rows, as_json=options.json, check=options.check)
    from ..bench.sessions import measure

    rows = measure(peers=options.peers, quick=options.quick, isolation=options.isolation, engine=options.engine)
    return show(rows, as_json=options.json, check=options.check)
