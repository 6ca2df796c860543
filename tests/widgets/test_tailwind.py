"""Tailwind CSS: rules for the classes that a widget uses, and for no others."""

from __future__ import annotations

import json
import re

import pytest

from gloveport.errors import TypeScriptSandboxError, WidgetError, WidgetPluginError
from gloveport.host.widgets.plugins import TAILWIND_VERSION, Plugins

PLUGIN = "npm:@tailwindcss/vite@latest"
SOURCE = "export default function Widget() {{ return <p className={!r}>hi</p> }}"


def style(page):
    return re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("p-4", r"\.p-4 \{\s*padding: calc\(var\(--spacing\) \* 4\)"),
        ("text-red-500", r"\.text-red-500 \{\s*color: var\(--color-red-500\)"),
        ("md:flex", r"@media \(width >= 48rem\) \{\s*\.md\\:flex \{\s*display: flex"),
        ("w-[37px]", r"\.w-\\\[37px\\\] \{\s*width: 37px"),
        ("hover:bg-sky-700/50", r"\.hover\\:bg-sky-700\\/50:hover \{"),
        ("grid-cols-[1fr_auto]", r"grid-template-columns: 1fr auto"),
        ("-mt-2", r"\.-mt-2 \{"),
        ("[&>li]:underline", r"underline > li \{"),
        ("before:content-['x']", r"--tw-content: 'x'"),
        ("data-[state=open]:p-1", r"data-state=open|\[data-state=\"open\"\]"),
        ("!font-bold", r"font-weight: var\(--font-weight-bold\) !important"),
    ],
)
def test_a_class_of_the_widget_has_its_rule_and_another_one_has_none(page_of, name, rule):
    used = style(page_of(SOURCE.format(name), plugins=[PLUGIN]))
    unused = style(page_of(SOURCE.format("m-1"), plugins=[PLUGIN]))
    assert re.search(rule, used), used[-1500:]
    assert not re.search(rule, unused)


def test_without_the_plugin_there_are_no_rules(page_of):
    assert style(page_of(SOURCE.format("p-4"))) == ""


@pytest.mark.parametrize(
    "expression",
    [
        "{'p-4 ' + (1 ? 'm-2' : 'm-3')}",
        "{`p-4 ${1 ? 'm-2' : 'm-3'}`}",
        "{['p-4', 'm-2', 'm-3'].join(' ')}",
        "{Object.keys({ 'p-4': 1, 'm-2': 1, 'm-3': 1 }).join(' ')}",
    ],
)
def test_classes_are_found_in_code(page_of, expression):
    found = style(page_of(f"export default () => <p className={expression}>hi</p>", plugins=[PLUGIN]))
    assert all(f".{name} {{" in found for name in ("p-4", "m-2", "m-3"))


def test_a_class_name_with_half_a_character_in_it_spoils_the_builder_for_nobody(page_of):
    from gloveport.engines.defaults import builder

    page_of(SOURCE.format("p-4"))
    pid = builder("require").pid
    found = style(page_of("export default () => <p className=\"before:content-['\ud800x']\">hi</p>", plugins=[PLUGIN]))
    assert "--tw-content: '\ufffdx'" in found
    assert builder("require").pid == pid


def test_one_widget_leaves_nothing_for_the_next(page_of):
    first = style(page_of(SOURCE.format("bg-[rebeccapurple]"), plugins=[PLUGIN]))
    second = style(page_of(SOURCE.format("p-4"), plugins=[PLUGIN]))
    assert "rebeccapurple" in first
    assert "rebeccapurple" not in second


@pytest.mark.parametrize("name", ["tailwindcss", "tailwindcss/utilities", "tailwindcss/preflight.css"])
def test_importing_it_is_fine_with_the_plugin_only(page_of, name):
    source = f"import {name!r};\n{SOURCE.format('p-4')}"
    assert ".p-4 {" in style(page_of(source, plugins=[PLUGIN]))
    with pytest.raises(WidgetError, match="not switched on"):
        page_of(source)


def test_the_applications_own_style_sheet(render):
    css = "@theme { --color-brand: #123456; }\n@utility boxed { border: 1px solid }\n.card { @apply p-4; }"
    found = style(render(SOURCE.format("text-brand boxed"), plugins=[PLUGIN], css=css).html)
    assert "--color-brand: #123456" in found
    assert re.search(r"\.boxed \{\s*border: 1px solid", found)
    assert re.search(r"\.card \{\s*padding", found)
    assert render(SOURCE.format("x"), css="p { color: red }").html.count("<style>p { color: red }</style>") == 1


@pytest.mark.parametrize(
    ("css", "text"),
    [
        ("@import '/etc/passwd';", 'only "tailwindcss"'),
        ("@import 'file:///etc/passwd';", 'only "tailwindcss"'),
        ("@import 'https://example.com/x.css';", None),
        ("@import url(https://example.com/x.css);", None),
        ("@plugin './x.js';", "not supported"),
        ("@config '/etc/x.js';", "not supported"),
        ("@reference '/etc/passwd';", 'only "tailwindcss"'),
        (".a { @apply nonsense-7; }", "does not compile"),
        (".a { color: red", "does not compile"),
    ],
)
def test_a_style_sheet_reads_no_file_either(render, css, text):
    if text is None:  # an address stays one, which the page's policy refuses
        assert "root:x" not in render(SOURCE.format("p-4"), plugins=[PLUGIN], css=css).html
        return
    with pytest.raises(WidgetError, match=text):
        render(SOURCE.format("p-4"), plugins=[PLUGIN], css=css)


def test_a_style_cannot_end_its_element(render):
    for css in ("p::after { content: '</style><script>alert(1)</script>' }", "/* </STYLE> */ p { color: red }"):
        for plugins in ([], [PLUGIN]):
            widget = render(SOURCE.format("p-4"), css=css, plugins=plugins)
            assert len(re.findall("</style", widget.html, re.IGNORECASE)) == 1


@pytest.mark.parametrize(
    "plugin",
    [
        "npm:@tailwindcss/vite@latest",
        "npm:@tailwindcss/vite",
        "@tailwindcss/vite",
        "npm:@tailwindcss/vite@4",
        "npm:@tailwindcss/vite@4.1.3",
        "npm:@tailwindcss/vite@^4.0.0",
        "tailwindcss",
    ],
)
def test_spellings_of_the_plugin(plugin):
    assert Plugins.parse([plugin]) == Plugins.parse((plugin, plugin)) == Plugins(tailwind=True)
    assert Plugins.parse(()) == Plugins(tailwind=False)


@pytest.mark.parametrize(
    "plugin",
    [
        "npm:@vitejs/plugin-react",
        "npm:@tailwindcss/vite@3.4.1",
        "npm:@tailwindcss/vite@next",
        "",
        "npm:@tailwindcss/vite@4.1.3/x",
        "../plugin.js",
        "npm:@tailwindcss/vite@40",
    ],
)
def test_any_other_plugin_is_an_error_that_says_which_are_supported(plugin, render):
    with pytest.raises(WidgetPluginError, match="npm:@tailwindcss/vite@latest") as caught:
        render(SOURCE.format("x"), plugins=[plugin])
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeScriptSandboxError)


def test_the_version_that_is_told_is_the_one_that_is_built_in():
    from tests.project.test_shape import ROOT

    pins = json.loads((ROOT / "guest/builder/deno.json").read_text())["imports"]
    assert pins["tailwindcss"] == f"npm:tailwindcss@{TAILWIND_VERSION}"
