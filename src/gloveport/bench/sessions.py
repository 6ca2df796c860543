"""`gloveport bench sessions`: what a session costs, beside the peers, and against the promises of `SPECIFICATION.md`."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..policy import EngineName, Isolation, Limits
from .kernels import KERNELS, Bare, in_function, in_session
from .peers import Peer, PeerFailed, start_peers
from .probes import Probes
from .report import Row, median_of

__all__ = ("BARS", "measure")

PEER: Final = "pydeno"

BARS: Final[Mapping[str, Mapping[str, float]]] = {
    "process": {
        "create and first run": 1 / 25,
        "warm run, fresh source": 1 / 2,
        "warm run, fresh source, asyncio": 0.6,
        "tool call": 1 / 6,
        "tool call, asyncio": 1 / 5,
        "tool call, asyncio, sync tool": 1 / 3,
        "20 tools of 50 ms at once": 1 / 8,
        "load and resume after 1000 calls": 1 / 60,
        "load and resume after 2 s of computing": 1 / 100,
        "memory per session": 1 / 4,
    },
    "inline": {"create and first run": 1 / 100, "tool call": 1 / 10, "load and resume after 1000 calls": 1 / 300},
    "v8": {
        "create and first run": 1 / 25,
        "warm run, fresh source": 1 / 3,
        "tool call": 1 / 6,
        "load and resume after 1000 calls": 1 / 40,
    },
}
"""Ours divided by pydeno's in one run, at most: by isolation, and for the v8 engine."""
COMPUTING: Final = 1.3
"""A session of the v8 engine divided by Deno itself, at most."""
_TOP_LEVEL: Final = "hash"
"""Of the pieces, the one whose loops write to variables of their function."""
_REFILL: Final = 0.03
"""Seconds in which a pool has its workers again: one takes some 4 ms."""
GROWTH: Final = 2.0
"""Image and load after 10,000 calls divided by those after 10, at most."""


@dataclasses.dataclass(frozen=True)
class Question:
    """One row to be."""

    name: str
    probe: str
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    samples: int = 15
    unit: str = "s"
    monty: bool = False


def _questions(quick: bool) -> list[Question]:
    few, crowd = (2, 10) if quick else (5, 50)
    many = 2 if quick else 15
    calls, loads, made, saves = (300, 1, 2, 1) if quick else (1000, 3, 5, 3)
    return [
        Question("create and first run", "create", {"count": made}, samples=few, monty=True),
        Question("create and first run, after a while", "create", {"count": 1}, samples=many, monty=True),
        Question("warm run, fresh source", "warm_run", samples=few, monty=True),
        Question("warm run, fresh source, asyncio", "warm_run_async", samples=few),
        Question("tool call", "tool_call", samples=few, monty=True),
        Question("tool call, asyncio", "tool_call_async", {"count": calls}, samples=few),
        Question("tool call, asyncio, sync tool", "tool_call_async_thread", {"count": calls}, samples=few),
        Question("1000 tool calls at once, per call", "tools_at_once", samples=few),
        Question("20 tools of 50 ms at once", "overlap", samples=few),
        Question("1 MB to a tool and back", "value_1mb", samples=few),
        *(Question(f"dump after {n} calls", "dump", {"history": str(n)}, saves) for n in (0, 10, 1000)),
        *(
            Question(f"load and resume after {n} calls", "load", {"history": str(n), "count": loads}, few)
            for n in (0, 10, 1000)
        ),
        Question("load and resume after 2 s of computing", "load", {"history": "2s", "count": 1}, 1 if quick else 2),
        Question("memory per session", "pss_bytes", {"count": crowd}, 1, "bytes"),
        Question(f"{crowd} sessions at once, 20 calls each", "crowd", {"count": crowd}, 1),
    ]


