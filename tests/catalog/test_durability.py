"""What was found is part of a session's state, and a stored session is bound to its catalog."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox, AsyncAgentSandbox, JournalError, ToolCatalog
from gloveport.engines.wasm.engine import WasmEngine

from .conftest import KEY, office_tool

FIND = "await search_tools('weather'); return 1"
USE = "return (await tools.get_weather({city: 'x'}))[0]"
OTHER = "try { await tools.send_email({}) } catch (e) { return e.name }"


def load(blob, catalog, **options):
    return AgentSandbox.load(blob, KEY, {}, tools_catalog=catalog, isolation="inline", **options)


def inline(catalog, **options):
    return AgentSandbox({}, tools_catalog=catalog, isolation="inline", **options)


@pytest.mark.parametrize("journal", [False, True])
def test_it_survives_dump_and_load(office, journal):
    with inline(office) as session:
        session.run(FIND)
        blob = session.dump(KEY, journal=journal)
    with load(blob, office[::-1]) as copy:
        assert copy.discovered_tools == ("get_weather",)
        assert (copy.run(USE), copy.run(OTHER)) == ("get_weather", "ToolNotDiscoveredError")


def test_it_survives_a_pause_at_a_call_of_the_catalog(office):
    with inline(office, max_tool_calls=3) as session:
        step = session.start(
            "await search_tools('weather'); return await tools.get_weather({city: 'x'})", ask=["get_weather"]
        )
        blob = session.dump(KEY)
    with load(blob, office) as copy:
        assert copy.pending == step
        assert copy.call(step) == ["get_weather", {"city": "x"}]
        assert copy.resume(copy.pending, "sunny").value == "sunny"
        assert (copy.calls_made, copy.calls_remaining) == (2, 1)


def test_a_search_may_be_answered_after_a_load(office):
    with inline(office) as session:
        session.start(
            "await search_tools('x'); return (await tools.delete_user({user_id: 'x'}))[0]", ask=["search_tools"]
        )
        blob = session.dump(KEY)
    with load(blob, office) as copy:
        assert copy.discovered_tools == ()
        assert copy.resume(copy.pending, [{"name": "delete_user"}]).value == "delete_user"


def test_it_survives_a_fork_and_each_goes_on_for_itself(office):
    with inline(office) as session:
        session.run(FIND)
        with session.fork() as branch:
            assert branch.run(USE) == "get_weather"
            branch.run("await describe_tool('send_email')")
            assert branch.discovered_tools == ("get_weather", "send_email")
            assert session.discovered_tools == ("get_weather",)
            assert session.run(OTHER) == "ToolNotDiscoveredError"


def test_it_survives_a_run_that_is_rolled_back(office):
    """The model may have read the answer all the same."""
    with inline(office, timeout=0.05) as session:
        assert session.execute("await search_tools('weather'); for (;;);").error_type == "RuntimeTimeout"
        assert session.discovered_tools == ("get_weather",)
        assert session.run(USE) == "get_weather"
        blob = session.dump(KEY, journal=True)
    with load(blob, office) as copy:
        assert (copy.discovered_tools, copy.run(USE)) == (("get_weather",), "get_weather")


def test_it_survives_a_replay_of_the_journal_by_another_guest_build(office, monkeypatch):
    calls = []
    office[3] = office_tool("get_weather", "weather", ["city"], lambda args: calls.append(args) or "sunny")
    with inline(office) as session:
        session.run("try { await tools.get_weather({}) } catch (e) { globalThis.first = e.message }")
        session.run(FIND)
        session.run("globalThis.now = await tools.get_weather({city: 'x'})")
        session.execute("await tools.no_such({})")
        blob = session.dump(KEY, journal=True)
        expected = session.run("return [first, now]")
    calls.clear()
    monkeypatch.setattr(WasmEngine, "build", property(lambda self: "another build"))
    with load(blob, office) as copy:
        assert copy.run("return [first, now]") == expected
        assert calls == []
        assert copy.run("return await tools.get_weather({city: 'x'})") == "sunny"
        assert copy.run(OTHER) == "ToolNotDiscoveredError"


def test_a_dump_belongs_to_its_catalog(office):
    with inline(office) as session:
        session.run(FIND)
        blob = session.dump(KEY)
    with inline(None) as session:
        bare = session.dump(KEY)
    for catalog, told in (
        (office[:-1], r"another tool catalog: 8 tools \(\w+\) there, 7 tools \(\w+\) here$"),
        (
            [tool for tool in office if tool.name != "get_weather"],
            "missing here, of those it found: \\['get_weather'\\]",
        ),
        ([*office[:-1], office_tool("other", "", [])], "another tool catalog"),
        (None, "made with a tool catalog"),
    ):
        with pytest.raises(JournalError, match=told):
            load(blob, catalog)
    with pytest.raises(JournalError, match="made with no tool catalog"):
        load(bare, office)
    load(blob, ToolCatalog(office)).close()
    load(bare, None).close()


def test_a_dump_is_not_larger_for_a_large_catalog(office):
    def size(catalog):
        with inline(catalog, random_seed=1, clock=1) as session:
            return len(session.dump(KEY))

    many = [office_tool(f"some_tool_with_a_name_{i}", "text", []) for i in range(3000)]
    assert size(many) <= size(office) + 200


async def test_blobs_of_both_classes_are_the_same(office, anyio_backend):
    async with AsyncAgentSandbox({}, tools_catalog=office, isolation="inline") as session:
        await session.run(FIND)
        blob = await session.dump(KEY)
        async with await session.fork() as branch:
            assert branch.discovered_tools == ("get_weather",)
    with load(blob, office) as copy:
        assert copy.run(USE) == "get_weather"
        again = copy.dump(KEY)
    loaded = await AsyncAgentSandbox.load(again, KEY, {}, tools_catalog=office, isolation="inline")
    async with loaded:
        assert await loaded.run(USE) == "get_weather"
