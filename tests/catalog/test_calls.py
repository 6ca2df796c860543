"""Finding, describing and calling tools of a catalog, and what is refused."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox, AsyncAgentSandbox, SchemaTool, ToolCall, ToolCatalog, ToolNotFoundError
from gloveport.core import discovery

from .conftest import office_tool


def failure(session, code):
    result = session.execute(code)
    assert not result.ok, result
    return result.error_type, result.error


def test_a_found_tool_can_be_called_and_stays_so(session):
    hits = session.run("const hits = await search_tools('translate a text'); return hits")
    assert hits[0] == {"name": "translate_text", "description": "Translate a text into another language.", "score": 1}
    assert session.run("return await tools.translate_text({text: 'hi', to: 'de'})") == [
        "translate_text",
        {"text": "hi", "to": "de"},
    ]
    assert session.discovered_tools == ("translate_text",)
    assert session.run("return [typeof tools, typeof tools.translate_text]") == ["object", "function"]


def test_a_described_tool_can_be_called(session):
    told = session.run("return await describe_tool('list_invoices')")
    assert told == {
        "name": "list_invoices",
        "description": "All invoices of a customer, newest first.",
        "input_schema": {
            "type": "object",
            "properties": {"customer_id": {"type": "string"}, "limit": {"type": "string"}},
            "required": ["customer_id"],
        },
        "output_schema": None,
        "typescript": told["typescript"],
        "usage": 'await tools.list_invoices({customer_id: "..."})',
    }
    assert "function list_invoices(args: {\n    customer_id: string;\n    limit?: string;\n  })" in told["typescript"]
    assert session.run("return (await tools.list_invoices({customer_id: '1'}))[0]") == "list-invoices"
    assert session.discovered_tools == ("list-invoices",)


def test_several_tools_are_described_at_once(session):
    code = "return (await describe_tool(['get_weather', 'list-invoices'])).map(t => t.name)"
    assert session.run(code) == ["get_weather", "list_invoices"]
    assert session.discovered_tools == ("get_weather", "list-invoices")
    assert session.calls_made == 1
    assert failure(session, "await describe_tool(['get_weather', 'nope'])")[0] == "ToolNotFoundError"
    assert failure(session, "await describe_tool([])")[0] == "ToolArgumentError"
    assert failure(session, "await describe_tool(Array(51).fill('get_weather'))")[0] == "ToolArgumentError"
    assert failure(session, "await describe_tool(7)")[0] == "ToolArgumentError"


def test_what_was_not_found_yet_is_refused_and_the_model_told_why(session):
    kind, text = failure(session, "return await tools.get_weather({city: 'Paris'})")
    assert kind == "ToolNotDiscoveredError"
    assert '`await search_tools("...")`' in text
    assert 'describe_tool("get_weather")' in text
    assert (
        session.run("await search_tools('weather'); return (await tools.get_weather({city: 'Paris'}))[0]")
        == "get_weather"
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("get_wether", "did you mean `get_weather`?"),
        ("translation", "did you mean `translate_text`?"),
        ("['list-invoices']", "did you mean `list_invoices`?"),
        ("now", "call `now(...)`"),
        ("zzzzzz", "no tool is called `zzzzzz`. Find tools"),
        ("['x'.repeat(1e6)]", "xxx…`. Find tools"),
        ("['\\ud800`']", "Find tools"),
    ],
)
def test_what_does_not_exist_is_refused_with_a_hint(session, name, told):
    call = f"tools{name}" if name.startswith("[") else f"tools.{name}"
    kind, text = failure(session, f"return await {call}({{}})")
    assert kind == "ToolNotFoundError"
    assert told in text
    assert len(text) < 400


def test_a_refused_call_is_not_charged(office):
    with AgentSandbox([], tools_catalog=office, isolation="inline", max_tool_calls=2, max_host_calls=2) as session:
        code = "const no = await Promise.allSettled(Array.from({length: 9}, () => tools.get_weather({}))); "
        code += "await search_tools('weather'); await tools.get_weather({city: 'x'}); return no.map(n => n.reason.name)"
        assert session.run(code) == ["ToolNotDiscoveredError"] * 9
        assert (session.calls_made, session.calls_remaining) == (2, 0)
        assert failure(session, "await tools.get_weather({})")[0] == "ToolBudgetError"
        assert failure(session, "await search_tools('weather')")[0] == "ToolBudgetError"
        assert failure(session, "await tools.send_email({})")[0] == "ToolNotDiscoveredError"


def test_looking_up_similar_names_is_limited(office, monkeypatch):
    asked = []
    catalog = ToolCatalog(office)
    search = catalog.search
    monkeypatch.setattr(catalog, "search", lambda *args: asked.append(args) or search(*args))
    code = "await Promise.allSettled(Array.from({length: 500}, (_, i) => tools['get_wether' + i]({}))); return 1"
    with AgentSandbox([], tools_catalog=catalog, isolation="inline") as session:
        assert session.run(code) == 1
        assert len(asked) == discovery._HINTS
        texts = session.run(
            code.replace("await ", "const all = await ", 1).replace("return 1", "return all.map(p => p.reason.message)")
        )
        assert ["did you mean" in text for text in texts] == [True] * discovery._HINTS + [False] * (
            500 - discovery._HINTS
        )
        assert len(texts[-1]) < 60
        del asked[: discovery._HINTS]
        assert session.run(code) == 1
        assert len(asked) == 2 * discovery._HINTS


def test_a_tool_of_the_catalog_has_its_own_budget(office):
    office[3] = {"name": "get_weather", "description": "weather", "callable": lambda args: 1, "max_calls": 1}
    with AgentSandbox([], tools_catalog=office, isolation="inline", tool_budgets={"send_email": 1}) as session:
        session.run("await describe_tool(['get_weather', 'send_email', 'delete_user'])")
        for tool in ("get_weather", "send_email"):
            assert session.run(f"await tools.{tool}({{to: 'x'}}); return 1") == 1
            assert failure(session, f"await tools.{tool}({{to: 'x'}})")[0] == "ToolBudgetError"
        assert (
            session.run("await tools.delete_user({user_id: 'x'}); await tools.delete_user({user_id: 'x'}); return 1")
            == 1
        )
    with pytest.raises(ValueError, match="`tool_budgets` names 'sned_email'"):
        AgentSandbox([], tools_catalog=office, isolation="inline", tool_budgets={"sned_email": 1})


@pytest.mark.parametrize("query", ["''", "'   '", "'the of and'", "'?!'", "7", "null", ""])
def test_a_search_for_nothing_finds_nothing_and_says_so(session, query):
    kind, text = failure(session, f"return await search_tools({query})")
    assert kind in ("ToolArgumentError", "TypeError")
    assert "search_tools(" in text
    assert session.discovered_tools == ()


def test_limits_are_clamped(office):
    many = [*office, *(office_tool(f"report_{i:03}", "x" * 300, []) for i in range(80))]
    with AgentSandbox([], tools_catalog=many, isolation="inline") as session:
        for limit, count in (
            ("", 10),
            (", 3", 3),
            (", 0", 1),
            (", -5", 1),
            (", 1e9", 50),
            (", 2.9", 2),
            (", null", 10),
        ):
            assert session.run(f"return (await search_tools('report'{limit})).length") == count, limit
        assert session.run("return (await search_tools({query: 'report', limit: 4})).length") == 4
        for bad in ("NaN", "'3'", "true", "{}"):
            assert failure(session, f"await search_tools('report', {bad})")[0] == "ToolArgumentError"
        assert session.run("return (await search_tools('report'))[0].description") == "x" * 199 + "…"
        assert session.run("return (await describe_tool('report_000')).description") == "x" * 300


def test_searches_are_steps_and_whoever_answers_them_decides_what_is_found(session):
    step = session.start(
        "const [hit] = await search_tools('weather', 3); return await tools.send_email({to: hit.name})"
    )
    assert step == ToolCall("search_tools", ("weather", 3), 1)
    assert [hit["name"] for hit in session.call(step)] == ["get_weather"]
    assert session.discovered_tools == ()
    step = session.resume(step, [{"name": "send_email"}, {"name": "no_such"}, "delete_user", 7, None])
    assert step == ToolCall("send_email", ({"to": "send_email"},), 2)
    assert session.discovered_tools == ("send_email", "delete_user")
    assert session.call(step) == ["send_email", {"to": "send_email"}]
    assert session.resume(step, "sent").value == "sent"


@pytest.mark.parametrize(
    "answer", [None, "x", 3, {}, {"name": 3}, [[]], [{"name": None}], {"tools": ["send_email"]}, b"send_email"]
)
def test_answers_that_name_no_tool_find_none(session, answer):
    session.resume(session.start("await search_tools('x')"), answer)
    assert session.discovered_tools == ()


def test_errors_and_other_tools_find_nothing(session):
    session.resume(session.start("await search_tools('x')"), error=ValueError("send_email"))
    session.resume(session.start("await now()"), {"name": "send_email"})
    assert session.discovered_tools == ()
    session.resume(session.start("await describe_tool('x')"), {"name": "send_email"})
    assert session.discovered_tools == ("send_email",)


def test_the_guest_cannot_find_by_itself(session):
    code = """
        globalThis.search_tools = async () => [{name: 'send_email'}];
        globalThis.describe_tool = async () => ({name: 'send_email'});
        await search_tools('x'); await describe_tool('x');
        try { await tools.send_email({}) } catch (e) { return e.name }"""
    assert session.run(code) == "ToolNotDiscoveredError"
    assert session.discovered_tools == ()


def test_a_tool_is_not_found_before_its_answer_has_arrived(session):
    code = "const [a, b] = await Promise.allSettled([search_tools('weather'), tools.get_weather({})]); return b.reason.name"
    assert session.run(code) == "ToolNotDiscoveredError"


def test_named_tools_of_the_catalog_are_handed_out(session):
    step = session.start("await search_tools('email'); return await tools.send_email({to: 'a'})", ask=["send_email"])
    assert step == ToolCall("send_email", ({"to": "a"},), 2)
    assert session.resume(step, error=PermissionError("no")).error_type == "PermissionError"
    step = session.start("await describe_tool('list-invoices'); await tools.list_invoices({})", ask=["list-invoices"])
    assert step.name == "list-invoices"
    session.resume(step, [])
    with pytest.raises(ValueError, match="`ask` names 'nope'"):
        session.start("return 1", ask=["nope"])


def test_their_errors_are_redacted_and_those_of_the_catalog_are_not(office):
    def broken(args):
        raise ToolNotFoundError("secret")

    with AgentSandbox([], tools_catalog=[office_tool("leak", "Leak", [], broken)], isolation="inline") as session:
        session.run("await search_tools('leak')")
        assert failure(session, "await tools.leak({})") == (
            "ToolNotFoundError",
            "ToolNotFoundError: host function failed",
        )
        assert "no tool is called `x`" in failure(session, "await describe_tool('x')")[1]


def test_they_take_one_object(session):
    session.run("await search_tools('weather')")
    kind, text = failure(session, "await tools.get_weather('Paris')")
    assert kind == "TypeError"
    assert 'write await tools.get_weather({city: "..."})' in text


def test_python_functions_take_their_parameters_as_properties():
    def area(width: int, height: int = 2, *more: int) -> int:
        """The area of a box."""
        return width * height + sum(more)

    async def later(text: str) -> str:
        """Something later."""
        return text.upper()

    with AgentSandbox([], tools_catalog={"area": area, "later": later}, isolation="inline") as session:
        session.run("await describe_tool(['area', 'later'])")
        assert session.run("return [await tools.area({width: 3}), await tools.area({height: 1, width: 2})]") == [6, 2]
        assert session.run("return await tools.area({width: 1, more: [1, 2]})") == 5
        assert session.run("return await tools.later({text: 'x'})") == "X"
        assert "needs `width`" in failure(session, "await tools.area({height: 1})")[1]
        assert "has no `depth`" in failure(session, "await tools.area({width: 1, depth: 1})")[1]
        assert "must be an array" in failure(session, "await tools.area({width: 1, more: 'x'})")[1]
        assert session.run("return (await describe_tool('area')).usage") == "await tools.area({width: 1})"


def test_in_a_namespace_everything_is_there(office):
    with AgentSandbox({"now": lambda: "noon"}, tools_catalog=office, namespace="api", isolation="inline") as session:
        code = "await api.search_tools('weather'); return [await api.now(), (await api.get_weather({city: 'x'}))[0], typeof tools]"
        assert session.run(code) == ["noon", "get_weather", "undefined"]
        assert "`await api.search_tools" in failure(session, "await api.send_email({})")[1]


def test_replacing_the_object_is_only_the_guests_loss(session):
    assert session.run("tools.get_weather = () => 'mine'; return tools.get_weather()") == "mine"
    assert session.run("const tools = {a: 1}; return tools.a") == 1
    assert session.run("return typeof tools.anything") == "function"


async def test_in_asyncio(office, anyio_backend):
    async with AsyncAgentSandbox([], tools_catalog=office, isolation="inline") as session:
        code = "await search_tools('weather'); return await tools.get_weather({city: 'x'})"
        assert await session.run(code) == ["get_weather", {"city": "x"}]
        step = await session.start("return await search_tools('email')")
        found = await session.call(step)
        assert (await session.resume(step, found)).value[0]["name"] == "send_email"
        assert session.discovered_tools == ("get_weather", "send_email")


def test_in_every_isolation(make_session, office):
    session = make_session({}, tools_catalog=office)
    code = "await search_tools('weather'); return (await tools.get_weather({city: 'x'}))[0]"
    assert session.run(code) == "get_weather"
    assert failure(session, "await tools.send_email({})")[0] == "ToolNotDiscoveredError"


@pytest.mark.parametrize(
    ("tools", "catalog", "error"),
    [
        ({"a": len}, [office_tool("a", "", [])], "'a' of `tools_catalog` has the name of a declared tool"),
        ({"a_b": len}, [office_tool("a-b", "", [])], "'a-b' of `tools_catalog` has the name of a declared tool"),
        ({}, [office_tool("a-b", "", []), office_tool("a_b", "", [])], "both `a_b`"),
        ({}, [office_tool("search_tools", "", [])], "'search_tools' of `tools_catalog` has the name"),
        ({"describe_tool": len}, [], "'describe_tool' is one of the catalog's own"),
        ({"tools": len}, [], "'tools' has the name of the catalog's object"),
        ({}, [office_tool("then", "", [])], "'then' cannot be in a catalog"),
        ({}, [office_tool("toString", "", [])], "'toString' cannot be in a catalog"),
        ({}, [office_tool("constructor", "", [])], "every JavaScript object has that name"),
        ({}, {"a": 3}, "tool 'a': 3 is not callable"),
        ({}, [{"name": "a"}], "tool 'a': `callable` must be"),
        ({}, "abc", "`tools_catalog` must be a mapping"),
        ({}, 7, "`tools_catalog` must be a mapping"),
        ({}, {"a", "b"}, "`tools_catalog` must be a mapping"),
        ({}, [{"name": "a", "callable": len, "annotations": 3}], "`annotations` must be a mapping"),
    ],
)  # fmt: skip
def test_bad_catalogs_are_refused_at_construction(tools, catalog, error):
    with pytest.raises((TypeError, ValueError), match=error):
        AgentSandbox(tools, tools_catalog=catalog, isolation="inline")


def test_an_empty_catalog_is_a_catalog():
    with AgentSandbox({}, tools_catalog=[], isolation="inline") as session:
        assert session.run("return await search_tools('anything')") == []
        assert failure(session, "await tools.x({})")[0] == "ToolNotFoundError"
        assert (session.catalog_names, session.discovered_tools) == ((), ())
    with AgentSandbox({}, isolation="inline") as session:
        assert session.run("return typeof tools") == "undefined"
        assert (session.catalog_names, session.discovered_tools) == ((), ())


def test_one_catalog_serves_many_sessions(office):
    catalog = ToolCatalog([*office, SchemaTool("x", "X", {}, len, annotations={"readOnlyHint": True})])
    assert catalog.specs["x"].annotations == {"readOnlyHint": True}
    with (
        AgentSandbox({}, tools_catalog=catalog, isolation="inline") as one,
        AgentSandbox({}, tools_catalog=catalog, isolation="inline") as two,
    ):
        one.run("await search_tools('weather')")
        assert one.discovered_tools == ("get_weather",)
        assert two.discovered_tools == ()
        assert two.execute("await tools.get_weather({})").error_type == "ToolNotDiscoveredError"


@pytest.mark.parametrize("validate", [True, False])
def test_a_function_without_parameters_takes_an_empty_object_or_nothing(validate):
    def noon() -> str:
        """The time at noon."""
        return "12:00"

    with AgentSandbox({}, tools_catalog=[noon], isolation="inline", validate=validate) as session:
        assert (
            session.run("await describe_tool('noon'); return [await tools.noon(), await tools.noon({})]")
            == ["12:00"] * 2
        )
        assert "has no `x`" in session.execute("await tools.noon({x: 1})").error
