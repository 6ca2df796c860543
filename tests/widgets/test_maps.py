"""Source maps that a widget or a package names itself: nobody looks at them."""

from __future__ import annotations

import base64
import json

import anyio
import pytest

from gloveport.engines.builder import Answer, Builder
from gloveport.errors import WidgetError

THROWS = "const é = 1;\nexport default function W() { throw new Error('x' + é) }"


def named(mappings, source="widget.tsx", comment="//# {}"):
    made = {"version": 3, "sources": [source], "names": [], "mappings": mappings}
    encoded = base64.b64encode(json.dumps(made).encode()).decode()
    return "\n" + comment.format(f"sourceMappingURL=data:application/json;base64,{encoded}")


MAPS = {
    "its-own": named("AAuvJA,CAAA,CAAA"),
    "another": named("AAAA,CAAA,IAAA,QAAA", "other.ts"),
    "no-map": "\n//# sourceMappingURL=data:application/json,{}",
    "sections": '\n//# sourceMappingURL=data:application/json,{"version":3,"sections":[{"offset":{"line":0,"column":0},"map":{}}]}',
    "cut": '\n//# sourceMappingURL=data:application/json,{"version":3,"mapp',
    "at": named("AAuvJA", comment="//@ {}"),
    "block": named("AAuvJA", comment="/*# {} */"),
    "twice": named("AAuvJA") + named("AAAA", "b.ts"),
}


@pytest.mark.parametrize("comment", MAPS.values(), ids=MAPS)
def test_an_error_of_a_widget_stays_where_it_is(render, comment):
    with pytest.raises(WidgetError) as plain:
        render(THROWS)
    with pytest.raises(WidgetError) as caught:
        render(THROWS + comment)
    assert str(caught.value) == str(plain.value)
    assert "line 2" in str(plain.value)


@pytest.mark.parametrize(
    "code", ["export default () => {", "export default () => (\n  <p>é𝑥", "export default () => `a"]
)
def test_what_is_missing_is_missing_at_the_end_of_what_was_sent(render, code):
    places = []
    for comment in ("\n// " + "x" * 50, MAPS["no-map"]):
        with pytest.raises(WidgetError) as caught:
            render(code + comment)
        places.append((caught.value.line, caught.value.column))
        last = (code + comment).split("\n")[-1]
        assert places[-1] == ((code + comment).count("\n") + 1, len(last) + 1)
    assert places[0][0] == places[1][0]


def test_a_text_that_looks_like_one_is_left_alone(render):
    text = MAPS["no-map"].strip()
    widget = render(f"console.warn({text!r}, `\n{text}`.length);\nexport default () => <p>\n{text}\n</p>")
    assert [warning.replace("'", "") for warning in widget.warnings] == [f"{text} {len(text) + 1}"]
    assert widget.html.count("sourceMappingURL") == 2


FILES = {
    "js": "export default 'here'",
    "tsx": "export default 'here' as string",
    "css": "body { color: red }",
    "json": '{"here": "//# sourceMappingURL=data:application/json,{}"}',
    "text": "here",
}


@pytest.mark.parametrize("loader", FILES)
def test_those_of_packages_are_not_looked_at(loader):
    comment = MAPS["cut"].strip()
    code = FILES[loader]
    if loader != "json":
        code += "\n" + (f"/*{comment[2:]} */" if loader == "css" else comment)

    async def main():
        builder = Builder()

        async def resolve(specifier, importer, kind):
            return Answer(name=specifier, code=code, loader=loader)

        try:
            source = "import * as x from 'x';\nexport default () => <p>{JSON.stringify(x)}</p>"
            return await builder.build(source, css=None, resolve=resolve, timeout=30.0)
        finally:
            builder.close()

    built = anyio.run(main)
    assert ("color:red" in built.css) if loader == "css" else ("here" in built.code)
    assert ("sourceMappingURL" in built.code) == (loader in ("json", "text"))
    assert "=none" not in built.code + built.css


def test_a_hashbang_is_no_line_of_the_page(render):
    widget = render("#!/usr/bin/env deno\nexport default () => <p>hi</p>")
    assert "#!" not in widget.html.rpartition("<script>")[2]
