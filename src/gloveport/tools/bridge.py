"""Between a guest's call and the real tool: arguments in, an answer out, errors redacted.

Nothing of a tool's error but the class name reaches the guest, unless the session was made with `redact_host_errors=False`, the
class is in `expose_host_errors`, or it is a `ToolError` whose text is for the model (`shown`). Texts that gloveport writes itself
for the guest are always shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

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

    __slots__ = ("arguments", "call_id", "deadline", "handle", "keywords", "span", "spec")

    def __init__(self, call_id: int, spec: ToolSpec, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
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

    def invoke(self) -> Any:
        """Call the tool: its value, or for an async tool its coroutine. In a context of its own."""
        if self.span is not None:
            enter_call(self.span)
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

    def add(self, spec: ToolSpec) -> None:
        """One more tool."""
        self.specs[spec.js_name] = self._by_name[spec.name] = spec

    def prepare(self, call: OpenCall) -> Prepared | Answer:
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
        return Prepared(call.id, spec, arguments, keywords)

    def prepare_step(self, step: ToolCall) -> Prepared:
        """The same for a `ToolCall`; raises `ToolArgumentError`, and `ToolNotFoundError` for a tool that is not there."""
        spec, where = self._by_name.get(step.name), self._namespace
        if spec is None and self._catalog is not None:
            spec, where = self._catalog.named(step.name), self._catalog.object
        if spec is None:
            raise ToolNotFoundError(f"the session has no tool {step.name!r}, or no longer")
        arguments, keywords = bind_arguments(spec, list(step.args), namespace=where, validate=self._validate)
        return Prepared(step.call_id, spec, arguments, keywords)

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
