"""Conversations about commands: start one, follow it to its end, feed it, signal it, list them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from ..errors import ProtocolViolation
from .result import CommandResult
from .steps import Call, Disconnected, Frames, Give, Owed, Patience, Reconnect, Steps, failure, simple
from .transcript import Stream
from .wire import CHUNK, Ask, Fields, Tag, Tell, encode, fields, output

__all__ = (
    "CommandInfo",
    "DataOutput",
    "ExecRequest",
    "Follower",
    "Output",
    "forget",
    "listing",
    "put",
    "resize",
    "send_signal",
)

Output = Callable[[str], Any]
"""Is called with text as it comes; what it returns is awaited by the async classes if it can be."""
DataOutput = Callable[[tuple[int, bytes]], Any]
"""Is called with 1 (output) or 2 (errors), and the bytes as they are."""
_SLACK: Final = 15.0
"""Seconds that a machine has beyond a command's own timeout to say that it has ended."""
_MAX_LISTED: Final = 65536


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExecRequest:
    """One command, as the agent starts it."""

    argv: Sequence[str] = ()
    shell: str | None = None
    cwd: str | None = None
    env: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    user: str | None = None
    stdin: bool = False
    pty: tuple[int, int] | None = None
    """Rows and columns of a terminal."""
    timeout_ms: int = 0
    keep_bytes: int = 1 << 20
    output_limit: int = 0
    detach: bool = False
    follow: bool = True
    label: str | None = None
    rlimits: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """The `EXEC` frame."""
        rows, cols = self.pty or (None, None)
        return encode(
            Ask.EXEC,
            fields(
                *((Tag.ARGV, argument) for argument in self.argv),
                (Tag.SHELL, self.shell),
                (Tag.CWD, self.cwd),
                *((Tag.ENV, f"{name}={value}") for name, value in self.env.items()),
                (Tag.USER, self.user),
                (Tag.STDIN, 1 if self.stdin else None),
                (Tag.PTY, 1 if self.pty else None),
                (Tag.ROWS, rows),
                (Tag.COLS, cols),
                (Tag.TIMEOUT_MS, self.timeout_ms or None),
                (Tag.KEEP_BYTES, self.keep_bytes),
                (Tag.DETACH, 1 if self.detach else None),
                (Tag.FOLLOW, 1 if self.follow else None),
                *((Tag.RLIMIT, limit) for limit in self.rlimits),
                (Tag.LABEL, self.label),
                (Tag.OUTPUT_LIMIT, self.output_limit or None),
            ),
        )


@dataclasses.dataclass(frozen=True)
class CommandInfo:
    """A command of a machine, running or ended."""

    id: int
    """What `commands.attach` takes."""
    pid: int
    """In the machine."""
    label: str
    command: str
    """Its words, joined; long ones are cut."""
    state: Literal["running", "exited"]
    exit_code: int | None


