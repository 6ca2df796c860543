"""Names of what sessions report, and the closed set of values that go with them.

Nothing that a guest chose is ever an attribute: no tool arguments, no error texts, no names of its own. Without
`opentelemetry-api` installed, reporting costs one attribute lookup.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, Literal

__all__ = ("Span", "span")

Span = Literal["gloveport.run", "gloveport.dump", "gloveport.load", "gloveport.fork"]
ATTRIBUTES: Final = frozenset(
    {"gloveport.engine", "gloveport.isolation", "gloveport.status", "gloveport.error_code", "gloveport.tool_calls"}
)
"""Every attribute there is. Statuses are `Succeeded`, `Failed` and `Paused`; error codes are those of `errors.py`."""

_tracer: Any = None
_looked = False


def _get_tracer() -> Any:
    global _tracer, _looked
    if not _looked:
        _looked = True
        if importlib.util.find_spec("opentelemetry") is not None:
            from opentelemetry import trace  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

            _tracer = trace.get_tracer("gloveport")  # pyright: ignore[reportUnknownMemberType]
    return _tracer


@contextmanager
def span(name: Span, **attributes: str | int) -> Generator[Any]:
    """A span around an operation; yields it, or `None` when nobody listens."""
    tracer = _get_tracer()
    if tracer is None:
        yield None
        return
    with tracer.start_as_current_span(
        name, attributes={f"gloveport.{key}": value for key, value in attributes.items()}
    ) as current:
        yield current
