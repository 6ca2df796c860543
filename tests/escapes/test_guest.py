"""Each attack of this folder, in each isolation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gloveport import AgentSandbox

CASES = sorted(Path(__file__).parent.glob("*/*.js"))
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def fail():
    raise ValueError("secret")


@pytest.fixture(scope="module", params=["inline", "process", "shared"])
def sibling(request):
    """A session that waits at a call while its neighbour attacks."""
    with AgentSandbox({"t": lambda x: x}, isolation=request.param, timeout=30) as session:
        session.run("let kept = ['mine']")
        yield request.param, session


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_attack(path, sibling):
    isolation, neighbour = sibling
    head, _, code = path.read_text("utf-8").partition("\n")
    case = json.loads(head.removeprefix("// "))
    calls = []

    def t(*args):
        calls.append(["t", list(args)])
        return args[0] if args else None

    while neighbour.pending is not None:  # a case before this one failed
        neighbour.resume(neighbour.pending, None)
    neighbour.run("kept.length = 1")
    waiting = neighbour.start("kept.push(await t('?')); return kept")
    limits = {"timeout": case.get("timeout", 10), "max_memory": case.get("memory", 128) << 20, "max_tool_calls": 2000}
    with AgentSandbox({"t": t, "fail": fail}, isolation=isolation, **limits) as session:
        session.run("let before = 1")
        result = session.execute(code)
        check(case["expect"], result, calls)
        after = session.execute("return typeof before")
        assert (after.status, after.result) == ("Succeeded", "number") or path.parent.name == "tamper", after
        session.execute("return 1")
    # the neighbour neither moved nor lost anything
    assert neighbour.pending == waiting
    assert neighbour.resume(waiting, "answer").value[-1] == "answer"
    assert neighbour.run("kept.length = 1; return kept") == ["mine"]
    assert neighbour.lost_runs == 0


def check(expect, result, calls):
    for field in ("status", "error_type"):
        if field in expect:
            allowed = expect[field] if isinstance(expect[field], list) else [expect[field]]
            assert getattr(result, field) in allowed, result
    if "result" in expect:
        assert result.result == expect["result"], result
    if "calls" in expect:
        assert calls == expect["calls"]
    if expect.get("clean"):
        assert not CONTROL.search(result.stdout + result.stderr + (result.error or ""))
    assert "secret" not in json.dumps(result.to_dict())


def test_there_are_enough():
    assert len(CASES) >= 40
