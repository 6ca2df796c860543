"""`gloveport prune`: caches of compiled guests, packages, and type checkers, that this installation does not use any more."""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

from . import EXIT_OK
from .run import size

__all__ = ("arguments", "run")


def arguments(verb: argparse.ArgumentParser) -> None:
    """Its command line."""
    verb.add_argument("--all", action="store_true", help="also what is in use: it is made anew when it is needed")
    verb.add_argument(
        "--older-than", type=float, default=7.0, metavar="DAYS", help="leave what was used since (default %(default)g)"
    )
    verb.add_argument("--max-size", type=size, metavar="SIZE", help="then remove the oldest until the rest fits")
    verb.add_argument("--typecheck", action="store_true", help="also what `gloveport install typecheck` fetched")
    verb.add_argument("--dry-run", action="store_true", help="only say what would go")


def run(options: argparse.Namespace) -> int:
    """Remove, and say what."""
    from ..engines.wasm.build import guest_build
    from ..engines.wasm.module import cache_directory, compiled_path

    folder = cache_directory()
    current = compiled_path(guest_build())
    files = sorted((path for path in folder.glob("*") if path.is_file()), key=_age, reverse=True)
    doomed = [path for path in files if options.all or (path != current and _age(path) > options.older_than * 86400)]
    if options.max_size is not None:
        left = sum(path.stat().st_size for path in files if path not in doomed)
        for path in files:
            if left <= options.max_size:
                break
            if path not in doomed and path != current:
                doomed.append(path)
                left -= path.stat().st_size
    freed = sum(path.stat().st_size for path in doomed)
    for path in doomed:
        print(path)
        if not options.dry_run:
            path.unlink(missing_ok=True)
    print(f"{'would free' if options.dry_run else 'freed'} {freed} bytes in {len(doomed)} files of {folder}")
    _prune_type_checkers(everything=options.typecheck, dry_run=options.dry_run)
    for fetched in sorted(folder.glob("packages-*")):  # of modules; what fetches into it touches the file
        if options.all or _age(fetched / ".lock") > options.older_than * 86400:
            _remove(fetched, dry_run=options.dry_run)
    if not options.dry_run:
        _prune_machines(options.older_than)
    return EXIT_OK


def _prune_machines(days: float) -> None:
    """What died, and layers that nothing uses. Nothing is made where there never was a machine."""
    from ..machines.estate import estate
    from ..machines.home import state_path

    if (state_path() / "machines.sqlite").exists():
        found = estate()
        swept, layers = found.sweep(), found.collect(everything=True, young=days * 86400)
        print(f"removed {len(swept)} machines that had ended and {len(layers)} layers of machines that nothing used")


def _prune_type_checkers(*, everything: bool, dry_run: bool) -> None:
    from ..engines.checker.install import find, folders

    found = find()
    for folder in folders():
        if everything or found is None or folder != found.folder:
            _remove(folder, dry_run=dry_run)


def _remove(folder: Path, *, dry_run: bool) -> None:
    print(folder)
    if not dry_run:
        shutil.rmtree(folder, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return time.time()