class Follower:
    """Follows one command to its end, over as many connections as it takes."""

    def __init__(
        self,
        *,
        limit: int,
        on_stdout: Output | None = None,
        on_stderr: Output | None = None,
        give: bool = False,
        on_data: DataOutput | None = None,
    ) -> None:
        self._on_data = on_data
        self._give = give
        """Hand out the text as it comes, to whoever reads the conversation as a stream."""
        self.id: int | None = None
        self.pid = 0
        self.done = False
        self.streams = (Stream(limit), Stream(limit))
        self._calls = (on_stdout, on_stderr)
        self._frames = Frames()

    def run(self, request: ExecRequest, stdin: bytes | None = None) -> Steps[CommandResult]:
        """Start it, feed it, and follow it."""
        yield Patience(request.timeout_ms / 1000 + _SLACK if request.timeout_ms else None)
        if stdin is not None:
            request = dataclasses.replace(request, stdin=True, follow=False)
        id = yield from self.start(request)  # noqa: A001
        if stdin is not None:
            yield from put(id, stdin, eof=True)
            return (yield from self.attach(id))
        return (yield from self._follow())

    def start(self, request: ExecRequest) -> Steps[int]:
        """Start it and leave it alone. Gives its id; whoever is cut off meanwhile finds that in `id`, if it was started."""
        yield request.encode()
        yield Owed(True)
        started = Fields((yield from self._frames.expect(Tell.STARTED, request.cwd or "/workspace")))
        self.id = id = started.integer(Tag.ID)  # noqa: A001
        self.pid = started.integer(Tag.PID, 0)
        yield Owed(False)
        return id

    def attach(self, id: int) -> Steps[CommandResult]:  # noqa: A002
        """Follow the command with this id from where this follower is."""
        self.id = id
        yield self._attach()
        return (yield from self._follow())

    def _attach(self) -> bytes:
        out, err = self.streams
        return encode(
            Ask.ATTACH,
            fields((Tag.ID, self.id), (Tag.OUT_OFFSET, out.offset), (Tag.ERR_OFFSET, err.offset)),
        )

    def _follow(self) -> Steps[CommandResult]:
        while True:
            try:
                kind, body = yield from self._frames.next()
            except Disconnected:
                # The command goes on, or its machine is gone: to connect again tells which.
                yield Reconnect()
                self._frames.restart()
                yield self._attach()
                continue
            if kind is Tell.OUTPUT:
                number, offset, data = output(body)
                if self._on_data is not None:
                    seen = max(0, self.streams[number - 1].offset - offset)
                    yield Call(self._on_data, (number, data[seen:]))
                yield from self._tell(number, self.streams[number - 1].add(offset, data))
            elif kind is Tell.EXIT:
                return (yield from self._finish(Fields(body)))
            elif kind is Tell.ERROR:
                raise failure(body)
            elif kind not in (Tell.STARTED, Tell.OK):
                raise ProtocolViolation(f"a machine sent {kind.name} while a command was followed")

    def _tell(self, number: int, text: str) -> Steps[None]:
        call = self._calls[number - 1]
        if not text:
            return
        if self._give:
            yield Give(("stdout" if number == 1 else "stderr", text))
        if call is not None:
            yield Call(call, text)

    def _finish(self, told: Fields) -> Steps[CommandResult]:
        self.done = True
        for number, tag in ((1, Tag.OUT_TOTAL), (2, Tag.ERR_TOTAL)):
            stream = self.streams[number - 1]
            yield from self._tell(number, stream.finish(told.integer(tag, stream.offset)))
        return self._result(told)

    def _result(self, told: Fields) -> CommandResult:
        (stdout, out_lost), (stderr, err_lost) = (stream.text() for stream in self.streams)
        signal, timed_out = told.integer(Tag.SIGNAL, 0) & 0x7F, told.integer(Tag.TIMED_OUT, 0) != 0
        code = 124 if timed_out else 128 + signal if signal else told.integer(Tag.EXIT_CODE, 0) & 0xFF
        limit = told.text(Tag.LIMIT, "")
        return CommandResult(
            stdout=stdout,
            stderr=stderr,
            exit_code=code,
            truncated=bool(out_lost or err_lost),
            timed_out=timed_out,
            limit=limit
            if limit in ("memory", "pids", "disk", "output", "cpu", "file_size")
            else "other"
            if limit
            else None,
            signal=None if timed_out else signal or None,
            stdout_skipped=out_lost,
            stderr_skipped=err_lost,
        )


def put(id: int, data: bytes, *, eof: bool = False) -> Steps[bool]:  # noqa: A002
    """Write to its input. Gives `False` when it reads no more."""
    for at in range(0, max(len(data), 1), CHUNK):
        last = at + CHUNK >= len(data)
        yield encode(
            Ask.INPUT, fields((Tag.ID, id), (Tag.DATA, data[at : at + CHUNK]), (Tag.EOF, 1 if eof and last else None))
        )
        try:
            yield from Frames().expect(Tell.OK)
        except BrokenPipeError:
            return False
        except OSError as error:
            if error.errno == 32:  # EPIPE of the machine: it has ended, or closed its input
                return False
            raise
    return True


def send_signal(id: int, number: int, *, tree: bool) -> Steps[Fields]:  # noqa: A002
    """A signal to its process group, or to all that it has started in its session."""
    return simple(encode(Ask.SIGNAL, fields((Tag.ID, id), (Tag.SIGNO, number), (Tag.SCOPE, 1 if tree else 0))))


def resize(id: int, rows: int, cols: int) -> Steps[Fields]:  # noqa: A002
    """The size of its terminal."""
    return simple(encode(Ask.RESIZE, fields((Tag.ID, id), (Tag.ROWS, rows), (Tag.COLS, cols))))


def forget(id: int) -> Steps[Fields]:  # noqa: A002
    """Let go of its output and of its place in the list."""
    return simple(encode(Ask.FORGET, fields((Tag.ID, id))))


def listing() -> Steps[list[CommandInfo]]:
    """The commands that the machine knows."""
    yield encode(Ask.LIST)
    frames, found = Frames(), list[CommandInfo]()
    while True:
        kind, body = yield from frames.next()
        if kind is Tell.END:
            return found
        if kind is not Tell.PROCESS or len(found) >= _MAX_LISTED:
            raise failure(body) if kind is Tell.ERROR else ProtocolViolation(f"a machine listed {kind.name}")
        told = Fields(body)
        exited = told.has(Tag.EXIT_CODE)
        found.append(
            CommandInfo(
                id=told.integer(Tag.ID),
                pid=told.integer(Tag.PID, 0),
                label=told.text(Tag.LABEL, ""),
                command=told.text(Tag.ARGV, ""),
                state="exited" if exited else "running",
                exit_code=told.integer(Tag.EXIT_CODE) if exited else None,
            )
        )
