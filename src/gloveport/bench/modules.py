"""`gloveport bench modules`: what a module call costs, beside the peer, and against the promises of `SPECIFICATION.md`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .module_probes import ModuleProbes
from .peers import Peer, start_peers
from .probes import descendants, pss_of
from .report import Row, median_of

__all__ = ("BARS", "measure")

PEER: Final = "belgie"
BARS: Final[Mapping[str, float]] = {
    "new session and first call": 1 / 3,
    "warm call, fresh source": 1 / 10,
    "20 sessions that sleep for 200 ms": 1 / 8,
    "20 sessions that compute for 100 ms each": 1 / 1.5,
    "1 MB result": 1 / 5,
}
"""Ours divided by belgie's in one run, at most."""
BESIDE: Final = 2.0
"""A trivial call beside a session in an endless loop, divided by one beside none, at most."""
STALL: Final = 0.020
"""Seconds that the event loop may stand still for 1 MB."""
GROWTH: Final = 1.1
"""What 1,000 calls in one session may leave, divided by what there was after 200."""

_QUESTIONS: Final = (
    ("cold start, no pool yet", "cold", 5),
    ("new session and first call", "new_session", 15),
    ("warm call, fresh source", "warm_call", 15),
    ("20 sessions that sleep for 200 ms", "sleeps", 3),
    ("20 sessions that compute for 100 ms each", "computes", 3),
    ("1 MB result", "result_1mb", 7),
)


def measure(*, peers: bool, quick: bool) -> list[Row]:
    """All rows. With `peers`, beside belgie, sampled in turn; that needs Python 3.12."""
    probes = ModuleProbes("gloveport", "TypeScriptSandboxSession")
    peer = start_peers(PEER)[0] if peers else None
    try:
        rows = _beside_peer(probes, peer, quick=quick)
    finally:
        if peer is not None:
            peer.close()  # before memory is counted: it is a child of this process
    try:
        return rows + _growth(probes, 300 if quick else 1000)
    finally:
        probes.close()


def _beside_peer(probes: ModuleProbes, peer: Peer | None, *, quick: bool) -> list[Row]:
    probes.new_session()
    turns = _turns_for(0.1, probes)
    rows: list[Row] = []
    for name, probe, samples in _QUESTIONS:
        arguments = {"turns": turns} if probe == "computes" else {}
        rows.append(_row(name, probe, max(1, samples // 3) if quick else samples, probes, peer, arguments))
    rows.append(_stall(probes, 3 if quick else 7))
    rows.append(_beside(probes, 1 if quick else 5))
    return rows


def _turns_for(seconds: float, probes: ModuleProbes) -> int:
    """How often a session goes around in a loop in that time."""
    turns = 100_000_000
    return int(turns * seconds / min(probes.computes(1, turns) for _ in range(3)))


def _row(
    name: str, probe: str, samples: int, probes: ModuleProbes, peer: Peer | None, arguments: dict[str, int]
) -> Row:
    def ours() -> float:
        if probe == "new_session":
            _settle()
        return getattr(probes, probe)(**arguments)

    if peer is None:
        return Row(name=name, ours=median_of(samples, ours)[0], unit="s")

    def theirs() -> float:
        return peer.measure(probe, **arguments)

    value, other = median_of(samples, ours, theirs)
    bar = BARS.get(name)
    ratio = value / other
    ok = None if bar is None else ratio <= bar
    return Row(name=name, ours=value, unit="s", peer=PEER, peer_value=other, ratio=ratio, bar=bar, ok=ok)


def _settle() -> None:
    """Waits, untimed, for the pool's spares: an application does not make one session after another as fast as it can."""
    from ..engines.modules.pool import module_pool
    from ..engines.modules.profile import Profile

    module_pool("require", Profile()).settle()


def _against(name: str, value: float, other: float, what: str, bar: float, unit: str = "s") -> Row:
    ratio = value / other
    return Row(name=name, ours=value, unit=unit, peer=what, peer_value=other, ratio=ratio, bar=bar, ok=ratio <= bar)


def _stall(probes: ModuleProbes, samples: int) -> Row:
    return _against("event loop during a 1 MB result", median_of(samples, probes.stall_1mb)[0], STALL, "at most", 1.0)


def _beside(probes: ModuleProbes, samples: int) -> Row:
    loaded, idle = median_of(samples, probes.beside_loop, probes.warm_call)
    return _against("trivial call beside an endless loop", loaded, idle, "beside none", BESIDE)


def _growth(probes: ModuleProbes, calls: int) -> list[Row]:
    """Ours against ours: nothing may follow the number of calls."""
    probes.calls(calls // 5)
    before = _held()
    probes.calls(calls - calls // 5)
    after = _held()
    return [
        _against(f"{what} after {calls} calls", after[what], before[what], f"after {calls // 5}", GROWTH, unit)
        for what, unit in (("memory", "bytes"), ("descriptors", "open"), ("threads", "running"))
    ]


def _held() -> dict[str, float]:
    """By this process and those below it."""
    pids = [os.getpid(), *descendants(os.getpid())]
    return {
        "memory": float(pss_of(pids)),
        "descriptors": float(sum(_count(f"/proc/{pid}/fd") for pid in pids)),
        "threads": float(sum(_count(f"/proc/{pid}/task") for pid in pids)),
    }


def _count(folder: str) -> int:
    try:
        return len(list(Path(folder).iterdir()))
    except OSError:  # it ended
        return 0
