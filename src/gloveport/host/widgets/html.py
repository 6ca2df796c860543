"""The page around a widget's script."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import re
from typing import Final

from ...engines.builder.client import NATIVE
from ...errors import EngineUnavailableError

__all__ = ("page", "react")

_POLICY: Final = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; media-src data: blob:; "
    "form-action 'none'; base-uri 'none'"
)
"""Scripts: the two of the page, by their hash, so that none can be added and no text becomes code. Nothing is loaded or sent. (What a
`<meta>` cannot say, by CSP level 3, section 3.3: that the page is sandboxed, or who may frame it. That is for whoever shows it. What
nobody asks a policy about: navigation, `preconnect`, WebRTC.)"""

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta http-equiv="x-dns-prefetch-control" content="off">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<div id="root"></div>
<script>{react}</script>
<script>{script}</script>
</body>
</html>
"""


@functools.cache
def react() -> str:
    """React and what mounts a widget, as the content of a `<script>`. Raises `EngineUnavailableError` when it was not built."""
    try:
        return (NATIVE / "react.js").read_text("utf-8")
    except OSError as error:
        raise EngineUnavailableError(
            "the page of widgets is not built: reinstall gloveport from its source or wheel"
        ) from error


def page(code: str, css: str, title: str) -> str:
    """A self-contained document. `code` is what the builder made for a `<script>`.

    Raises `ValueError` for code that would end its `<script>`, or that HTML gives back as another text, of another hash (NUL, CR): the
    builder makes none.
    """
    script = f"gloveport((require,module,exports)=>{{\n{code}\n}})"
    if re.search(r"</script|<!--|[\0\r]", script, re.IGNORECASE):
        raise ValueError("this script would end before its end, or be read as another one")
    runtime = react()
    policy = _POLICY.format(scripts=f"{_react_hash()} {_hash(script)}")
    return _PAGE.format(
        policy=policy,
        title=html.escape(title),
        css=re.sub(r"</(?=style)", r"<\\/", css, flags=re.IGNORECASE),
        react=runtime,
        script=script,
    )


@functools.cache
def _react_hash() -> str:
    return _hash(react())


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
