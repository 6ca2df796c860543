"""`gloveport doctor` believes nothing, and tells everything."""

from __future__ import annotations

import argparse
import json

import pytest

from gloveport import TypeProblem
from gloveport.cli import doctor
from gloveport.engines.checker import Checker, install


def test_a_check_that_fails_unexpectedly_does_not_hide_the_others(monkeypatch, capsys):
    def broken():
        raise ValueError("nobody expects this")

    monkeypatch.setattr(doctor, "_CHECKS", (("one", broken), ("other", lambda: "fine")))
    monkeypatch.setattr("gloveport.engines.jail.report.status", broken)
    assert doctor.run(argparse.Namespace(json=True)) != 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [(check["name"], check["ok"]) for check in checks] == [("jail", False), ("one", False), ("other", True)]
    assert checks[1]["detail"] == "ValueError: nobody expects this"
    assert all(check["fix"] for check in checks if not check["ok"])


@pytest.mark.parametrize(
    ("found", "ok"),
    [
        ([TypeProblem(1, 7, "TS2322", "m")], True),
        ([], False),
        ([TypeProblem(0, 0, "Unchecked", "took longer")], False),
        ([TypeProblem(1, 7, "TS2322", "m")] * 2, False),
    ],
    ids=["the mistake", "nothing", "unchecked", "twice"],
)
def test_type_checking_is_right_when_it_finds_the_mistake(monkeypatch, found, ok):
    monkeypatch.setattr(install, "find", lambda: object())
    monkeypatch.setattr(Checker, "check", lambda *_, **more: found)
    finding = doctor._try("type checking", doctor._typecheck)
    assert finding.ok is ok
    assert (
        ok
        or "Unchecked took longer" in finding.detail
        or "found: nothing" in finding.detail
        or "m; TS2322" in finding.detail
    )


@pytest.mark.parametrize("check", [doctor._session, doctor._v8])
def test_a_session_is_right_when_it_returns_what_it_must(monkeypatch, check):
    assert doctor._try("session", check).ok
    monkeypatch.setattr(doctor, "_double", lambda value: 2 * value - 1)
    finding = doctor._try("session", check)
    assert not finding.ok
    assert "gave 41" in finding.detail
