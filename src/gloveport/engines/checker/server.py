"""One language server: started in its jail, and asked about documents that exist in its memory only."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from gloveport.engines.checker.install import Compiler
from gloveport.engines.checker.lsp import Diagnostic, Hover, Position, Report, ServerDied, ServerTimeout, Wire
from gloveport.engines.jail.command import spawn_jailed
from gloveport.engines.toolbox.connection import Child
from gloveport.errors import TypeCheckUnavailableError
from gloveport.policy import SandboxMode

__all__ = ("MEMORY_BYTES", "PROJECT", "Server", "Spawn", "spawn")

Spawn: TypeAlias = Callable[[Compiler, SandboxMode], Child]
"""Starts the compiler as a language server with its stdin and stdout on descriptors."""

PROJECT: Final = Path(__file__).parent / "project"
"""What is fixed: the compiler's options, and declarations of what the guest offers."""
START_TIMEOUT: Final = 30.0
"""Seconds until a started server must have checked a first document: it takes 0.3, but the machine may be busy."""
MEMORY_BYTES: Final = 1024 * 1024 * 1024
"""Private writable memory of the process: it has 45 MB with the language's declarations loaded (seen with 7.0.2)."""
_ENVIRONMENT: Final = {"GOMEMLIMIT": "512MiB", "GOMAXPROCS": "2"}
"""Its garbage collector works harder from half of the memory on; it uses two cores at most."""
_LANGUAGES: Final = {
    "guest.d.ts": "typescript",
    "tools.d.ts": "typescript",
    "run.ts": "typescript",
    "run.js": "javascript",
}
_LONE: Final = re.compile("[\ud800-\udfff]")

T = TypeVar("T")


def spawn(compiler: Compiler, sandbox: SandboxMode) -> Child:
    """Starts it in the jail that `sandbox` asks for. It sees nothing but itself, the language's declarations and `PROJECT`."""
    jailed = spawn_jailed(
        [compiler.program, "--lsp", "--stdio"],
        readable=[compiler.library, PROJECT],
        sandbox=sandbox,
        environment=_ENVIRONMENT,
        memory_bytes=MEMORY_BYTES,
        scratch_bytes=0,
        warn=False,  # the compiler of model code, which is started before, has warned
    )
    return Child(jailed.pid, jailed.stdout, jailed.stdin, jailed.kill, jailed.close, jailed.forget)


class Server:
    """A running server. One caller at a time; of no use after `ServerDied` or `ServerTimeout`."""

    def __init__(self, compiler: Compiler, sandbox: SandboxMode, spawn: Spawn = spawn) -> None:
        self._texts: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        self.wire = Wire(spawn(compiler, sandbox))
        try:
            self._begin(time.monotonic() + START_TIMEOUT)
        except (ServerDied, ServerTimeout) as error:
            self.wire.close()
            what = "does not answer" if isinstance(error, ServerTimeout) else f"ended at once {error}".rstrip()
            raise TypeCheckUnavailableError(f"the TypeScript compiler was started and {what}") from error
        except BaseException:
            self.wire.close()
            raise

    def _begin(self, deadline: float) -> None:
        root = PROJECT.as_uri()
        capabilities: dict[str, Any] = {
            "general": {"positionEncodings": ["utf-16"]},
            "textDocument": {"diagnostic": {"relatedInformation": True}, "hover": {"contentFormat": ["plaintext"]}},
        }
        self.wire.request(
            "initialize",
            {
                "processId": None,  # it could not see the host, and ends with its input
                "rootUri": root,
                "workspaceFolders": [{"uri": root, "name": "session"}],
                "capabilities": capabilities,
            },
            deadline,
        )
        self.wire.notify("initialized", {}, deadline)
        self.show("guest.d.ts", (PROJECT / "guest.d.ts").read_text("utf-8"), deadline)
        for name in ("tools.d.ts", "run.js", "run.ts"):
            self.show(name, "", deadline)
        self.problems("run.ts", deadline)  # loads the language's declarations

    def show(self, name: str, text: str, deadline: float) -> None:
        """Make `text` the content of a document. Lone surrogates, which the protocol cannot carry, are U+FFFD there."""
        if not text.isascii():
            text = _LONE.sub("\ufffd", text)  # one for one: columns stay
        if self._texts.get(name) == text:
            return
        version = self._versions.get(name, 0) + 1
        document: dict[str, Any] = {"uri": _uri(name), "version": version}
        if version == 1:
            document |= {"languageId": _LANGUAGES[name], "text": text}
            self.wire.notify("textDocument/didOpen", {"textDocument": document}, deadline)
        else:
            change = {"textDocument": document, "contentChanges": [{"text": text}]}
            self.wire.notify("textDocument/didChange", change, deadline)
        self._texts[name], self._versions[name] = text, version

    def problems(self, name: str, deadline: float) -> list[Diagnostic]:
        """What is wrong in a document."""
        params = {"textDocument": {"uri": _uri(name)}}
        return _decoded(self.wire.request("textDocument/diagnostic", params, deadline), Report).items

    def hover(self, name: str, at: Position, deadline: float) -> str:
        """What an editor would show for a place: a declaration with its type; empty for nothing."""
        params = {"textDocument": {"uri": _uri(name)}, "position": {"line": at.line, "character": at.character}}
        result = self.wire.request("textDocument/hover", params, deadline)
        return "" if bytes(result) == b"null" else _decoded(result, Hover).contents.value

    def kill(self) -> None:
        """End it at once, from any thread."""
        self.wire.child.kill()

    def close(self) -> None:
        """End it."""
        self.wire.close()


def _uri(name: str) -> str:
    return (PROJECT / name).as_uri()


def _decoded(raw: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ServerDied("it answered in another form") from error
