"""A session describes its tools as the functions of the module do."""

from __future__ import annotations

import pytest

import gloveport
from gloveport import AgentSandbox


def greet(name: str, times: int = 1) -> str:
    """Greet somebody."""
    return f"hello {name}" * times


TOOLS = {"greet": greet, "add": lambda a, b: a + b}
CASES = [{}, {"namespace": "office"}, {"tools_catalog": {"found": greet}}]


@pytest.mark.parametrize("engine", ["wasm", "v8"])
@pytest.mark.parametrize("options", CASES, ids=["plain", "namespace", "catalog"])
def test_session_and_module_functions_say_the_same(engine, options):
    tools = dict(TOOLS) if "tools_catalog" not in options else {"add": TOOLS["add"]}
    with AgentSandbox(tools, engine=engine, **options) as session:
        limits = session._options.limits
        assert session.describe_tools() == gloveport.describe_tools(tools, limits=limits, **options)
        assert session.typescript_stubs() == gloveport.typescript_stubs(tools, **options)
        assert "greet" in session.typescript_stubs() or "tools_catalog" in options


def test_limits_of_a_session_are_in_its_text():
    with AgentSandbox(TOOLS, timeout=7) as short, AgentSandbox(TOOLS) as usual:
        assert "7 s" in short.describe_tools()
        assert short.describe_tools() != usual.describe_tools()
