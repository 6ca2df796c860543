"""A world for the sans-IO core: a fake guest that runs small scripted programs, and a driver without any I/O.

A program is JSON, a list of steps: `["set", key, value]`, `["add", key, n]`, `["call", tool, argument]` (awaited, its answer goes
to `last`), `["all", [tool, …]]` (made together), `["log", text]`, `["return", key]`, `["throw", name]`, `["spin"]`, `["oom"]`,
`["trap"]`, `["die"]`. With `~` before it only the compiler understands it, and nobody does what starts with `!`.
"""

from __future__ import annotations

import copy
import json
import pickle
import struct
from types import SimpleNamespace
from typing import Any

from gloveport.core.commands import (
    Answer,
    Await,
    Awaited,
    Boot,
    Cancel,
    Compile,
    Dump,
    Launch,
    LinkLost,
    Load,
    Persist,
    Release,
    Replay,
    Step,
)
from gloveport.core.saved import Identity
from gloveport.core.session import Session, ToolInfo
from gloveport.errors import CompileError
from gloveport.policy import Limits
from gloveport.wire import messages as wire

BASE = {"globals": {}, "next": 0, "program": None, "open": {}, "waiting": 0}


class FakeGuest:
    """Deterministic, picklable, and as honest as the real one about its protocol."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = copy.deepcopy(BASE)
        self.steps = 0

    def step(self, request: bytes) -> wire.Reply:
        self.steps += 1
        self.out: list[dict[str, Any]] = []
        op = request[:1]
        status = wire.OK
        if op in (b"R", b"P"):
            _, _, _, size = struct.unpack_from("<cIII", request)
            source = request[13 : 13 + size]
            if op == b"P" and not source.startswith(b"["):  # what only the compiler understands
                return wire.Reply(wire.OK, 1000, 0, wire.NOT_PLAIN)
            self.state["program"] = json.loads(source)
            status = self._advance()
        elif op == b"A":
            _, _, call_id, ok, size = struct.unpack_from("<cdIBI", request)
            value = json.loads(request[-size:]) if size else None
            self.state["open"].pop(str(call_id))
            self.state["globals"]["last"] = value if ok else {"error": value["name"]}
            status = self._advance()
        elif op in (b"T", b"G", b"O", b"E"):
            pass
        output = b"".join(struct.pack("<I", len(body)) + body for body in (json.dumps(m).encode() for m in self.out))
        return wire.Reply(status, 1000, 0, output)

    def _advance(self) -> int:
        state = self.state
        while not state["open"] and state["program"]:
            step = state["program"].pop(0)
            kind = step[0]
            if kind == "set":
                state["globals"][step[1]] = step[2]
            elif kind == "add":
                state["globals"][step[1]] = state["globals"].get(step[1], 0) + step[2]
            elif kind == "log":
                self.out.append({"t": "log", "s": 1, "m": step[1]})
            elif kind == "call":
                self._call(step[1], step[2])
            elif kind == "all":
                for tool in step[1]:
                    self._call(tool, None)
            elif kind == "return":
                state["program"] = []
                self.out.append({"t": "done", "v": state["globals"].get(step[1])})
                return wire.OK
            elif kind == "throw":
                state["program"] = []
                self.out.append({"t": "fail", "kind": "throw", "name": step[1], "message": "thrown"})
                return wire.OK
            elif kind == "die":
                raise LinkLost("died", "the worker died")
            else:
                return {"spin": wire.INTERRUPTED, "oom": wire.OUT_OF_MEMORY, "trap": wire.TRAP}[kind]
        if state["open"]:
            self.out.append({"t": "idle", "calls": len(state["open"]), "timer": None, "now": 0})
        else:
            self.out.append({"t": "done"})
        return wire.OK

    def _call(self, tool: str, argument: Any) -> None:
        self.state["next"] += 1
        self.state["open"][str(self.state["next"])] = tool
        self.out.append({"t": "call", "id": self.state["next"], "n": tool, "a": [argument], "f": 0})


class World:
    """Performs commands at once. `tools` answer a call by its name and arguments; `trace` holds what was asked for."""

    def __init__(self, tools: dict[str, Any]) -> None:
        self.tools = tools
        self.guest: FakeGuest | None = None
        self.trace: list[str] = []
        self.launched: list[Any] = []
        self.boots = 0
        self.fail_next: LinkLost | None = None
        self.persist: Any = None
        """What performs `Persist`."""

    def drive(self, steps: Any) -> Any:
        try:
            command = next(steps)
            while True:
                self.trace.append(type(command).__name__)
                try:
                    result = self.perform(command)
                except Exception as error:
                    command = steps.throw(error)
                else:
                    command = steps.send(result)
        except StopIteration as stop:
            return stop.value

    def perform(self, command: Any) -> Any:
        if isinstance(command, Compile):
            if command.source.startswith("!"):
                raise CompileError("bad", line=1, column=2)
            return SimpleNamespace(
                code=command.source.removeprefix("~"), locate=lambda line, column=0: (line - 1, column)
            )
        if isinstance(command, Boot):
            self.guest, self.boots = FakeGuest(), self.boots + 1
            return None
        if isinstance(command, (Release, Cancel)):
            self.launched.clear()
            if isinstance(command, Release):
                self.guest = None
            return None
        if isinstance(command, Persist):
            return self.persist(command)
        if isinstance(command, Launch):
            self.launched.append(command.call)
            return None
        if isinstance(command, Await):
            answers = [self.answer(call) for call in self.launched]
            self.launched.clear()
            return Awaited(0.01, answers)
        return self._guest(command)

    def _guest(self, command: Any) -> Any:
        if self.guest is None:
            raise LinkLost("died", "the worker is gone")
        if self.fail_next is not None:
            failure, self.fail_next, self.guest = self.fail_next, None, None
            raise failure
        if isinstance(command, Step):
            return self.guest.step(command.request)
        if isinstance(command, Replay):
            replies = [self.guest.step(request) for request in command.requests]
            status = next((reply.status for reply in replies if reply.status), 0)
            return wire.Reply(status, 1000 * len(replies), 0, b"".join(reply.output for reply in replies))
        if isinstance(command, Dump):
            return pickle.dumps(self.guest.state)
        if isinstance(command, Load):
            self.guest.state = pickle.loads(command.images[-1])  # noqa: S301  our own bytes
            return None
        raise TypeError(command)

    def answer(self, call: Any) -> Answer:
        tool = self.tools[call.name]
        try:
            return Answer(call.id, True, json.dumps(tool(*json.loads(call.args))).encode())
        except Exception as error:
            return Answer(call.id, False, json.dumps({"name": type(error).__name__, "message": ""}).encode())


def make_session(
    *names: str, limits: Limits | None = None, plain_first: bool = False, kind: type[Session] = Session, **options: Any
) -> Session:
    """A session with those tools."""
    infos = {name: ToolInfo(name, name) for name in names}
    identity = Identity(
        clock_ms=0.0,
        seed=1,
        frozen_clock=False,
        namespace=None,
        tools=tuple(sorted(names)),
        redact=True,
        bootstrap=None,
    )
    session = kind(session_id="s", identity=identity, limits=limits or Limits(), tools=infos, **options)
    session.plain_first = plain_first
    return session


def program(*steps: Any) -> str:
    """The source of a scripted program."""
    return json.dumps(steps)


def value(call_id: int, data: Any) -> Answer:
    """An answer with a value."""
    return Answer(call_id, True, json.dumps(data).encode())
