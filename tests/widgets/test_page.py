"""The document around a widget: what it allows, and that nothing in a widget gets out of its script."""

from __future__ import annotations

import base64
import hashlib
import html as entities
import re
from html.parser import HTMLParser

import pytest

from gloveport.host.widgets.html import page, react

HELLO = "export default () => <p>hi</p>"


class Document(HTMLParser):
    """The scripts, styles and policy that a parser sees."""

    CDATA_CONTENT_ELEMENTS = ("script", "style")

    def __init__(self, text):
        super().__init__()
        self.scripts, self.policy, self.tags, self.sources = [], None, [], []
        self._inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.sources += [attrs[name] for name in ("src", "href") if name in attrs]
        self._inside = tag
        if tag == "script":
            self.scripts.append("")
        if attrs.get("http-equiv") == "Content-Security-Policy":
            self.policy = dict(
                (part.strip() + " ").split(" ", 1) for part in entities.unescape(attrs["content"]).split(";")
            )

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data


def test_the_page_is_whole_and_loads_nothing(render):
    document = Document(render(HELLO).html)
    assert document.tags == [
        "html",
        "head",
        "meta",
        "meta",
        "meta",
        "meta",
        "meta",
        "title",
        "style",
        "body",
        "div",
        "script",
        "script",
    ]
    assert document.sources == []


def test_the_policy_allows_its_two_scripts_by_hash_and_no_connection(render):
    document = Document(render(HELLO).html)
    policy = {name: value.split() for name, value in document.policy.items()}
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in document.scripts
    ]
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == hashes
    assert "connect-src" not in policy
    assert "frame-src" not in policy
    assert policy["form-action"] == policy["base-uri"] == ["'none'"]
    assert all(not re.search(r"https?:|\*", value) for value in document.policy.values())


NASTY = [
    "</script><script>alert(1)</script>",
    "</SCRIPT >",
    "<!--",
    "<!-- <script>",
    "-->",
    "]]>",
    "\u2028\u2029",
    "</style><img src=x>",
    "\\",
    "{code}{css}",
    "&lt;/script&gt;",
]


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize(
    "form",
    [
        "<p>{{{text!r}}}</p>",
        "<p title={{{text!r}}}>x</p>",
        "<p>{{`{text} ${{1}}`}}</p>",
        "<p>{{String.raw`{text}`}}</p>",
        "<p>{{String({regex})}}</p>",
        "<p dangerouslySetInnerHTML={{{{ __html: {text!r} }}}}/>",
    ],
)
def test_no_text_ends_its_script(page_of, text, form):
    regex = (
        "/"
        + re.sub(r"([\\/\[\]{}()*+?.^$|\u2028\u2029])", r"\\\1", text.replace("\u2028", "").replace("\u2029", ""))
        + "x/"
    )
    if "raw" in form:
        text = text.replace("\\", "")
    source = f"export default () => {form.format(text=text, regex=regex)}"
    document = Document(page_of(source))
    assert document.tags.count("script") == 2
    assert document.tags[-2:] == ["script", "script"]
    assert not re.search(r"<!--|</script", document.scripts[1], re.IGNORECASE)
    assert document.scripts[1].startswith("gloveport(")
    assert document.scripts[1].endswith("})")


def test_a_script_that_would_end_before_its_end_is_refused():
    for code in ("'</script>'", "'<!--'", "/a\0b/", "1\r2", "`\r\n`"):
        with pytest.raises(ValueError, match="would end"):
            page(code, "", "x")
    assert "<title>x</title>" in page("'fine'", "", "x")


def test_react_is_the_production_build_and_is_not_built_for_each_widget(render):
    assert react() in render(HELLO).html
    assert "act(" not in react()[:2000]
    assert len(react()) < 240_000
