"""Makes the golden blobs of this release anew: `python -m tests.golden.make`, from the root of the repository.

Only for a release, or while a format is not released yet. Blobs of releases stay as they are.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from gloveport import AgentSandbox, KeyRing, SessionPool, __version__
from gloveport.engines.v8.build import v8_build
from gloveport.engines.wasm.build import guest_build
from gloveport.stores import MemoryStore, Record

FOLDER = Path(__file__).parent
PLAIN = bytes.fromhex("00112233445566778899aabbccddeeff")
RING = {"old": b"an old key of the golden ring 01", "new": b"a new key of the golden ring 002"}
DATA = b"golden"
TOOLS = {"ask": lambda question: question, "note": lambda text: None}
FIRST = "let count = 1; await note('a'); const words = new Map([['x', [1n, 'ü']]]); return count"
PAUSED = "count += 1; const answer = await ask(count); return [answer, ++count, words.get('x'), Math.random()]"
OPTIONS = {"clock": 1_700_000_000, "random_seed": 7, "max_tool_calls": 10, "isolation": "inline"}


V8_OPTIONS = {**OPTIONS, "engine": "v8", "isolation": "process"}
"""Those blobs are in a folder of their own, `v8`."""


def keys():
    """What the blobs are sealed with."""
    return {
        "signed": PLAIN,
        "ring_signed": KeyRing({"old": RING["old"]}),
        "encrypted": KeyRing(RING, primary="new", encrypt=True),
        "journal": PLAIN,
        "pool": PLAIN,
    }


def pool(store, **options):
    """The pool that the stored session belongs to."""
    return SessionPool(store, keys()["pool"], TOOLS, ttl=None, journal=True, max_pause=1e9, **(options or OPTIONS))


async def _pooled(options) -> Record:
    store = MemoryStore()
    async with pool(store, **options) as sessions:
        async with sessions.session("ada", "1") as session:
            await session.run(FIRST)
            await session.start(PAUSED, ask=["ask"])
    return store.get(store.list()[0].key)


def main() -> None:
    """Write the files."""
    write(FOLDER / __version__, OPTIONS, guest_build())
    write(FOLDER / __version__ / "v8", V8_OPTIONS, v8_build())


def write(folder: Path, options: dict[str, Any], guest: str) -> None:
    """The blobs of one engine."""
    folder.mkdir(exist_ok=True)
    with AgentSandbox(TOOLS, **options) as session:
        session.run(FIRST)
        session.start(PAUSED, ask=["ask"])
        for name, key in keys().items():
            if name != "pool":
                blob = session.dump(key, associated_data=DATA, journal=name == "journal")
                (folder / f"{name}.glvs").write_bytes(blob)
        expected = session.resume(session.pending, "yes").value
    record = asyncio.run(_pooled(options))
    (folder / "pool.glvs").write_bytes(record.blob)
    for number, segment in enumerate(record.segments):
        (folder / f"pool.{number}.glvs").write_bytes(segment)
    about = {
        "release": __version__,
        "guest": guest,
        "answer": "yes",
        "value": repr(expected),
        "pool": {"key": record.key, "spent": record.spent, "segments": len(record.segments)},
    }
    (folder / "about.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
