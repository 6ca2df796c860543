"""What the tests of the compiler share: a toolbox, the places of errors, and V8 for a second opinion."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deno import find_deno_bin

from gloveport.engines.toolbox import Compiled, Toolbox
from gloveport.errors import CompileError


@pytest.fixture(scope="session")
def toolbox() -> Iterator[Toolbox]:
    """One toolbox for all tests that do not care about its process."""
    with Toolbox(sandbox="off") as shared:
        yield shared


class Rejection(tuple[int, int, str]):
    """Line, column and message of a compile error."""

    @property
    def line(self) -> int:
        return self[0]

    @property
    def message(self) -> str:
        return self[2]


def reject(toolbox: Toolbox, source: str) -> Rejection:
    """Compiles what must not compile."""
    with pytest.raises(CompileError) as caught:
        toolbox.compile(source)
    return Rejection((caught.value.line, caught.value.column, caught.value.message))


def body_of(compiled: Compiled) -> str:
    """The body in what the compiler emitted: without the prelude line and the closing."""
    prelude, body = compiled.code.split("\n", 1)
    assert prelude.startswith("(async(__gloveport_publish)=>{") and body.endswith("\n})")
    return body.removesuffix("\n})")


class V8:
    """A second opinion: evaluates what the compiler emitted, and parses function bodies the way the language defines it."""

    def __init__(self) -> None:
        argv = [find_deno_bin(), "run", "--no-prompt", "--no-config", "--no-lock", "--quiet", "--no-remote", "--no-npm"]
        self.process = subprocess.Popen(
            [*argv, str(Path(__file__).with_name("second_opinion.js"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"DENO_DIR": "/dev/null/none"},
        )

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def is_function_body(self, source: str) -> bool:
        """Whether V8 takes a text for the whole body of an async function."""
        return self._ask({"op": "body", "source": source})

    def run(self, code: str, *later: str) -> list[Any]:
        """The result of emitted code, then of expressions in which its published names are visible, as a later run sees
        them. A thrown error gives `"Name: message"`."""
        return self._ask({"op": "run", "code": code, "later": list(later)})

    def close(self) -> None:
        with self.process:
            self.process.kill()


@pytest.fixture(scope="session")
def v8() -> Iterator[V8]:
    engine = V8()
    yield engine
    engine.close()
