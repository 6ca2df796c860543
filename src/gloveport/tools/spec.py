"""Tools as a session sees them, made from what the caller gave."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

from ..types import SchemaTool
from .names import check_namespace, check_tool_name, identifier
from .schema import Schema, result_schema, schema_of_annotation, type_hints

__all__ = ("Parameter", "ToolSpec", "Tools", "build_specs")

Tools = Mapping[str, Any] | Sequence[Any]
"""Name to callable, `SchemaTool` or mapping; or a sequence of `SchemaTool`s, mappings and named callables."""

ANY_OBJECT: Schema = {"type": "object"}


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One positional parameter of a Python tool."""

    name: str
    """As in Python."""
    js_name: str
    """As in the stubs: unique in the signature, no reserved word."""
    schema: Schema
    required: bool = True
    variadic: bool = False
    """`*args`: `schema` is that of one element."""
    default: Any = None
    """What an `undefined` before other arguments stands for."""


@dataclasses.dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool."""

    name: str
    """As it was given; the name in records."""
    js_name: str
    """As the model writes it, without the namespace."""
    description: str
    callable: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    """Of a Python tool. A schema tool has them only if it is a Python function of a catalog: they are its object's properties."""
    input_schema: Schema
    """Schema of the one object argument of a schema tool; of a Python tool: its parameters as an object's properties."""
    output_schema: Schema | None
    """`None`: nothing is known of the result."""
    schema_tool: bool = False
    """It takes one object argument."""
    is_async: bool = False
    sequential: bool = False
    """It must not run at the same time as other calls."""
    max_calls: int | None = None
    """Calls over the session's life; `None`: no limit of its own."""
    annotations: Mapping[str, Any] | None = None
    """What is said of it for a policy."""
    signatures: tuple[str, ...] = ()
    """TypeScript signatures, where the schemas cannot say them."""


def build_specs(tools: Tools, *, namespace: str | None = None, wanted: str = "tools") -> dict[str, ToolSpec]:
    """Checks tools and gives them by JavaScript name, in the order they were given. `wanted` is what messages call them.

    Raises `TypeError` and `ValueError` that name the tool: for a set (no order), what is not callable, a required
    keyword-only parameter (JavaScript calls positionally), a reserved name, and two tools with the same JavaScript name.
    """
    namespace = check_namespace(namespace)
    specs: dict[str, ToolSpec] = {}
    for name, tool in _pairs(tools, wanted):
        spec = _spec(name, tool, namespace)
        other = specs.get(spec.js_name)
        if other is not None:
            raise ValueError(
                f"tools {other.name!r} and {spec.name!r} are both `{spec.js_name}` in JavaScript: rename one"
            )
        specs[spec.js_name] = spec
    return specs


def _pairs(tools: Tools, wanted: str) -> Iterable[tuple[object, Any]]:
    if isinstance(tools, Mapping):
        yield from tools.items()
        return
    if isinstance(tools, (str, bytes, AbstractSet)) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`{wanted}` must be a mapping of names to callables, or a list; not {type(tools).__name__}")
    for tool in tools:
        yield _own_name(tool), tool


