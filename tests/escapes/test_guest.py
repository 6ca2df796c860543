"""Each attack of this folder, on each engine and in each isolation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gloveport import AgentSandbox
from gloveport.engines.wasm import link
from gloveport.engines.wasm.handle import Worker

from ..conftest import SETTINGS

FOLDER = Path(__file__).parent
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
FIELDS = {"timeout", "status", "error_type", "error", "line", "result", "calls", "clean", "killed"}


def load(path):
    head, _, code = path.read_text("utf-8").partition("\n")
    case = json.loads(head.removeprefix("// "))
    assert set(case) <= {"timeout", "memory", "settings", "engines", "expect"}
    for expect in (case["expect"], *case.get("engines", {}).values()):
        assert set(expect) <= FIELDS and "status" in expect, path
    return case, code


CASES = {f"{path.parent.name}-{path.stem}": (path.parent.name, *load(path)) for path in sorted(FOLDER.glob("*/*.js"))}
PAIRS = [
    pytest.param(setting, name, id=f"{setting}-{name}")
    for setting in SETTINGS
    for name, (_, case, _) in CASES.items()
    if setting in case.get("settings", SETTINGS)
]


def fail():
    raise ValueError("secret")


@pytest.fixture(scope="module")
def siblings():
    """A session of each setting, which waits at a call while its neighbour attacks."""
    made = {}
    yield lambda setting: made.get(setting) or made.setdefault(setting, waiting(setting))
    for session in made.values():
        session.close()


def waiting(setting):
    session = AgentSandbox({"t": lambda x: x}, **SETTINGS[setting], timeout=30)
    session.run("let kept = ['mine']")
    return session


@pytest.fixture
def kills(monkeypatch):
    """Workers that did not react to the interrupt."""
    killed, really = [], Worker.kill
    monkeypatch.setattr(Worker, "kill", lambda worker: (killed.append(worker.pid), really(worker)))
    return killed


@pytest.mark.parametrize(("setting", "name"), PAIRS)
def test_attack(setting, name, siblings, kills, monkeypatch):
    area, case, code = CASES[name]
    expect = case.get("engines", {}).get(SETTINGS[setting]["engine"], case["expect"])
    if not expect.get("killed"):
        monkeypatch.setattr(link, "GRACE", 2.0)  # on a busy machine too: code that can be interrupted is
    neighbour = siblings(setting)
    calls = []

    def t(*args):
        calls.append(["t", list(args)])
        return args[0] if args else None

    while neighbour.pending is not None:  # a case before this one failed
        neighbour.resume(neighbour.pending, None)
    neighbour.run("kept.length = 1")
    step = neighbour.start("kept.push(await t('?')); return kept")
    limits = {
        "timeout": expect.get("timeout", case.get("timeout", 10)),
        "max_memory": case.get("memory", 128) << 20,
        "max_tool_calls": 2000,
    }
    with AgentSandbox({"t": t, "fail": fail}, **SETTINGS[setting], **limits) as session:
        session.run("let before = 1")
        result = session.execute(code)
        check(expect, result, calls)
        assert len(kills) == bool(expect.get("killed"))  # of the wasm engine: v8 is always killed
        after = session.execute("return typeof before")
        assert (after.status, after.result) == ("Succeeded", "number") or area == "tamper", after
        session.execute("return 1")
    # the neighbour neither moved nor lost anything
    assert neighbour.pending == step
    assert neighbour.resume(step, "answer").value[-1] == "answer"
    assert neighbour.run("kept.length = 1; return kept") == ["mine"]
    assert neighbour.lost_runs == 0


def check(expect, result, calls):
    for field in ("status", "error_type", "error", "line", "result"):
        if field in expect:
            assert getattr(result, field) == expect[field], (field, result)
    if "calls" in expect:
        assert calls == expect["calls"]
    if expect.get("clean"):
        assert not CONTROL.search(result.stdout + result.stderr + (result.error or ""))
    assert len(result.error or "") < 5000
    assert (result.line is None and result.column is None) or (result.line or 0) >= 1
    assert "secret" not in json.dumps(result.to_dict())


@pytest.mark.parametrize("ask", [None, ["t"]], ids=["start", "ask"])
def test_arguments_that_cannot_cross_do_not_end_a_run_that_is_driven_step_by_step(either, ask):
    """The guest is told, as it is in `run`, and the next call is handed out."""
    code = (
        "const told = [];"
        "for (const v of [new Date(NaN), 10n ** 5000n, 7]) try { told.push(await t(v)) } catch (e) { told.push(e.name) }"
        "return told"
    )
    with AgentSandbox({"t": lambda x: x}, **either) as session:
        step = session.start(code, ask=ask)
        assert step.args == (7,)
        assert session.resume(step, 8).value == ["TypeError", "TypeError", 8]


def test_there_are_enough():
    assert len(CASES) >= 150
    assert {area for area, _, _ in CASES.values()} == {
        "cpu",
        "depth",
        "forge",
        "later",
        "loops",
        "memory",
        "reach",
        "realm",
        "tamper",
    }
