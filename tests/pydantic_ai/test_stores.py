"""Sessions in a store: what is lost is said, what is tampered with is refused, and what was spent stays spent."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ConversationTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.exceptions import UserError
from pydantic_ai.models.function import FunctionModel
from scripted import Mail, agent_of, contents, outcomes

from gloveport.pydantic_ai import ToolScript
from gloveport.stores import MemoryStore, Record, SQLiteStore

KEY = b"k" * 32
SET, GET, AGAIN = "let n = 41; return n", "return n + 1", {"code": "return typeof n", "restart": True}


def started(store: Any, **options: Any) -> tuple[Agent[Any, Any], Any, ToolScript[Any]]:
    """An agent, and a conversation whose session knows `n`."""
    capability = ToolScript[Any](store=store, key=KEY, **options)
    agent = Mail().add_to(agent_of(SET, capability=capability))
    return agent, agent.run_sync("x").conversation, capability


def go_on(agent: Agent[Any, Any], conversation: Any, *turns: Any, capability: ToolScript[Any] | None = None) -> Any:
    conversation = ConversationTypeAdapter.validate_json(ConversationTypeAdapter.dump_json(conversation))
    other = agent if capability is None else Mail().add_to(agent_of(capability=capability))
    with other.override(model=agent_of(*turns).model):
        return other.run_sync("y", conversation=conversation)


def test_a_file_keeps_sessions_for_another_agent_object(tmp_path: Path):
    agent, conversation, _ = started(tmp_path / "s.sqlite")
    other = ToolScript[Any](store=SQLiteStore(tmp_path / "s.sqlite"), key=KEY.hex())
    assert contents(go_on(agent, conversation, GET, capability=other), new=True) == [42]


def test_a_store_that_outlives_the_process_needs_a_key(tmp_path: Path):
    with pytest.raises(UserError, match=r"needs a `key`"):
        ToolScript(store=tmp_path / "s.sqlite")
    with pytest.raises(UserError, match="at least 16 bytes"):
        ToolScript(store=tmp_path / "s.sqlite", key=b"short")
    with pytest.raises(UserError, match="'NO_SUCH_KEY'"):
        ToolScript(store=tmp_path / "s.sqlite", key="env:NO_SUCH_KEY")
    assert not (tmp_path / "s.sqlite").exists()
    assert ToolScript(store=MemoryStore()).key != ToolScript(store=MemoryStore()).key


def test_a_session_that_is_gone_is_said_and_nothing_is_run():
    agent, conversation, _ = started(MemoryStore())
    restarted = ToolScript[Any]()  # as after a restart of the process
    result = go_on(agent, conversation, "return await lookup({name: 'a'})", AGAIN, "return 1", capability=restarted)
    said, again, after = contents(result, new=True)
    assert said.startswith("The session is lost: there is no record of it. Nothing was run")
    assert "restart=true" in said
    assert (again, after) == ("undefined", 1)
    assert contents(go_on(agent, conversation, GET), new=True) == [42]


@pytest.mark.parametrize("lives", [True, False])
def test_an_unused_session_expires(lives: bool):
    class Old(MemoryStore):
        def get(self, key: str) -> Record:
            found = super().get(key)
            return found if lives else dataclasses.replace(found, updated=found.updated - 100)

    agent, conversation, _ = started(Old(), expires=50)
    result = go_on(agent, conversation, GET, AGAIN)
    if lives:
        assert contents(result, new=True)[0] == 42
    else:
        assert "it was not used for more than 50 s" in contents(result, new=True)[0]
        assert contents(result, new=True)[1] == "undefined"


def _flip(blob: bytes) -> bytes:
    return blob[:-20] + bytes([blob[-20] ^ 1]) + blob[-19:]


def _change(path: Path, change: Callable[[bytes], bytes]) -> None:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT key, blob FROM sessions").fetchall()
        for key, blob in rows:
            connection.execute("UPDATE sessions SET blob = ? WHERE key = ?", (change(blob), key))
    connection.close()


@pytest.mark.parametrize(
    "change", [_flip, lambda blob: blob[:60], lambda blob: b"", lambda blob: blob], ids=["flip", "cut", "empty", "none"]
)
def test_a_tampered_record_is_refused_and_not_run(tmp_path: Path, change: Callable[[bytes], bytes]):
    agent, conversation, _ = started(tmp_path / "s.sqlite")
    _change(tmp_path / "s.sqlite", change)
    result = go_on(agent, conversation, GET, AGAIN, "return 1")
    if change(b"x" * 100) == b"x" * 100:
        assert contents(result, new=True) == [42, "undefined", 1]
    else:
        assert contents(result, new=True)[0].startswith("The session is lost: ")
        assert contents(result, new=True)[1:] == ["undefined", 1]


def test_a_tampered_record_does_not_win_a_budget_back(tmp_path: Path):
    agent, conversation, _ = started(tmp_path / "s.sqlite", max_tool_calls=1)
    _change(tmp_path / "s.sqlite", _flip)
    result = go_on(agent, conversation, AGAIN)
    assert outcomes(result)[-1] == "failed"
    assert "what it spent of its tool budgets is not known" in contents(result)[-1]


def test_a_record_of_another_conversation_or_capability_is_refused(tmp_path: Path):
    agent, conversation, _ = started(tmp_path / "s.sqlite")
    other = agent.run_sync("x").conversation
    with sqlite3.connect(tmp_path / "s.sqlite") as connection:
        (blob,) = connection.execute(
            "SELECT blob FROM sessions WHERE key LIKE ?", (f"%{other.conversation_id}",)
        ).fetchone()
        connection.execute("UPDATE sessions SET blob = ? WHERE key LIKE ?", (blob, f"%{conversation.conversation_id}"))
    connection.close()
    assert "not authentic" in contents(go_on(agent, conversation, GET), new=True)[0]
    assert contents(go_on(agent, other, GET), new=True) == [42]
    with sqlite3.connect(tmp_path / "s.sqlite") as connection:
        connection.execute("UPDATE sessions SET key = replace(key, 'tool_script/tool_script/', 'tool_script/twin/')")
    connection.close()
    twin = ToolScript[Any](store=tmp_path / "s.sqlite", key=KEY, id="twin")
    assert "not authentic" in contents(go_on(agent, other, GET, capability=twin), new=True)[0]


def test_an_older_record_put_back_is_refused(tmp_path: Path):
    mail = Mail()
    capability = ToolScript[Any](store=tmp_path / "s.sqlite", key=KEY)
    agent = mail.add_to(agent_of("return await send({to: 'a'})", capability=capability))
    asked = agent.run_sync("x")
    with sqlite3.connect(tmp_path / "s.sqlite") as connection:
        (old,) = connection.execute("SELECT blob FROM sessions").fetchone()
        row = connection.execute("SELECT * FROM sessions").fetchone()
    results = asked.output.build_results(approve_all=True)
    agent.run_sync(conversation=asked.conversation, deferred_tool_results=results)
    assert mail.sent == ["a"]
    for put_back in (
        "UPDATE sessions SET blob = ?",
        "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    ):
        with connection:
            connection.execute(put_back, (old,) if put_back.startswith("UPDATE") else row)
        again = agent.run_sync(conversation=asked.conversation, deferred_tool_results=results)
        assert "an older one than was written last" in contents(again)[0]
    connection.close()
    assert mail.sent == ["a"]


def test_two_runs_of_one_conversation_at_the_same_time_say_what_they_lose():
    agent, conversation, _ = started(MemoryStore())
    saved = ConversationTypeAdapter.dump_json(conversation)

    async def both() -> list[Any]:
        with agent.override(model=agent_of("n += 1; await slow({n: 1}); await slow({n: 2}); return n").model):
            return await asyncio.gather(
                *(agent.run("y", conversation=ConversationTypeAdapter.validate_json(saved)) for _ in range(2))
            )

    ends = [contents(result, new=True)[0] for result in asyncio.run(both())]
    kept, lost = sorted(ends, key=lambda end: isinstance(end, dict))
    assert kept == 42
    assert lost["result"] == 42
    assert "what this script declared is lost" in lost["notes"][0]
    assert contents(go_on(agent, conversation, "return n"), new=True) == [42]


def test_a_session_that_another_run_took_further_is_taken_up_there():
    agent, conversation, _ = started(MemoryStore())
    saved = ConversationTypeAdapter.dump_json(conversation)
    turns = iter(["n = 42; return n", "return n", None])

    async def model(messages: Any, info: Any) -> ModelResponse:
        code = next(turns)
        if code == "return n":
            with agent.override(model=agent_of("n += 8; return n").model):
                await agent.run("meanwhile", conversation=ConversationTypeAdapter.validate_json(saved))
        return ModelResponse(parts=[TextPart("end") if code is None else ToolCallPart("run_script", {"code": code})])

    with agent.override(model=FunctionModel(model)):
        result = agent.run_sync("y", conversation=ConversationTypeAdapter.validate_json(saved))
    assert contents(result, new=True) == [42, 50]


def test_a_state_that_is_too_large_to_be_stored_is_said_now_and_later():
    code = "globalThis.big = Array.from({length: 60000}, () => Math.random()); return 1"
    agent, conversation, capability = started(MemoryStore(), max_journal_bytes=200_000)
    result = go_on(agent, conversation, code, "return big.length")
    first, second = contents(result, new=True)
    assert "too large to be stored" in first["notes"][0]
    assert second["result"] == 60000
    later = go_on(agent, result.conversation, GET)
    assert "its state was too large to be stored" in contents(later, new=True)[0]
    roomy, other, _ = started(MemoryStore())
    assert contents(go_on(roomy, other, code, "return big.length"), new=True) == [1, 60000]


def test_the_default_store_forgets_the_sessions_that_were_used_least_recently(monkeypatch: pytest.MonkeyPatch):
    from gloveport.integrations.pydantic_ai import capability

    monkeypatch.setattr(capability, "_MAX_SESSIONS", 2)
    agent = Mail().add_to(agent_of(SET))
    first, second = (agent.run_sync("x").conversation for _ in range(2))
    assert contents(go_on(agent, first, GET), new=True) == [42]
    agent.run_sync("x")
    assert contents(go_on(agent, first, GET), new=True) == [42]
    assert "there is no record of it" in contents(go_on(agent, second, GET), new=True)[0]
