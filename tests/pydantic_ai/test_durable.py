"""Scripts in durable workflows. DBOS runs in processes of their own, which die where they are told to and are started again."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.durable_exec import BaseDurabilityCapability
from pydantic_ai.exceptions import UserError
from scripted import agent_of
from tests.durable import need_dbos

from gloveport.errors import StoreConflict
from gloveport.integrations.pydantic_ai.durable import Attempt, outcome_of, recall
from gloveport.integrations.pydantic_ai.ledger import Conversation, Found, Ledger, Unreadable
from gloveport.pydantic_ai import ToolScript
from gloveport.stores import MemoryStore, Record, SQLiteStore

KEY = b"k" * 32
SCRIPT = "scripts__capability__tool_script.script"


class Life:
    """What came of a workflow, and what really happened."""

    def __init__(self, folder: Path, scenario: str, *fatal: str) -> None:
        need_dbos()
        for line in fatal:
            assert self._run(folder, scenario, line).returncode == 9, "it was to die"
        done = self._run(folder, scenario, "-")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        self.log = (folder / "log").read_text().splitlines()
        self.contents: list[Any] = [content for _, content in told.get("contents", [])]
        self.outcomes = [outcome for outcome, _ in told.get("contents", [])]
        self.steps: list[str] = told["steps"]
        self.told = told

    @staticmethod
    def _run(folder: Path, scenario: str, fatal: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(Path(__file__).with_name("workflow.py")), str(folder), scenario, fatal],
            capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )  # fmt: skip

    def did(self, *kinds: str) -> list[str]:
        return [line for line in self.log if line.split()[0] in kinds]


# ── with DBOS ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_script_is_one_step_with_the_calls_it_makes(tmp_path: Path):
    life = Life(tmp_path, "inside")
    first, second = life.contents
    assert first[0] == first[1] == ["w", 3], "a tool that is a step of its own elsewhere is a plain call in a script"
    assert second == ["w", 6]
    assert life.steps.count(SCRIPT) == 2 and not [step for step in life.steps if "call_tool" in step]


def test_a_script_that_was_recorded_is_not_run_again(tmp_path: Path):
    life = Life(tmp_path, "plain", "model 2")
    assert life.contents == [1, 2, "number"]
    assert life.did("note") == ["note a", "note b"]
    assert life.told["tool_calls"] == 5, "usage is what the engine recorded"


def test_what_was_stored_and_not_recorded_is_given_from_the_store(tmp_path: Path):
    life = Life(tmp_path, "plain", "put 6")
    assert life.contents == [1, 2, "number"]
    assert life.told["tool_calls"] == 5
    assert life.did("note") == ["note a", "note b"]


def test_a_script_whose_process_died_is_said_and_not_repeated(tmp_path: Path):
    life = Life(tmp_path, "plain", "note b")
    assert life.outcomes == ["success", "failed", "success"]
    assert "begun these calls: `note`. What came of its calls is not known" in life.contents[1]
    assert life.contents[2] == "number", "the session is that of before"
    assert life.told["tool_calls"] == 4, "the script that failed is none, the call that it began is one"
    assert life.did("note") == ["note a", "note b"]


@pytest.mark.parametrize("fatal", [[], ["note b"]])
def test_scripts_go_on_to_be_stored_after_one_whose_process_died(fatal: list[str], tmp_path: Path):
    life = Life(tmp_path, "after", *fatal)
    assert life.outcomes == ["success", "failed" if fatal else "success", "success", "success"]
    assert life.contents[2:] == [2, 2]
    assert life.did("note") == ["note a", "note b", "note c"]


def test_an_approval_goes_from_one_run_to_the_next_in_a_workflow(tmp_path: Path):
    life = Life(tmp_path, "approval", "model 1")
    assert life.contents == ["sent to ada", "string"]
    assert life.did("send", "note") == ["send ada", "note after"]
    assert life.did("answered") == ["answered"] * 2, "the workflow was replayed"


def test_a_pause_that_was_stored_and_not_recorded_is_the_same_pause(tmp_path: Path):
    life = Life(tmp_path, "approval", "put 3")
    assert life.contents == ["sent to ada", "string"]
    assert life.did("model") == ["model 0", "model 1", "model 2"]


def test_an_approved_call_whose_process_died_is_not_made_again(tmp_path: Path):
    life = Life(tmp_path, "approval", "send ada")
    assert life.outcomes == ["failed", "success"]
    assert "begun these calls: `send`" in life.contents[0]
    assert life.contents[1] == "undefined"
    assert life.did("send", "note") == ["send ada"]


def test_a_denial_in_a_workflow(tmp_path: Path):
    life = Life(tmp_path, "denied", "model 1")
    assert life.contents == ["not today", 1]
    assert life.did("send") == []


def test_a_usage_limit_ends_the_run_in_a_workflow(tmp_path: Path):
    assert Life(tmp_path, "limit").told["error"] == "UsageLimitExceeded"


def test_a_budget_is_spent_by_a_script_whose_process_died(tmp_path: Path):
    life = Life(tmp_path, "budget", "note b")
    died, lost, again, over = life.contents
    assert "`note` (2 times)" in died
    assert "The session is lost: its process ended while a script ran" in lost
    assert again == 1
    assert "budget" in over.lower()
    assert life.did("note") == ["note a", "note b"]


def test_a_budget_in_a_workflow_whose_process_lives(tmp_path: Path):
    life = Life(tmp_path, "budget")
    assert life.contents[1] == 1
    assert life.did("note") == ["note a", "note b"]


# ── without an engine ────────────────────────────────────────────────────────────────────────────────────────────────


def engine(name: str) -> Any:
    class Engine(BaseDurabilityCapability[Any]):
        @property
        def engine_name(self) -> str:
            return name

    Engine.__abstractmethods__ = frozenset()
    return Engine()


def test_an_engine_that_scripts_do_not_work_with_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="does not work with Temporal.*Use DBOSDurability"):
        agent_of(capability=ToolScript(store=tmp_path / "s", key=KEY), after=[engine("Temporal")])


@pytest.mark.parametrize("store", [None, MemoryStore()])
def test_a_durable_engine_needs_a_store_that_outlives_the_process(store: Any):
    with pytest.raises(UserError, match="a store that outlives the process.*`store=`"):
        agent_of(capability=ToolScript(store=store, key=KEY), after=[engine("DBOS")])
    agent_of(capability=ToolScript(store=store, key=KEY))


def ledger(store: Any) -> Ledger:
    return Ledger(store, KEY, "tool_script", expires=None, max_bytes=1000)


def test_calls_are_charged_before_they_are_made(tmp_path: Path):
    async def act() -> None:
        store = SQLiteStore(tmp_path / "s")
        first = Found(Conversation(spent=3, used={"send": 1}), None)
        await ledger(store).put("c", first)
        await ledger(store).begin("c", first, "send")
        await ledger(store).begin("c", first, "look")
        found = await ledger(store).get("c")
        assert (found.begun, found.conversation.spent) == (["send", "look"], 5)
        assert found.conversation.earlier == 2, "the stored session knows of 3"
        assert found.conversation.used == {"send": 2, "look": 1}
        await ledger(store).put("c", found)
        assert (await ledger(store).get("c")).begun == []
        with pytest.raises(StoreConflict):  # as for a process that was taken for dead
            await ledger(store).begin("c", first, "send")

    asyncio.run(act())


def test_an_attempt_is_known_after_other_runs_and_told_from_them():
    state, mine, other = Conversation(), Attempt("a", "1/c"), Attempt("b", "1/c")
    assert not mine.was_begun(state) and not mine.is_latest(state)
    mine.begin(state)
    assert mine.was_begun(state) and mine.is_latest(state)
    other.begin(state)
    assert mine.was_begun(state) and not mine.is_latest(state)
    assert not Attempt("a", "2/c").was_begun(state)
    other.end(state, outcome_of(recall("run_script", None), 1))
    assert mine.outcome(state) is None
    ended = other.outcome(state)
    assert ended is not None and ended["failures"] == 1


def test_a_noted_call_that_is_missing_or_copied_is_noticed():
    class Meddled(MemoryStore):
        segments: Any = staticmethod(lambda segments: segments)

        def get(self, key: str) -> Record:
            record = super().get(key)
            return dataclasses.replace(record, segments=self.segments(record.segments))

    async def act() -> None:
        store = Meddled()
        found = Found(Conversation(), None)
        await ledger(store).put("c", found)
        await ledger(store).begin("c", found, "send")
        await ledger(store).begin("c", found, "send")
        assert (await ledger(store).get("c")).begun == ["send", "send"]
        for meddle in (
            lambda given: given[:1],
            lambda given: given[::-1],
            lambda given: (given[0], given[0]),
            lambda given: (given[0], b"x"),
        ):
            store.segments = meddle
            with pytest.raises(Unreadable):
                await ledger(store).get("c")

    asyncio.run(act())
