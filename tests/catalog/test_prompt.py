"""What the model is told of a catalog: the same, whatever it holds."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox, describe_tools, typescript_stubs

from .conftest import office_tool

FEW = [office_tool("a", "A", [])]
MANY = [office_tool(f"tool_{i}", f"Does {i}", ["x"]) for i in range(3000)]
DECLARED = {"send_reply": lambda text: text}


def installed(session):
    """The first request to the guest: what is installed there."""
    return session._core.journal.records[0].request


@pytest.mark.parametrize("namespace", [None, "api"])
def test_prompt_stubs_and_what_the_guest_gets_are_of_constant_size(namespace):
    options = {"namespace": namespace, "isolation": "inline", "random_seed": 1, "clock": 1}
    with (
        AgentSandbox(DECLARED, tools_catalog=FEW, **options) as few,
        AgentSandbox(DECLARED, tools_catalog=MANY, **options) as many,
    ):
        for told in (AgentSandbox.describe_tools, AgentSandbox.typescript_stubs, installed):
            assert told(few) == told(many)
        assert many.run(f"return Object.keys({namespace or '({})'}).length") == (3 if namespace else 0)
        assert typescript_stubs(DECLARED, namespace=namespace, tools_catalog=MANY) == many.typescript_stubs()
        assert (
            describe_tools(DECLARED, namespace=namespace, tools_catalog=MANY, limits=many._options.limits)
            == many.describe_tools()
        )
        assert len(many.describe_tools()) < 3000


def test_the_prompt_says_how_to_find_and_to_call():
    text = describe_tools(DECLARED, tools_catalog=FEW)
    for part in (
        "send_reply(text: unknown)",
        "search_tools(query: string, limit?: number)",
        "`await tools.<name>({...})`",
    ):
        assert part in text
    assert "tool_1" not in describe_tools({}, tools_catalog=MANY)
    assert "search_tools" not in describe_tools(DECLARED)
    text = describe_tools(DECLARED, tools_catalog=FEW, namespace="api")
    assert '`await api.search_tools("...")`' in text
    assert "`await api.<name>({...})`" in text


STUBS = """\
/**
 * Find tools by what they do, best first. Only a tool that was found (or described) can be called: `{o}.<name>(args)`.
 * At most `limit` results (default 10, at most 50).
 */
"""


def test_stubs_of_globals():
    text = typescript_stubs({}, tools_catalog=FEW)
    assert text.startswith(
        STUBS.format(o="tools") + "declare function search_tools(query: string, limit?: number): Promise<{ name"
    )
    assert text.endswith(
        "/** Every tool that a search found, by its name. */\n"
        "declare const tools: {\n  readonly [name: string]: (args?: Record<string, unknown>) => Promise<any>;\n};\n"
    )


def test_stubs_of_a_namespace():
    text = typescript_stubs({}, namespace="api", tools_catalog=FEW)
    assert "declare namespace" not in text
    assert "declare const api: {\n  /**\n   * Find tools" in text
    assert text.endswith("\n} & {\n  readonly [name: string]: (args?: Record<string, unknown>) => Promise<any>;\n};\n")


def test_texts_of_a_tool_cannot_end_their_comment():
    bad = [office_tool("x", "*/ globalThis.y = 1; /*", [])]
    with AgentSandbox({}, tools_catalog=bad, isolation="inline") as session:
        assert "*/ globalThis" not in session.run("return (await describe_tool('x')).typescript")
