"""The real guest in real workers."""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from worker_frames import Answer, Line

from gloveport.engines.wasm.pool import WorkerPool
from gloveport.errors import EngineUnavailableError

quickjs = pytest.importorskip("gloveport.engines.wasm.quickjs")


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool() as made:
        try:
            made.start()
        except EngineUnavailableError as error:
            if "not built" in str(error):
                pytest.skip(str(error))
            raise
        yield made


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<I", len(data)) + data


class Session(Line):
    def __init__(self, pool: WorkerPool, *, group: str = "", limit: int = 64 << 20) -> None:
        super().__init__(pool.open_shared(group) if group else pool.take(), limit)
        options = {"clock": 0, "seed": "7", "frozen": False, "namespace": None, "tools": ["ask"], "bootstrap": None}
        assert self.step(b"O" + text(json.dumps(options))).status == 0
        self.runs = 0

    def start(self, body: str) -> Answer:
        self.runs += 1
        return self.step(b"R" + struct.pack("<II", self.runs, 65536) + text(f"(async ($) => {{\n{body}\n}})"))

    def run(self, body: str) -> Any:
        return self.messages(self.start(body))[-1].get("v")

    @staticmethod
    def messages(answer: Answer) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        at = 0
        while at < len(answer.output):
            (length,) = struct.unpack_from("<I", answer.output, at)
            found.append(json.loads(answer.output[at + 4 : at + 4 + length]))
            at += 4 + length
        return found


@pytest.mark.parametrize("group", ["", "shared"])
def test_runs_and_calls(pool: WorkerPool, group: str) -> None:
    with Session(pool, group=group) as session:
        assert session.run("return 1 + 1") == 2
        call, idle = session.messages(session.start("return 1 + await ask(41)"))
        assert (call["n"], call["a"], idle["calls"]) == ("ask", [41], 1)
        answer = session.step(b"A" + struct.pack("<dIB", 0.0, call["id"], 1) + text("41"))
        assert session.messages(answer)[-1] == {"t": "done", "f": 0, "v": 42}


@pytest.mark.parametrize("group", ["", "shared"])
def test_an_endless_loop_is_interrupted_and_the_session_goes_on(pool: WorkerPool, group: str) -> None:
    with Session(pool, group=group) as session:
        threading.Timer(0.05, session.worker.interrupt).start()
        assert session.start("for (;;);").status == 1
        assert session.ask("Z").status == 0
        assert session.ask("D").kind == "i"


def test_workers_start_from_one_heap(pool: WorkerPool) -> None:
    """The rehearsal in the zygote and the practice in the fork leave no trace; a fresh instance and every worker compute the same."""
    body = "return [Math.random(), Math.random(), Date.now()]"
    with Session(pool) as one, Session(pool) as two, Session(pool, group="a") as three:
        results = [s.run(body) for s in (one, two, three)]
    assert results[0] == results[1] == results[2]


def test_a_new_worker_has_the_base_image(pool: WorkerPool) -> None:
    with Line(pool.take()) as line:
        image = zlib.decompress(line.ask("D").output)
    assert struct.unpack_from("<I", image, 8) == (0,)


def test_the_rehearsal_learns_pages_and_leaves_the_guest_new() -> None:
    make = quickjs.guests()
    guest = make()
    before = guest.dump()
    make.rehearse(guest)
    assert guest.dump() == before
    assert make._written
    make.warm(guest)
    assert guest.dump() == before


def test_memory(pool: WorkerPool) -> None:
    code = (
        "const held = []; for (let i = 0; i < 40; i++) held.push(new Uint8Array(1 << 20).fill(i)); return held.length"
    )
    with Session(pool, limit=96 << 20) as enough, Session(pool, limit=16 << 20) as little:
        assert enough.run(code) == 40
        assert little.start(code).status == 3


def test_images_move_between_workers(pool: WorkerPool) -> None:
    with Session(pool) as one:
        one.run("globalThis.kept = 5")
        image = one.ask("D").output
    with Session(pool) as two:
        assert two.ask("L", struct.pack("<BI", 1, len(image)) + image).status == 0
        assert two.run("return globalThis.kept") == 5
        assert two.ask("L", struct.pack("<BI", 1, 5) + b"wrong").kind == "!"
        assert two.run("return globalThis.kept") == 5
