"""Blobs of releases still load: with their images as long as their guest build is this one, else by replaying their journal.

Those of the v8 engine are histories, and load with any build of it that comes to the same outcome.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from gloveport import AgentSandbox, JournalError, SealError
from gloveport.engines.wasm.build import guest_build
from gloveport.stores import MemoryStore, Record

from .make import DATA, FOLDER, OPTIONS, TOOLS, V8_OPTIONS, keys, pool

RELEASES = sorted(path for path in FOLDER.iterdir() if (path / "about.json").exists())
V8_RELEASES = sorted(path / "v8" for path in FOLDER.iterdir() if (path / "v8" / "about.json").exists())
each_release = pytest.mark.parametrize(
    "release", [*RELEASES, *V8_RELEASES], ids=lambda path: str(path.relative_to(FOLDER))
)
BLOBS = ("signed", "ring_signed", "encrypted", "journal")


def about(release):
    return json.loads((release / "about.json").read_text("utf-8"))


def load(release, name, key=None):
    blob = (release / f"{name}.glvs").read_bytes()
    return AgentSandbox.load(blob, key or keys()[name], TOOLS, associated_data=DATA, **engine_of(release))


def engine_of(release):
    return {"engine": "v8"} if release in V8_RELEASES else {"isolation": "inline"}


def become_another_build(monkeypatch):
    from gloveport.engines.v8.engine import V8Engine
    from gloveport.engines.wasm.engine import WasmEngine

    for engine in (V8Engine, WasmEngine):
        monkeypatch.setattr(engine, "build", property(lambda self: "a later build"))


def test_there_are_some():
    assert RELEASES
    assert V8_RELEASES


@each_release
@pytest.mark.parametrize("name", BLOBS)
def test_a_blob_of_a_release_loads(release, name):
    told = about(release)
    if release in RELEASES and told["guest"] != guest_build() and name != "journal":
        with pytest.raises(JournalError, match="another guest build"):
            load(release, name)
        return
    with load(release, name) as session:
        assert session.calls_made == 2
        assert repr(session.resume(session.pending, told["answer"]).value) == told["value"]


@each_release
def test_the_journal_serves_another_guest_build(release, monkeypatch):
    become_another_build(monkeypatch)
    told = about(release)
    with load(release, "journal") as session:
        assert repr(session.resume(session.pending, told["answer"]).value) == told["value"]
    if release in V8_RELEASES:  # a history is a journal
        load(release, "signed").close()
        return
    with pytest.raises(JournalError, match="another guest build"):
        load(release, "signed")


@each_release
def test_a_blob_opens_with_its_own_key_only(release):
    for name in BLOBS:
        for other, key in keys().items():
            if key is not keys()[name] and other not in (name, "pool") and {name, other} != {"signed", "journal"}:
                with pytest.raises(SealError):
                    load(release, name, key)


def stored(release):
    """A store that holds the release's session, as it was left."""
    told = about(release)["pool"]
    store = MemoryStore()
    record = Record(key=told["key"], blob=(release / "pool.glvs").read_bytes(), spent=0)
    # The blob is bound to its version, which is 1 in a new store; segments to those after it.
    version = store.put(record, expect=None)
    for number in range(told["segments"]):
        segment = (release / f"pool.{number}.glvs").read_bytes()
        version = store.append(told["key"], segment, expect=version, spent=told["spent"], pending="ask")
    return store


@each_release
@pytest.mark.parametrize("build", ["its own", "another"])
def test_a_stored_session_of_a_release_wakes(release, build, monkeypatch):
    if build == "another":
        become_another_build(monkeypatch)
    told = about(release)
    options = V8_OPTIONS if release in V8_RELEASES else OPTIONS

    async def main():
        async with pool(stored(release), **options) as sessions:
            async with sessions.session("ada", "1") as session:
                step = await session.resume(session.pending, told["answer"])
                assert repr(step.value) == told["value"]
                assert session.calls_made == 2

    asyncio.run(main())
