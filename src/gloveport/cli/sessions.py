"""`gloveport sessions list|show`: what a store holds, and which calls wait for an answer."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from pathlib import Path
from typing import Any

from ..core.saved import SavedSession, decode_saved
from ..core.seal import SealingKey, unseal
from ..host.keys import KeyRing
from ..stores import Record, SQLiteStore
from ..wire.values import decode
from . import EXIT_OK, EXIT_USAGE
from .telling import as_json, as_line

__all__ = ("arguments", "run")


def arguments(verb: argparse.ArgumentParser) -> None:
    """Its command line."""
    verbs = verb.add_subparsers(dest="what", metavar="list|show", required=True)
    listing = verbs.add_parser("list", help="all sessions, newest first, and the call each waits at")
    show = verbs.add_parser("show", help="one session; with --key-file also the arguments of the call it waits at")
    show.add_argument("name", help="its key in the store")
    show.add_argument(
        "--key-file",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a file with the key that its blob is sealed with; with its name for a key of a KeyRing; may be repeated",
    )
    show.add_argument("--associated-data", default="", help="what the blob was bound to, as text")
    for parser in (listing, show):
        parser.add_argument("--store", type=Path, required=True, help="the SQLite file")
        parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """List or show."""
    if not options.store.exists():  # opening it would make it
        print(f"gloveport: there is no store {str(options.store)!r}", file=sys.stderr)
        return EXIT_USAGE
    store = SQLiteStore(options.store)
    try:
        return _list(store, options) if options.what == "list" else _show(store, options)
    finally:
        store.close()


def _list(store: SQLiteStore, options: argparse.Namespace) -> int:
    rows = [_row(record) for record in store.list()]
    if options.json:
        print(as_json(rows))
    elif not rows:
        print("no sessions")
    for row in [] if options.json else rows:
        waits = f"waits at {row['pending']}" if row["pending"] else "idle"
        print(as_line(f"{row['key']}  {waits}  {row['calls']} calls  {row['updated']}  {row['label']}".rstrip()))
    return EXIT_OK


def _row(record: Record) -> dict[str, Any]:
    updated = dt.datetime.fromtimestamp(record.updated, dt.timezone.utc).isoformat(timespec="seconds")
    return {
        "key": record.key,
        "pending": record.pending,
        "calls": record.spent,
        "version": record.version,
        "updated": updated,
        "label": record.label,
    }


def _show(store: SQLiteStore, options: argparse.Namespace) -> int:
    record = store.get(options.name)
    data = {**_row(record), "bytes": len(record.blob)}
    if options.key_file:
        data |= _contents(record, _key(options.key_file), options.associated_data.encode())
    print(as_json(data, indent=None if options.json else 2))
    return EXIT_OK


def _key(files: list[str]) -> SealingKey:
    named = dict(item.split("=", 1) for item in files if "=" in item)
    plain = [Path(item).read_bytes() for item in files if "=" not in item]
    if not named:
        return plain[0]
    keys = {name: Path(path).read_bytes() for name, path in named.items()}
    return KeyRing(keys, primary=next(iter(keys)), unnamed=plain[0] if plain else None)


def _contents(record: Record, key: SealingKey, associated_data: bytes) -> dict[str, Any]:
    saved: SavedSession = decode_saved(unseal(record.blob, key, associated_data))
    waiting = (
        [{"tool": call.name, "arguments": decode(call.args, call.flags)} for call in saved.run.open_calls]
        if saved.run
        else []
    )
    return {
        "session": saved.session,
        "release": saved.release,
        "tools": list(saved.identity.tools),
        "runs": saved.runs,
        "lost_runs": saved.lost_runs,
        "calls_remaining": saved.budget.remaining,
        "code": saved.run.source if saved.run else None,
        "waiting": waiting,
    }
