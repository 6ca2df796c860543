"""Calls of tools that a module makes: bound and checked as those of sessions, and run side by side."""

from __future__ import annotations

import inspect
import json
from typing import Any, Final, cast

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from ...calls import CallInfo
from ...core.commands import Answer, OpenCall
from ...engines.modules.link import ANSWER, Call, ModuleLink
from ...errors import ProtocolViolation
from ...tools.bridge import Prepared, ToolBridge
from ...tools.spec import build_specs
from ...types import json_data
from ...wire.messages import SURROGATES
from ...wire.values import TAGGED, decode

__all__ = ("NAMESPACE", "ModuleCalls", "bridge_of")

NAMESPACE: Final = "tools"
_MAX_AT_ONCE: Final = 63
"""Calls under way at the same time; the worker is not listened to while there are more."""
_MARK: Final = b'{"$":'

_encode = msgspec.json.Encoder().encode


def bridge_of(tools: Any) -> ToolBridge | None:
    """Tools as `run_module` takes them. Raises `TypeError` and `ValueError` that name the tool."""
    if tools is None or isinstance(tools, ToolBridge):
        return tools
    return ToolBridge(build_specs(tools), namespace=NAMESPACE)


class ModuleCalls:
    """The calls of one run. An async context manager around the run: what is under way at its end is cancelled.

    Answers are sent as long as the run has time: one that is cut off by its end leaves a worker of no more use.
    """

    def __init__(self, bridge: ToolBridge, link: ModuleLink, session_id: str, run: int) -> None:
        self._bridge = bridge
        self._link = link
        self._session_id = session_id
        self._run = run
        self._tasks: anyio.abc.TaskGroup
        self._sending: anyio.Lock
        self._room: anyio.Semaphore

    async def __aenter__(self) -> ModuleCalls:
        self._sending, self._room = anyio.Lock(), anyio.Semaphore(_MAX_AT_ONCE)
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool | None:
        self._tasks.cancel_scope.cancel()
        if isinstance(error, Exception):  # which the group would give away as one of a group
            await self._tasks.__aexit__(None, None, None)
            return None
        return await self._tasks.__aexit__(kind, error, trace)

    async def begin(self, call: Call) -> None:
        """Starts a call; waits first when many are under way."""
        spec = self._bridge.specs.get(call.name)
        if spec is None:
            raise ProtocolViolation("a worker called a tool that does not exist")
        await self._room.acquire()
        info = CallInfo(spec.name, call.id, self._session_id, self._run, bytes(call.args).decode("utf-8", "replace"))
        prepared = self._bridge.prepare(OpenCall(call.id, call.name, bytes(call.args), 0), info)
        self._tasks.start_soon(self._answer, prepared)

    async def end(self) -> None:
        """The run is over: waits for an answer that is being sent, so that it is not cut off. From then on none is begun."""
        await self._sending.acquire()

    async def _answer(self, prepared: Prepared | Answer) -> None:
        try:
            answer = prepared if isinstance(prepared, Answer) else await self._made(prepared)
            body = _as_json(answer)
            async with self._sending:
                await self._link.send(ANSWER, body)
        except OSError:
            pass  # the worker is gone, as whoever listens to it will find
        finally:
            self._room.release()

    async def _made(self, prepared: Prepared) -> Answer:
        call_id, spec = prepared.call_id, prepared.spec
        try:
            if spec.is_async:
                value = await prepared.invoke()
            else:
                value = await anyio.to_thread.run_sync(prepared.invoke, abandon_on_cancel=True)
                if inspect.isawaitable(value):  # a plain function that returned a coroutine
                    value = await cast("Any", value)
        except Exception as error:
            return self._bridge.failure(call_id, error)
        return self._bridge.answer(call_id, spec.name, value)


def _as_json(answer: Answer) -> bytes:
    payload = answer.payload
    if not answer.ok:
        return b'{"id":%d,"ok":false,%b' % (answer.call_id, payload[1:])
    if _MARK in payload:  # dates, bytes and the like have another form for sessions, which have those types
        halves = SURROGATES if b"\\ud" in payload else 0
        payload = _plain(json_data(decode(payload, TAGGED | halves)))
    return b'{"id":%d,"ok":true,"value":%b}' % (answer.call_id, payload)


def _plain(data: Any) -> bytes:
    try:
        return _encode(data)
    except UnicodeEncodeError:  # half a surrogate pair, which only the standard library writes
        return json.dumps(data, separators=(",", ":")).encode("ascii")
