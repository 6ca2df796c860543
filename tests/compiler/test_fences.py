"""Code as models send it: in Markdown, with a byte order mark, with a hashbang."""

from __future__ import annotations

import pytest
from compiling import body_of, reject

from gloveport.engines.toolbox import Toolbox


@pytest.mark.parametrize("language", ["", "ts", "typescript", "js", "javascript", "tsx", "JavaScript", "ts title=x.ts"])
def test_one_fence_is_removed(toolbox: Toolbox, language: str) -> None:
    assert body_of(toolbox.compile(f"```{language}\nreturn 1\n```")) == "\nreturn 1\n"


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("Sure!\n\n```ts\nlet a\nreturn a\n```\nHope this helps: it's `a`.", "\n\n\nlet a\nreturn a\n"),
        ("Code:\n```js\nreturn 1\n```", "\n\nreturn 1\n"),  # would parse as a label and tagged templates
        ("  ```js\n  return 1\n  ```", "\n  return 1\n"),
        ("\n```\r\nreturn 1\r\n```\r\n", "\n\nreturn 1\r\n"),
        ("````js\nreturn 1 // \\`\\`\\`\n````", "\nreturn 1 // \\`\\`\\`\n"),
        ("```js\nreturn 1", "\nreturn 1"),  # cut off
        ("```sh\nnpm i\n```\n```ts\nreturn 1\n```", "\n\n\n\nreturn 1\n"),
        ("\ufeffreturn 1", "return 1"),
        ("#!/usr/bin/env node\nreturn 1", "///usr/bin/env node\nreturn 1"),
        ("\ufeff```js\n#!x\nreturn 1\n```", "\n//x\nreturn 1\n"),
        # not fences
        ("/*\n```js\nf()\n```\n*/ return 1", "/*\n```js\nf()\n```\n*/ return 1"),
        ("let a: 1 /*\n```js\nf()\n```\n*/", "let a    /*\n```js\nf()\n```\n*/"),
        ("return `\\`\\`\\`js`", "return `\\`\\`\\`js`"),
        ("return x```a`", "return x```a`"),
    ],
)  # fmt: skip
def test_what_remains(toolbox: Toolbox, source: str, body: str) -> None:
    assert body_of(toolbox.compile(source)) == body


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        (
            "```js\na\n```\n\n```ts\nb\n```",
            5,
            "there is more than one fenced code block: send one block, or the code only",
        ),
        ("x\n```python\nprint(1)\n```", 2, "the fenced block is marked 'python': send JavaScript or TypeScript"),
        ("Here:\n```js\nreturn 1", 2, "the fenced code block is not closed"),
        ("I cannot do that.", 1, "Unexpected token 'cannot'"),
    ],
)
def test_what_is_refused(toolbox: Toolbox, source: str, line: int, message: str) -> None:
    rejection = reject(toolbox, source)
    assert (rejection.line, rejection.message) == (line, message)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("import a from 'a'", "module"),
        ("```tsx\nimport a from 'a'\nexport default () => <a/>\n```", "module"),
        ("export const a: number = <any>1", "module"),
        ("return import.meta.url; export {}", "module"),
        ("import a = require('b')", "module"),
        ("export type A = 1", "module"),
        ("import { broken from 'x'", "module"),
        ("return 1", "session"),
        ("return 'export default'; // import a from 'a'", "session"),
        ("import type {A} from 'x'; return 1", "session"),
        ("const a = await import('a')", "session"),
        ("return (", "session"),
    ],
)
def test_module_kind(toolbox: Toolbox, source: str, kind: str) -> None:
    assert toolbox.module_kind(source) == kind
