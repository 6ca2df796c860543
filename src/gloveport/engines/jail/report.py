"""What the jail can do on this machine, measured by putting one up in a throw-away process: `status`, for `gloveport doctor`."""

from __future__ import annotations

import json
import os
import socket
from typing import Any, Final, NamedTuple

from gloveport.engines.jail import enter, filters, landlock, layers, selftest, syscalls
from gloveport.engines.jail.child import HelperProcess
from gloveport.engines.jail.keeper import keep
from gloveport.engines.jail.probes import Surroundings
from gloveport.errors import EngineUnavailableError

__all__ = ("SELF_TEST", "LayerReport", "main", "status")

SELF_TEST: Final = "self-test"
"""The name of the last entry: what a jailed worker could do in spite of all layers."""

_TIMEOUT: Final = 30.0


class LayerReport(NamedTuple):
    """One layer on this machine."""

    layer: str
    what: str
    """What it takes away from a hostile worker."""
    present: bool
    detail: str
    """Why it is missing; or how far it reaches where that depends on the kernel; or empty."""
    fix: str
    """What to do when it is missing."""


def status() -> list[LayerReport]:
    """Every layer in the order in which it is put up, and the self-test last. Takes some 50 ms.

    Raises `EngineUnavailableError` when no process can be started.
    """
    if not syscalls.supported():
        return [LayerReport(m.layer, layers.BY_NAME[m.layer].what, False, m.why, m.fix) for m in layers.unsupported()]
    greeting = _examine()
    missing = {m.layer: m for m in (layers.Missing(*entry) for entry in greeting["missing"])}
    reports: list[LayerReport] = []
    for layer in layers.LAYERS:
        lost = missing.get(layer.name)
        detail = lost.why if lost else _landlock_detail(greeting["landlock_abi"]) if layer.name == "landlock" else ""
        reports.append(LayerReport(layer.name, layer.what, lost is None, detail, lost.fix if lost else ""))
    possible: list[str] = greeting["possible"]
    reports.append(
        LayerReport(
            SELF_TEST,
            "whatever a worker that was taken over would try first",
            not possible,
            f"possible inside of a worker: {', '.join(possible)}" if possible else "",
            "put up the layers that are missing" if possible else "",
        )
    )
    return reports


def _landlock_detail(abi: int) -> str:
    reach = [(1, "files"), (4, "TCP"), (landlock.SCOPES_ABI, "signals, abstract unix sockets")]
    return f"ABI {abi}: {', '.join(what for since, what in reach if abi >= since)}"


def _examine() -> dict[str, Any]:
    helper = HelperProcess("gloveport.engines.jail.report")
    with helper.control as control:
        control.settimeout(_TIMEOUT)
        try:
            packet = control.recv(65536)
        except TimeoutError:
            packet = b""
        if not packet:
            said = helper.said()
            helper.reap(0.5)
            raise EngineUnavailableError(f"the jail cannot be examined: {said or 'its process said nothing'}")
        helper.reap()
    return json.loads(packet)


def main(arguments: list[str]) -> None:
    """Entry of the throw-away process. `arguments`: control socket, host's pidfd."""
    control_fd, host = map(int, arguments)
    os.environ.clear()
    entered = enter.enter(enter.WORKERS, lambda pid: keep(pid, host), seed=os.getpid())
    names = {m.layer for m in entered.missing}
    outer = os.getpid()
    inner, channel = socket.socketpair()
    if os.fork() == 0:
        try:
            inner.close()
            with_landlock, with_seccomp = "landlock" not in names, "seccomp" not in names
            enter.harden_child(filters.worker(), with_landlock=with_landlock, with_seccomp=with_seccomp)
            aim = Surroundings(outer, control_fd, frozenset({0, 1, 2, control_fd, host, channel.fileno()}))
            channel.sendall(json.dumps(selftest.possible(aim)).encode() + b"\n")
        finally:
            os._exit(0)
    channel.close()
    text = b""
    while more := inner.recv(65536):
        text += more
    possible = json.loads(text) if text.endswith(b"\n") else ["the self-test itself (it did not finish)"]
    greeting = {"missing": entered.missing, "possible": possible, "landlock_abi": entered.landlock_abi}
    os.write(control_fd, json.dumps(greeting).encode())
    os._exit(0)