def measure(*, peers: bool, quick: bool, isolation: Isolation, engine: EngineName = "wasm") -> list[Row]:
    """All rows. With `peers`, each beside pydeno and (where there is an equivalent) pydantic-monty, sampled in turn."""
    import gloveport

    options: dict[str, Any] = {"isolation": isolation, "engine": engine}
    bars = BARS.get("v8" if engine == "v8" else isolation, {})
    probes = Probes(gloveport, options, _spares_of(engine, isolation))
    others = {peer.name: peer for peer in start_peers(PEER, "monty")} if peers else {}
    try:
        probes.create()
        for peer in others.values():
            peer.measure("create")
        rows: list[Row] = []
        for question in _questions(quick):
            if isolation != "process" and question.probe in ("pss_bytes", "crowd"):
                continue
            asked = {name: peer for name, peer in others.items() if name == PEER or question.monty}
            rows += _ask(question, probes, asked, bars.get(question.name))
        if engine == "v8":  # a session is its history here: it grows with it
            return rows + _computing(probes, 3 if quick else 7)
        return rows + _growth(probes, 2 if quick else 7)
    finally:
        probes.close()
        for peer in others.values():
            peer.close()


def _ask(question: Question, probes: Probes, peers: Mapping[str, Peer], bar: float | None) -> list[Row]:
    def ours() -> float:
        return getattr(probes, question.probe)(**question.arguments)

    def theirs(peer: Peer) -> Callable[[], float]:
        return lambda: peer.measure(question.probe, **question.arguments)

    try:
        values = median_of(question.samples, ours, *map(theirs, peers.values()))
    except PeerFailed as error:
        print(f"{question.name}: {error}", file=sys.stderr)
        rest = {name: peer for name, peer in peers.items() if name != error.peer}
        rows = _ask(question, probes, rest, bar)
        if error.peer == PEER and bar is not None:  # what cannot be compared does not count as kept
            rows.append(Row(name=question.name, ours=rows[0].ours, unit=question.unit, bar=bar, ok=False))
        return rows
    alone = Row(name=question.name, ours=values[0], unit=question.unit)
    if not peers:
        return [alone]
    return [
        dataclasses.replace(alone, peer=name, peer_value=value).against(bar if name == PEER else None)
        for name, value in zip(peers, values[1:], strict=True)
    ]


def _spares_of(engine: EngineName, isolation: Isolation) -> Callable[[], None]:
    """Waits, untimed, until what is promised of sessions from a warm pool can be measured: an application does not make one after
    another as fast as it can."""
    if engine == "wasm":
        return lambda: time.sleep(_REFILL if isolation == "process" else 0.0)
    from ..engines.v8.pool import v8_pool

    return v8_pool("require", Limits().max_memory).settle


def _growth(probes: Probes, samples: int) -> list[Row]:
    """Ours against ours: nothing of a session may follow its history."""
    rows: list[Row] = []
    for how, suffix in (("in sequence", ""), ("at once", "+")):
        small, large = f"10{suffix}", f"10000{suffix}"
        for name, unit, probe in (("image", "bytes", "blob_bytes"), ("load and resume", "s", "load")):
            few, many = median_of(
                1 if unit == "bytes" else samples,
                lambda probe=probe, history=small: getattr(probes, probe)(history=history),
                lambda probe=probe, history=large: getattr(probes, probe)(history=history),
            )
            row = Row(
                name=f"{name} after 10000 calls {how}", ours=many, unit=unit, peer="after 10 calls", peer_value=few
            )
            rows.append(row.against(GROWTH))
    return rows


def _computing(probes: Probes, samples: int) -> list[Row]:
    """Pieces of computing, beside Deno itself."""
    rows: list[Row] = []
    bare = Bare()
    session = probes.session()
    try:
        pieces: list[tuple[str, str, float | None]] = [
            (name, in_function(code), COMPUTING) for name, code in KERNELS.items()
        ]
        pieces.append((f"{_TOP_LEVEL} at the top level", KERNELS[_TOP_LEVEL], None))
        for name, code, bar in pieces:
            if in_session(session, code)[1] != bare.run(code)[1]:
                raise RuntimeError(f"a session and Deno do not agree on {name!r}")
            ours, theirs = median_of(
                samples, lambda code=code: in_session(session, code)[0], lambda code=code: bare.run(code)[0]
            )
            row = Row(name=f"computing: {name}", ours=ours, unit="s", peer="deno", peer_value=theirs)
            rows.append(row.against(bar))
    finally:
        session.close()
        bare.close()
    return rows
