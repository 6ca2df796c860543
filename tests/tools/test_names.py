"""How a tool's name becomes a JavaScript name, and which are refused."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.engines.toolbox import Toolbox
from gloveport.tools import build_specs
from gloveport.tools.names import GUEST_GLOBALS, RESERVED_WORDS, identifier


@pytest.fixture(scope="module")
def toolbox() -> Iterator[Toolbox]:
    with Toolbox(sandbox="off") as shared:
        yield shared


def nothing() -> None:
    """Does nothing."""


@pytest.mark.parametrize(
    ("name", "js_name"),
    [
        ("query_rows", "query_rows"),
        ("list-issues", "list_issues"),
        ("github.list", "github_list"),
        ("a b/c:d", "a_b_c_d"),
        ("2fa", "_2fa"),
        ("class", "class_"),
        ("await", "await_"),
        ("arguments", "arguments_"),
        ("-", "_"),
        ("$el", "$el"),
        ("größe", "größe"),
        ("fetch", "fetch"),
        ("URL", "URL"),
        ("setTimeout", "setTimeout"),
        ("😀", "_"),
    ],
)
def test_rewriting(name: str, js_name: str) -> None:
    specs = build_specs({name: nothing})
    assert list(specs) == [js_name]
    assert (specs[js_name].name, specs[js_name].js_name) == (name, js_name)


@given(st.text(min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_every_rewritten_name_can_be_declared(toolbox: Toolbox, name: str) -> None:
    js_name = identifier(name)
    assert js_name not in RESERVED_WORDS
    assert identifier(js_name) == js_name
    if js_name not in {"eval", "undefined", "NaN", "Infinity"} and not js_name.startswith("__gloveport"):
        assert toolbox.compile(f"let {js_name} = 1").names == (js_name,)


@given(st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]*", fullmatch=True))
def test_identifiers_stay(name: str) -> None:
    assert identifier(name) == (f"{name}_" if name in RESERVED_WORDS else name)


@pytest.mark.parametrize(("first", "second"), [("a-b", "a_b"), ("class", "class_"), ("1x", "_1x")])
def test_collisions_are_named(first: str, second: str) -> None:
    with pytest.raises(ValueError, match=f"'{first}' and '{second}' are both"):
        build_specs({first: nothing, second: nothing})


@pytest.mark.parametrize(
    "name", ["JSON", "Promise", "console", "globalThis", "eval", "undefined", "Temporal", "toString"]
)
def test_globals_are_refused_unless_in_a_namespace(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' would replace the sandbox's own"):
        build_specs({name: nothing})
    assert list(build_specs({name: nothing}, namespace="tools")) == [name]


@pytest.mark.parametrize("namespace", [None, "tools"])
@pytest.mark.parametrize(
    "name", ["__gloveport_x", "__gloveport", "__proto__", "constructor", "prototype", "", "a\nb", "a\x00"]
)
def test_names_that_are_always_refused(name: str, namespace: str | None) -> None:
    with pytest.raises(ValueError):
        build_specs({name: nothing}, namespace=namespace)
    build_specs({f"x{len(name)}": nothing}, namespace=namespace)


@pytest.mark.parametrize("namespace", ["JSON", "a-b", "1a", "", "class", "__gloveport", "constructor", "globalThis"])
def test_namespaces_that_are_refused(namespace: str) -> None:
    with pytest.raises(ValueError, match="`namespace` must"):
        build_specs({"a": nothing}, namespace=namespace)
    with pytest.raises(TypeError, match="`namespace` must be a string"):
        build_specs({"a": nothing}, namespace=3)  # type: ignore[arg-type]


def test_the_globals_are_those_of_the_language() -> None:
    """What a bare V8 context has, but for one Web API."""
    from deno import find_deno_bin

    script = (
        "const vm = await import('node:vm'); console.log(vm.runInContext('Object.getOwnPropertyNames(globalThis).join()', "
        "vm.createContext({ __proto__: null })))"
    )
    argv = [find_deno_bin(), "eval", "--no-config", "--no-lock", script]
    run = subprocess.run(argv, env={"DENO_DIR": "/dev/null/none"}, capture_output=True, text=True, check=True)
    assert set(run.stdout.strip().split(",")) - {"queueMicrotask"} <= GUEST_GLOBALS
