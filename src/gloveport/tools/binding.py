"""From the arguments of a guest's call to those of the Python function."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..errors import ToolArgumentError
from ..wire.values import UNDEFINED
from .declarations import Declarations
from .prompt import example_call
from .spec import ToolSpec
from .typescript import Signature

__all__ = ("bind_arguments",)


def bind_arguments(
    spec: ToolSpec, args: Sequence[Any], *, namespace: str | None = None
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments for `spec.callable`.

    Args:
        spec: the tool.
        args: decoded values, with `UNDEFINED` for `undefined`. Trailing ones count as not given; one before other arguments
            stands for the parameter's default, or `None` if it has none.
        namespace: as in the session, for the messages.

    Raises `ToolArgumentError`, with a message for the model, when the number of arguments does not fit, or a schema tool is
    not called with one object. Types are not checked.
    """
    given = list(args)
    while given and given[-1] is UNDEFINED:
        given.pop()
    if spec.schema_tool:
        properties = _one_object(spec, given, namespace)
        return (_spread(spec, properties, namespace) if spec.parameters else [properties]), {}
    required = sum(parameter.required for parameter in spec.parameters)
    variadic = bool(spec.parameters) and spec.parameters[-1].variadic
    if len(given) < required or (len(given) > len(spec.parameters) and not variadic):
        raise ToolArgumentError(_arity(spec, len(given), required, variadic, namespace))
    for index, value in enumerate(given):
        if value is UNDEFINED:
            parameter = spec.parameters[min(index, len(spec.parameters) - 1)]
            given[index] = parameter.default
    return given, {}


def _one_object(spec: ToolSpec, given: list[Any], namespace: str | None) -> Mapping[str, Any]:
    if not given:
        return {}
    if len(given) == 1 and isinstance(given[0], Mapping):
        return cast("Mapping[str, Any]", given[0])
    got = f"{len(given)} arguments" if len(given) > 1 else _kind(given[0])
    raise ToolArgumentError(
        f"{spec.js_name} takes one object argument, got {got}: write {example_call(spec, namespace)}"
    )


def _spread(spec: ToolSpec, properties: Mapping[str, Any], namespace: str | None) -> list[Any]:
    """The properties of the object as the arguments of a Python function."""
    known = {parameter.name for parameter in spec.parameters}
    missing = [p.name for p in spec.parameters if p.required and p.name not in properties]
    unknown = [str(name) for name in properties if name not in known]
    if missing or unknown:
        wrong = f"needs `{missing[0]}`" if missing else f"has no `{unknown[0][:100]}`"
        raise ToolArgumentError(f"the object of {spec.js_name} {wrong}: write {example_call(spec, namespace)}")
    given: list[Any] = []
    for parameter in spec.parameters:
        value = properties.get(parameter.name, [] if parameter.variadic else parameter.default)
        if not parameter.variadic:
            given.append(value)
        elif isinstance(value, list):
            given += cast("list[Any]", value)
        else:
            raise ToolArgumentError(f"`{parameter.name}` of {spec.js_name} must be an array, not {_kind(value)}")
    return given


def _arity(spec: ToolSpec, given: int, required: int, variadic: bool, namespace: str | None) -> str:
    most = len(spec.parameters)
    if variadic:
        expected = f"at least {required}"
    elif required == most:
        expected = str(most)
    else:
        expected = f"{required} to {most}"
    noun = "argument" if expected == "1" else "arguments"
    signature = Signature(spec, Declarations())
    where = f"{namespace}." if namespace else ""
    return f"{spec.js_name} takes {expected} {noun}, got {given}: {where}{signature}"


def _kind(value: Any) -> str:
    """What the model would call a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    for kinds, text in (
        ((int, float), "a number"),
        (str, "a string"),
        (bytes, "a Uint8Array"),
        (dt.datetime, "a Date"),
    ):
        if isinstance(value, kinds):
            return text
    return "a Set" if isinstance(value, (set, frozenset)) else "an array"
