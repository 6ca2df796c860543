"""Which tools of a server are taken, and under which names."""

from __future__ import annotations

import itertools

import pytest
from mcp import types

from gloveport import AgentSandbox, McpServerError
from gloveport.integrations.mcp.listing import schema_tools, visible
from gloveport.mcp import McpServer


def tool(name, **more):
    return types.Tool(name=name, inputSchema={"type": "object"}, **more)


async def call(tool, arguments):
    return [tool.name, arguments]


def named(*names, prefix=""):
    tools = visible([tool(name) for name in names])
    return {t.name: given.name for t, given in zip(tools, schema_tools(tools, prefix, call), strict=True)}


AWKWARD = ["list-issues", "class", "constructor", "then", "eval", "2fa", "__gloveport_x", "a b", "é", "toString", "Map"]


@pytest.mark.parametrize("prefix", ["", "gh_", "gh."])
def test_any_name_can_be_called_and_leads_to_its_tool(prefix):
    names = named(*AWKWARD, prefix=prefix)
    assert list(names) == AWKWARD
    tools = schema_tools([tool(name) for name in AWKWARD], prefix, call)
    with AgentSandbox({}, tools_catalog=tools, isolation="inline") as session:
        specs = session._options.catalog.catalog.specs
        session.run(f"await describe_tool({list(specs)})")
        called = session.run(f"return await Promise.all({list(specs)}.map(n => tools[n]({{x: 1}})))")
        assert called == [[name, {"x": 1}] for name in AWKWARD]
    with AgentSandbox(tools, isolation="inline") as session:
        assert session.run(f"return await {next(iter(specs))}()") == ["list-issues", {}]


def test_names_that_are_one_in_javascript_are_told_apart_whatever_the_order():
    names = ("a-b", "a_b", "a.b", "c")
    wanted = {"a_b": "a_b", "c": "c", "a-b": named(*names)["a-b"], "a.b": named(*names)["a.b"]}
    assert len(set(wanted.values())) == 4
    for order in itertools.permutations(names):
        assert named(*order) == wanted


def test_each_name_once_and_none_that_is_unusable(caplog):
    assert list(named("a", "b", "a")) == ["a", "b"]
    assert list(named("a", "", "b\n", "x" * 201, "\u202eevil")) == ["a"]
    assert len(caplog.records) == 4


@pytest.mark.parametrize(
    ("more", "taken"),
    [
        ({"_meta": {"ui": {"visibility": ["app"]}}}, False),
        ({"_meta": {"ui": {"visibility": []}}}, False),
        ({"_meta": {"ui": {"visibility": ["model", "app"]}}}, True),
        ({"_meta": {"ui": {"resourceUri": "ui://x"}}}, True),
        ({"_meta": {"ui": "odd"}}, True),
        ({"execution": types.ToolExecution(taskSupport="required")}, False),
        ({"execution": types.ToolExecution(taskSupport="optional")}, True),
    ],
)
def test_tools_that_are_not_for_models_are_left_out(more, taken):
    assert ("x" in named("a")) is False
    assert bool(visible([tool("x", **more)])) is taken


def test_annotations_are_kept_and_titles_used():
    hints = types.ToolAnnotations(title="T", readOnlyHint=True, destructiveHint=False)
    [made] = schema_tools([tool("x", annotations=hints)], "", call)
    assert made.annotations == {"title": "T", "readOnlyHint": True, "destructiveHint": False}
    assert made.description == "T"
    [plain] = schema_tools([tool("x", title="Other", description="Does it.")], "", call)
    assert (plain.annotations, plain.description) == (None, "Does it.")


class PageLink:
    """A server that always has another page."""

    def __init__(self, size):
        self.size, self.pages = size, 0

    async def ask(self, request, kind, timeout):
        self.pages += 1
        tools = [tool(f"t{self.pages}_{i}") for i in range(self.size)]
        return types.ListToolsResult(tools=tools, nextCursor=str(self.pages) if self.pages < 2000 else None)


@pytest.mark.parametrize(("size", "pages"), [(1000, 11), (0, 1000)])
async def test_a_list_without_an_end_is_given_up(size, pages, anyio_backend):
    link = PageLink(size)
    with pytest.raises(McpServerError, match="more than 10,000 tools, or has no end"):
        await McpServer("http://localhost/mcp")._list(link)
    assert link.pages == pages


async def test_a_list_of_several_pages_is_whole(anyio_backend):
    link = PageLink(2)
    link.pages = 1996
    assert len(await McpServer("http://localhost/mcp")._list(link)) == 8
