"""From the arguments of a guest's call to those of the Python function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..errors import ToolArgumentError
from ..wire.values import UNDEFINED
from .declarations import Declarations
from .problems import MAX_PROBLEMS, Misfit, Problem, TooMuchToCheck, kind, listed
from .prompt import example_call
from .spec import ToolSpec
from .typescript import Signature

__all__ = ("bind_arguments",)


def bind_arguments(
    spec: ToolSpec, args: Sequence[Any], *, namespace: str | None = None, validate: bool = True
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments for `spec.callable`.

    Args:
        spec: the tool.
        args: decoded values, with `UNDEFINED` for `undefined`. Trailing ones count as not given; one before other arguments
            stands for the parameter's default, or `None` if it has none.
        namespace: as in the session, for the messages.
        validate: check them against the annotations and convert them, or check the object against the tool's schema; without
            it, only their number is checked.

    Raises `ToolArgumentError`, with a message for the model, when the number of arguments does not fit, a schema tool is
    not called with one object, or an argument is not of its type.
    """
    if validate and spec.readers is not None and not spec.schema_tool:
        found = spec.readers.plain(args)
        if found is not None:
            return found, {}
    given = list(args)
    while given and given[-1] is UNDEFINED:
        given.pop()
    if spec.schema_tool:
        properties = _one_object(spec, given, namespace)
        if not spec.parameters and spec.readers is None:  # described by a schema, and not a function without parameters
            return [_checked(spec, properties, namespace) if validate else properties], {}
        given = _spread(spec, properties, namespace)
    else:
        required = sum(parameter.required for parameter in spec.parameters)
        variadic = bool(spec.parameters) and spec.parameters[-1].variadic
        if len(given) < required or (len(given) > len(spec.parameters) and not variadic):
            raise ToolArgumentError(_arity(spec, len(given), required, variadic, namespace))
    if validate and spec.readers is not None:
        return _read(spec, given, namespace), {}
    for index, value in enumerate(given):
        if value is UNDEFINED:
            given[index] = spec.parameters[min(index, len(spec.parameters) - 1)].default
    return given, {}


def _read(spec: ToolSpec, given: list[Any], namespace: str | None) -> list[Any]:
    """The arguments, converted."""
    assert spec.readers is not None
    readers, budget = spec.readers.all(), spec.readers.budget()
    problems: list[Problem] = []
    last = len(readers) - 1
    try:
        for index, value in enumerate(given):
            parameter = spec.parameters[min(index, last)]
            if value is UNDEFINED and not parameter.required and not parameter.variadic:
                given[index] = parameter.default
                continue
            if value is None and parameter.default is None and not parameter.required and not parameter.variadic:
                continue  # `a: int = None`: what the default says is taken too
            try:
                given[index] = readers[min(index, last)](None if value is UNDEFINED else value, budget)
            except Misfit as misfit:
                problems += _of_argument(parameter, index - last, value, misfit)
                if len(problems) > MAX_PROBLEMS:
                    break
    except (TooMuchToCheck, RecursionError):
        raise ToolArgumentError(
            f"{spec.js_name}: the arguments are too large or too deep to be checked: send less"
        ) from None
    if problems:
        raise ToolArgumentError(listed(spec.js_name, problems, example_call(spec, namespace)))
    return given


def _of_argument(parameter: Any, offset: int, value: Any, misfit: Misfit) -> list[Problem]:
    problems = misfit.under(parameter.js_name)
    if parameter.variadic:
        problems = [((path[0], offset, *path[1:]), text) for path, text in problems]
    if value is UNDEFINED:
        problems = [(path, text.replace("got null", "got undefined")) for path, text in problems]
    elif value is None and not parameter.required:
        problems = [(path, f"{text} (leave it out if there is none)") for path, text in problems]
    return problems


def _checked(spec: ToolSpec, properties: Mapping[str, Any], namespace: str | None) -> Any:
    """The object of a schema tool, as JSON data that fits its schema."""
    if spec.check is None:
        return properties
    try:
        return spec.check.read(properties)
    except Misfit as misfit:
        message = listed(spec.js_name, misfit.problems, example_call(spec, namespace))
        raise ToolArgumentError(message) from None
    except (TooMuchToCheck, RecursionError):
        raise ToolArgumentError(f"{spec.js_name}: the object is too deep to be checked: send less") from None


def _one_object(spec: ToolSpec, given: list[Any], namespace: str | None) -> Mapping[str, Any]:
    if not given:
        return {}
    if len(given) == 1 and isinstance(given[0], Mapping):
        return cast("Mapping[str, Any]", given[0])
    got = f"{len(given)} arguments" if len(given) > 1 else kind(given[0])
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
        value = properties.get(parameter.name, [] if parameter.variadic else UNDEFINED)
        if not parameter.variadic:
            given.append(value)
        elif isinstance(value, list):
            given += cast("list[Any]", value)
        else:
            raise ToolArgumentError(f"`{parameter.name}` of {spec.js_name} must be an array, not {kind(value)}")
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