def _own_name(tool: Any) -> object:
    if isinstance(tool, SchemaTool):
        return tool.name
    if isinstance(tool, Mapping):
        if "name" not in tool:
            raise ValueError("a tool that is given as a mapping needs a `name`")
        return cast("Mapping[str, Any]", tool)["name"]
    if not callable(tool):
        raise TypeError(f"{tool!r} is not a tool: give a callable, a `SchemaTool`, or a mapping with its fields")
    name = getattr(tool, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise ValueError(f"{tool!r} has no name: give the tools as a mapping, `{{name: callable}}`")
    return name


def _spec(name: object, tool: Any, namespace: str | None) -> ToolSpec:
    js_name = check_tool_name(name, namespace=namespace)
    assert isinstance(name, str)
    if isinstance(tool, SchemaTool):
        fields = {field.name: getattr(tool, field.name) for field in dataclasses.fields(tool)}
        return _schema_spec(name, js_name, fields)
    if isinstance(tool, Mapping):
        return _schema_spec(name, js_name, cast("Mapping[str, Any]", tool))
    if not callable(tool):
        raise TypeError(f"tool {name!r}: {tool!r} is not callable")
    return _python_spec(name, js_name, tool)


# ── tools described by JSON Schema ───────────────────────────────────────────────────────────────────────────────────


def _schema_spec(name: str, js_name: str, fields: Mapping[str, Any]) -> ToolSpec:
    function = fields.get("callable")
    if not callable(function):
        raise TypeError(f"tool {name!r}: `callable` must be a function, not {function!r}")
    input_schema = _either(fields, "input_schema", "inputSchema")
    output_schema = _either(fields, "output_schema", "outputSchema")
    for key, schema in (("input_schema", input_schema), ("output_schema", output_schema)):
        if schema is not None and not isinstance(schema, Mapping):
            raise TypeError(f"tool {name!r}: `{key}` must be a JSON Schema object, not {schema!r}")
    return ToolSpec(
        name=name,
        js_name=js_name,
        description=str(fields.get("description") or ""),
        callable=function,
        parameters=(),
        input_schema=ANY_OBJECT if input_schema is None else input_schema,
        output_schema=output_schema,
        schema_tool=True,
        is_async=_is_async(function),
        sequential=bool(fields.get("sequential", False)),
        max_calls=_max_calls(name, fields.get("max_calls")),
        annotations=_annotations(name, fields.get("annotations")),
    )


def _either(fields: Mapping[str, Any], key: str, mcp_key: str) -> Any:
    value = fields.get(key)
    return fields.get(mcp_key) if value is None else value


def _max_calls(name: str, value: Any) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    raise ValueError(f"tool {name!r}: `max_calls` must be a number of calls, not {value!r}")


def _annotations(name: str, value: Any) -> Mapping[str, Any] | None:
    if value is None or isinstance(value, Mapping):
        return cast("Mapping[str, Any] | None", value) or None
    raise TypeError(f"tool {name!r}: `annotations` must be a mapping, not {value!r}")


# ── Python functions ─────────────────────────────────────────────────────────────────────────────────────────────────


def _python_spec(name: str, js_name: str, function: Callable[..., Any]) -> ToolSpec:
    hints = type_hints(function)
    parameters = _parameters(name, function, hints)
    definitions: dict[str, Any] = {}
    for parameter in parameters:
        definitions.update(parameter.schema.get("$defs", {}))
    input_schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: _bare(parameter) for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required and not parameter.variadic],
        "additionalProperties": False,
    }
    if definitions:
        input_schema["$defs"] = definitions
    return ToolSpec(
        name=name,
        js_name=js_name,
        description=_documentation(function),
        callable=function,
        parameters=parameters,
        input_schema=input_schema,
        output_schema=result_schema(hints["return"]) if "return" in hints else None,
        is_async=_is_async(function),
    )


def _bare(parameter: Parameter) -> Schema:
    schema = {key: value for key, value in parameter.schema.items() if key != "$defs"}
    return {"type": "array", "items": schema} if parameter.variadic else schema


def _parameters(tool: str, function: Callable[..., Any], hints: Mapping[str, Any]) -> tuple[Parameter, ...]:
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some builtins have none
        return (Parameter("args", "args", {}, required=False, variadic=True),)
    found: list[Parameter] = []
    taken: set[str] = set()
    for parameter in signature.parameters.values():
        required = parameter.default is parameter.empty
        if parameter.kind is parameter.KEYWORD_ONLY and required:
            raise ValueError(
                f"tool {tool!r}: the keyword-only parameter {parameter.name!r} has no default, and JavaScript calls "
                "positionally: make it positional, give it a default, or use a `SchemaTool`"
            )
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            continue
        variadic = parameter.kind is parameter.VAR_POSITIONAL
        js_name = identifier(parameter.name)
        while js_name in taken:
            js_name += "_"
        taken.add(js_name)
        schema = schema_of_annotation(hints.get(parameter.name, Any))
        default = None if required else parameter.default
        found.append(Parameter(parameter.name, js_name, schema, required and not variadic, variadic, default))
    return tuple(found)


def _underlying(function: Callable[..., Any]) -> Any:
    target: Any = function
    while isinstance(target, functools.partial):
        target = cast("functools.partial[Any]", target).func
    return target


def _documentation(function: Callable[..., Any]) -> str:
    target = _underlying(function)
    if not inspect.isroutine(target) and not inspect.isclass(target):
        cls = cast("type[Any]", type(target))
        return inspect.getdoc(cls.__call__) or inspect.getdoc(cls) or ""
    return inspect.getdoc(target) or ""


def _is_async(function: Callable[..., Any]) -> bool:
    target = _underlying(function)
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(type(target).__call__)
