"""`gloveport doctor`: each layer of the jail and each part of gloveport, tried out on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..errors import GloveportError
from . import EXIT_OK, EXIT_SANDBOX

if TYPE_CHECKING:
    from ..machines.driver import Capabilities

__all__ = ("arguments", "run")


def arguments(verb: argparse.ArgumentParser) -> None:
    """Its command line."""
    verb.add_argument("--json", action="store_true", help="print the report as JSON")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was tried."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


def run(options: argparse.Namespace) -> int:
    """Try everything. Exit code 4 when `sandbox="require"` would refuse here."""
    findings = [*_layers(), *(_try(name, check) for name, check in _CHECKS)]
    complete = all(finding.ok for finding in findings)
    report = {
        "gloveport": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "user": "root" if os.getuid() == 0 else "ordinary",
        "ok": complete,
        "checks": [dataclasses.asdict(finding) for finding in findings],
    }
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        _show(report, findings)
    return EXIT_OK if complete else EXIT_SANDBOX


def _layers() -> list[Finding]:
    try:
        from ..engines.jail.report import status

        return [
            Finding(f"jail: {layer.layer}", layer.present, layer.detail or layer.what, layer.fix) for layer in status()
        ]
    except Exception as error:
        return [Finding("jail", False, _told(error), "see the message")]


def _try(name: str, check: Callable[[], str]) -> Finding:
    began = time.perf_counter()
    try:
        detail = check()
    except Exception as error:  # also one that nobody expects: the other checks are made all the same
        return Finding(name, False, _told(error), "see the message")
    return Finding(name, True, f"{detail} ({(time.perf_counter() - began) * 1000:.0f} ms)")


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, (GloveportError, _Wrong)) else f"{type(error).__name__}: {error}"


class _Wrong(Exception):
    """Something works, and gives another result than it must."""


def _expect(what: str, expected: object, given: object) -> None:
    if type(given) is not type(expected) or given != expected:
        raise _Wrong(f"{what} gave {given!r:.200} and not {expected!r}")


def _guest() -> str:
    from ..engines.wasm.build import guest_build

    return f"build {guest_build()[:12]}"


def _compiler() -> str:
    from ..engines.defaults import toolbox

    compiled = toolbox("require").compile("const answer: number = 42; return answer")
    _expect("the compiler", ("answer",), compiled.names)
    return "compiles TypeScript in its jail"


_SHOWN = "a page of the doctor"


def _double(value: int) -> int:
    return 2 * value


def _session() -> str:
    from ..host.sync import AgentSandbox

    with AgentSandbox({"double": _double}) as session:
        value: Any = session.run("return await double(21)")
    _expect("a session", 42, value)
    return f"a jailed session called a tool and returned {value}"


def _v8() -> str:
    from ..host.sync import AgentSandbox

    with AgentSandbox({"double": _double}, engine="v8") as session:
        value: Any = session.run("return await double(21)")
    _expect("a session", 42, value)
    return f"a jailed Deno with a memory limit called a tool and returned {value}"


def _modules() -> str:
    import anyio

    from ..host.modules.session import TypeScriptSandboxSession

    async def run() -> Any:
        async with TypeScriptSandboxSession() as session:
            return await session.run_script("const answer = <b>{42}</b>; answer.props.children")

    value = anyio.run(run)
    _expect("a module", 42, value)
    return f"a jailed Deno ran a module with JSX, which returned {value}"


def _widgets() -> str:
    import anyio

    from ..host.widgets.render import render

    widget = anyio.run(render, f"export default () => <p>{_SHOWN}</p>")
    _expect("looking for its text in the page", True, _SHOWN in widget.html)
    return f"a component was built and mounted in their jails, and made a page of {widget.bytes // 1024} KiB"


def _network() -> str:
    from ..engines.jail.command import spawn_jailed
    from ..engines.toolbox.process import program
    from ..host.gateway import gateway
    from ..policy import NetworkRules

    process = spawn_jailed([program(), "--version"], network=True)
    try:
        sockets, process.network = process.network, None
        assert sockets is not None
        ports = "every port" if sockets.watcher >= 0 else "ports 80, 443 and those that rules name"
        gateway().attach(sockets, NetworkRules()).close()
    finally:
        process.close()
        gateway().close()
    return f"a jail's connections reach the gateway, on {ports}"


def _machines() -> str:
    from ..errors import CapabilityError
    from ..host.machines.sync import Sandbox

    has = Sandbox.capabilities()
    if has.isolation == "none":
        raise CapabilityError(f"machines do not start here: {has.problem}", missing=("isolation",), hint="")
    return _given(has)


def _gvisor() -> str:
    from ..host.machines.sync import Sandbox

    has = Sandbox.capabilities("gvisor")
    return f"optional, and not here: {has.problem}" if has.isolation == "none" else _given(has)


def _given(has: Capabilities) -> str:
    limits = ", ".join(f"{name}: {kind}" for name, kind in has.as_dict()["limits"].items())
    by = "" if has.freezer == "none" else f", by {has.freezer}"
    return (
        f"{has.isolation}; limits of {limits}; pause keeps memory in {has.memory_pause}{by}; "
        f"fork: {has.fork}; network: {has.net}; a root that gives files away: {'yes' if has.root_user else 'no'}"
    )


def _typecheck() -> str:
    from ..engines.checker.install import COMMAND, VERSION, find

    if find() is None:
        return f"not installed, and optional: {COMMAND}"
    from ..engines.checker import Question
    from ..engines.defaults import checker

    found = checker("require").check(Question("const answer: number = '42'"))
    if [problem.code for problem in found] != ["TS2322"]:
        said = "; ".join(f"{problem.code} {problem.message}" for problem in found) or "nothing"
        raise _Wrong(f"TypeScript {VERSION} was to find one mistake, TS2322, and found: {said}")
    return f"TypeScript {VERSION} found the mistake in a code, in its jail"


_CHECKS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("guest", _guest),
    ("compiler", _compiler),
    ("session", _session),
    ("engine v8", _v8),
    ("modules", _modules),
    ("network of modules", _network),
    ("widgets", _widgets),
    ("machines", _machines),
    ("machines of gVisor", _gvisor),
    ("type checking", _typecheck),
)


def _show(report: dict[str, Any], findings: list[Finding]) -> None:
    print(f"gloveport {report['gloveport']}, Python {report['python']}, {report['system']}, {report['user']} user\n")
    for finding in findings:
        print(f"{'ok  ' if finding.ok else 'MISSING'} {finding.name}: {finding.detail}")
        if not finding.ok and finding.fix:
            print(f"     → {finding.fix}")
    if not report["ok"]:
        print(
            '\nSessions refuse to start here (sandbox="require"). `sandbox="auto"` runs without what is missing.',
            file=sys.stderr,
        )
