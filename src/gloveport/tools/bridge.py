"""Between a guest's call and the real tool: arguments in, an answer out, errors redacted.

Nothing of a tool's error but the class name reaches the guest, unless the session was made with `redact_host_errors=False`, the
class is in `expose_host_errors`, or it is a `ToolError` whose text is for the model (`shown`). Texts that gloveport writes itself
for the guest are always shown.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..calls import CallInfo, enter_tool
from ..core.commands import Answer, OpenCall
from ..errors import (
    PauseRequested,
    ToolArgumentError,
    ToolError,
    ToolNotFoundError,
    ToolTimeoutError,
    ValueCrossingError,
)
from ..telemetry import enter_call
from ..types import ToolCall
from ..wire.values import decode_arguments, encode
from .binding import bind_arguments
from .spec import ToolSpec

if TYPE_CHECKING:
    from .finders import SessionCatalog

__all__ = ("Prepared", "ToolBridge")

REDACTED: Final = "host function failed"
_MAX_MESSAGE: Final = 4000


class Prepared:
    """A call that is ready to be made."""

    __slots__ = ("arguments", "call_id", "deadline", "handle", "info", "keywords", "span", "spec")

    def __init__(
        self,
        call_id: int,
        spec: ToolSpec,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        info: CallInfo | None = None,
    ) -> None:
        self.call_id = call_id
        self.spec = spec
        self.arguments = arguments
        self.keywords = keywords
        self.deadline = 0.0
        """When it is late (`time.monotonic`); 0 without a limit."""
        self.handle: Any = None
        """What can be cancelled, for a tool that is awaited."""
        self.span: Any = None
        """For whoever watches its calls."""
        self.info = info
        if info is not None and spec.key_parameter is not None:
            self.keywords = {**keywords, spec.key_parameter: info.idempotency_key}

    def invoke(self) -> Any:
        """Call the tool: its value, or for an async tool its coroutine. In a context of its own."""
        if self.span is not None:
            enter_call(self.span)
        if self.info is not None:
            enter_tool(self.info)
        return self.spec.callable(*self.arguments, **self.keywords)


class ToolBridge:
    """The tools of one session, by the name the guest uses."""

    def __init__(
        self,
        specs: dict[str, ToolSpec],
        *,
        namespace: str | None = None,
        redact: bool = True,
        expose: tuple[type[BaseException], ...] = (),
        catalog: SessionCatalog | None = None,
        validate: bool = True,
    ) -> None:
        self.specs = specs
        self._by_name = {spec.name: spec for spec in specs.values()}
        self._namespace = namespace
        self._redact = redact
        self._expose = expose
        self._catalog = catalog
        self._validate = validate
        self.find_out: Callable[[ToolCall], Any] | None = None
        """Called instead of the tool for a call whose outcome is unknown."""

    def add(self, spec: ToolSpec) -> None:
        """One more tool."""
        self.specs[spec.js_name] = self._by_name[spec.name] = spec

    def annotations(self, call_name: str) -> Mapping[str, Any]:
        """What is said of the tool that the guest calls so."""
        spec = self.specs.get(call_name)
        if spec is None and self._catalog is not None:
            spec = self._catalog.called(call_name)
        return (spec.annotations or {}) if spec is not None else {}

    def prepare(self, call: OpenCall, info: CallInfo) -> Prepared | Answer:
        """Decode and bind the arguments; an `Answer` when they do not fit."""
        spec = self.specs.get(call.name)
        where = self._namespace
        if spec is None and self._catalog is not None:
            spec, where = self._catalog.called(call.name), self._catalog.object
        if spec is None:  # removed from the catalog since the call was made
            return _error(call.id, ToolNotFoundError.__name__, f"`{call.name}` was removed from the catalog")
        try:
            given = decode_arguments(call.args, call.flags)
            arguments, keywords = bind_arguments(spec, given, namespace=where, validate=self._validate)
        except (ToolArgumentError, ValueCrossingError) as error:
            return _error(call.id, "TypeError", str(error))
        if call.unknown and self.find_out is not None:
            given = tuple(decode_arguments(call.args, call.flags))
            step = ToolCall(info.name, given, info.call_id, call.reason, True, info.idempotency_key)
            return self._unknown(call.id, spec, step, info)
        return Prepared(call.id, spec, arguments, keywords, info)

    def prepare_step(self, step: ToolCall, info: CallInfo) -> Prepared:
        """The same for a `ToolCall`; raises `ToolArgumentError`, and `ToolNotFoundError` for a tool that is not there."""
        spec, where = self._by_name.get(step.name), self._namespace
        if spec is None and self._catalog is not None:
            spec, where = self._catalog.named(step.name), self._catalog.object
        if spec is None:
            raise ToolNotFoundError(f"the session has no tool {step.name!r}, or no longer")
        arguments, keywords = bind_arguments(spec, list(step.args), namespace=where, validate=self._validate)
        return Prepared(step.call_id, spec, arguments, keywords, info)

    def prepare_unknown(self, step: ToolCall, info: CallInfo) -> Prepared:
        """What finds out what became of a call whose outcome is unknown."""
        prepared = self.prepare_step(step, info)
        return self._unknown(step.call_id, prepared.spec, step, info)

    def _unknown(self, call_id: int, spec: ToolSpec, step: ToolCall, info: CallInfo) -> Prepared:
        assert self.find_out is not None
        is_async = inspect.iscoroutinefunction(self.find_out)
        other = dataclasses.replace(spec, callable=self.find_out, is_async=is_async, key_parameter=None)
        return Prepared(call_id, other, [step], {}, info)

    def answer(self, call_id: int, name: str, value: Any) -> Answer:
        """The answer for a value; a value that cannot cross becomes a `TypeError` in the guest."""
        try:
            return Answer(call_id, True, encode(value))
        except ValueCrossingError as error:
            return _error(call_id, "TypeError", f"the result of `{name}` cannot cross: {error}")

    def value(self, call_id: int, value: Any) -> Answer:
        """The answer for a value that the application gives; raises `ValueCrossingError` when it cannot cross."""
        return Answer(call_id, True, encode(value))

    def failure(self, call_id: int, error: BaseException, *, pausing: bool = False) -> Answer:
        """The answer for what a tool raised. What is not an `Exception` is not an answer; it is passed on."""
        if not isinstance(error, Exception) or isinstance(error, asyncio.CancelledError):
            return Answer(call_id, False, b"", error)
        if pausing and isinstance(error, PauseRequested):
            return Answer(call_id, False, b"", pause=True)
        return _error(call_id, type(error).__name__, self.message(error))

    def told(self, call_id: int, error: Exception) -> Answer:
        """The answer for an error whose text gloveport wrote itself, for the guest."""
        return _error(call_id, type(error).__name__, str(error))

    def message(self, error: BaseException) -> str:
        """What the guest may read of an error."""
        if self._redact and not isinstance(error, self._expose) and not (isinstance(error, ToolError) and error.shown):
            return REDACTED
        return str(error)[:_MAX_MESSAGE]

    def late(self, call_id: int, name: str, seconds: float) -> Answer:
        """The answer for a tool that took longer than `tool_timeout`."""
        return _error(call_id, ToolTimeoutError.__name__, f"`{name}` did not answer within {seconds:g} s")


def _error(call_id: int, name: str, message: str) -> Answer:
    return Answer(call_id, False, encode({"name": name, "message": message[:_MAX_MESSAGE]}))
