"""OpenTelemetry spans and metrics of sessions, and the closed set of names and values that they use.

Nothing that a guest chose is ever an attribute: no arguments, no error texts, no names of its own. A tool's name is the one that
the application gave it. Without `opentelemetry-api` installed, reporting costs an attribute look-up.

| span | of | attributes beside engine and isolation |
|---|---|---|
| `gloveport.run` | `run`, `execute`, `start`, `resume` | status, error_code, tool_calls |
| `gloveport.call` | a tool at work, inside of its run | tool, ok |
| `gloveport.dump`, `gloveport.load`, `gloveport.fork` | those methods | blob_bytes |

| metric | unit | attributes |
|---|---|---|
| `gloveport.run.duration` (histogram; its count is that of the runs) | s | engine, isolation, status, error_code |
| `gloveport.run.tool_calls` (counter) | calls | engine, isolation |
| `gloveport.blob.size` (histogram), `gloveport.load.duration` (histogram) | By, s | engine, isolation |
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, Literal

__all__ = ("ATTRIBUTES", "Observation", "Span", "end_call", "enter_call", "span", "start_call")

Span = Literal["gloveport.run", "gloveport.dump", "gloveport.load", "gloveport.fork"]
ATTRIBUTES: Final = frozenset(
    {
        "gloveport.engine",
        "gloveport.isolation",
        "gloveport.status",
        "gloveport.error_code",
        "gloveport.tool_calls",
        "gloveport.tool",
        "gloveport.ok",
        "gloveport.blob_bytes",
    }
)
"""Every attribute there is. Statuses are `Succeeded`, `Failed` and `Paused`; error codes are those of `errors`."""


class _Reporter:
    """A tracer and the instruments, made when they are first needed."""

    def __init__(self) -> None:
        from opentelemetry import metrics, trace  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

        traces: Any = trace
        self._providers: tuple[Any, Any] = (trace.get_tracer_provider, metrics.get_meter_provider)
        meter: Any = metrics.get_meter("gloveport")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        self.tracer: Any = traces.get_tracer("gloveport")
        self.set_span_in_context: Any = traces.set_span_in_context
        self.durations: dict[str, Any] = {
            "gloveport.run": meter.create_histogram("gloveport.run.duration", "s", "Time of a run, or of a part of it"),
            "gloveport.load": meter.create_histogram("gloveport.load.duration", "s", "Time to restore a session"),
        }
        self.calls: Any = meter.create_counter("gloveport.run.tool_calls", "{call}", "Tool calls of runs")
        self.sizes: Any = meter.create_histogram("gloveport.blob.size", "By", "Size of dumps")

    def heard(self) -> bool:
        """Whether the application has set a provider: until then the API's own stand-ins take everything, for 20 µs a span."""
        return not all("Proxy" in type(provider()).__name__ for provider in self._providers)


_reporter: Any = None
_looked = False


def _get_reporter() -> Any:
    global _reporter, _looked
    if not _looked:
        _looked = True
        if importlib.util.find_spec("opentelemetry") is not None:
            _reporter = _Reporter()
    return _reporter


class Observation:
    """A span that is open, and what will be measured of it."""

    __slots__ = ("_attributes", "_began", "_name", "_reporter", "_span", "calls", "size")

    def __init__(self, reporter: Any, name: Span, current: Any, attributes: dict[str, Any]) -> None:
        self._reporter = reporter
        self._name = name
        self._span = current
        self._attributes = attributes
        self._began = time.perf_counter()
        self.calls = 0
        """Tool calls."""
        self.size = 0
        """Bytes of the dump."""

    @property
    def recording(self) -> bool:
        """Whether anybody will see the span; otherwise those of calls are not worth making."""
        return bool(self._span.is_recording())

    def outcome(self, status: str, error_code: str | None) -> None:
        """How it ended."""
        self._set("gloveport.status", status)
        if error_code is not None:
            self._set("gloveport.error_code", error_code)

    def _set(self, key: str, value: Any) -> None:
        self._attributes[key] = value
        self._span.set_attribute(key, value)

    def finish(self) -> None:
        """Report."""
        histogram = self._reporter.durations.get(self._name)
        if histogram is not None:
            histogram.record(time.perf_counter() - self._began, self._attributes)
        kind = {key: self._attributes[key] for key in ("gloveport.engine", "gloveport.isolation")}
        if self._name == "gloveport.run":
            self._span.set_attribute("gloveport.tool_calls", self.calls)
            self._reporter.calls.add(self.calls, kind)
        if self.size:
            self._span.set_attribute("gloveport.blob_bytes", self.size)
            self._reporter.sizes.record(self.size, kind)


@contextmanager
def span(name: Span, *, engine: str, isolation: str) -> Generator[Observation | None]:
    """A span around an operation; yields what is told more of it, or `None` when nobody can listen."""
    reporter = _get_reporter()
    if reporter is None or not reporter.heard():
        yield None
        return
    attributes = {"gloveport.engine": engine, "gloveport.isolation": isolation}
    with reporter.tracer.start_as_current_span(name, attributes=attributes) as current:
        observation = Observation(reporter, name, current, attributes)
        try:
            yield observation
        finally:
            observation.finish()


def start_call(tool: str) -> Any:
    """The span of a tool call, below the current one."""
    reporter = _get_reporter()
    return (
        None if reporter is None else reporter.tracer.start_span("gloveport.call", attributes={"gloveport.tool": tool})
    )


def enter_call(call: Any) -> None:
    """Make it the current span of the current context, for good: a call has a context of its own."""
    from opentelemetry import context  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    of_api: Any = context
    of_api.attach(_get_reporter().set_span_in_context(call))


def end_call(call: Any, *, ok: bool) -> None:
    """The call was answered, or is not waited for any more."""
    if call is not None:
        call.set_attribute("gloveport.ok", ok)
        call.end()
