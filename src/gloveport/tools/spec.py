"""Tools as a session sees them, made from what the caller gave."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

from ..types import SchemaTool
from .checks import ArgumentReaders, SchemaCheck
from .functions import Derived, Parameter, derived, is_async
from .names import check_namespace, check_tool_name
from .schema import Schema

__all__ = ("Parameter", "ToolSpec", "Tools", "build_specs", "check_schemas")

Tools = Mapping[str, Any] | Sequence[Any]
"""Name to callable, `SchemaTool` or mapping; or a sequence of `SchemaTool`s, mappings and named callables."""

ANY_OBJECT: Schema = {"type": "object"}


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
    readers: ArgumentReaders | None = dataclasses.field(default=None, compare=False)
    """Of a Python function: what checks and converts its arguments."""
    check: SchemaCheck | None = dataclasses.field(default=None, compare=False)
    """Of a schema tool: what checks its object; `None` with `validate=False`."""
    key_parameter: str | None = None
    """The parameter of a Python tool that gets the call's idempotency key."""


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
    return _python_spec(name, js_name, tool, derived(name, tool))


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
    validate = fields.get("validate", True)
    if not isinstance(validate, bool):
        raise TypeError(f"tool {name!r}: `validate` must be True or False, not {validate!r}")
    return ToolSpec(
        name=name,
        js_name=js_name,
        description=str(fields.get("description") or ""),
        callable=function,
        parameters=(),
        input_schema=ANY_OBJECT if input_schema is None else input_schema,
        output_schema=output_schema,
        schema_tool=True,
        is_async=is_async(function),
        sequential=bool(fields.get("sequential", False)),
        max_calls=_max_calls(name, fields.get("max_calls")),
        annotations=_annotations(name, fields.get("annotations")),
        check=SchemaCheck(name, ANY_OBJECT if input_schema is None else input_schema) if validate else None,
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


def _python_spec(name: str, js_name: str, function: Callable[..., Any], known: Derived) -> ToolSpec:
    return ToolSpec(
        name=name,
        js_name=js_name,
        description=known.description,
        callable=function,
        parameters=known.parameters,
        input_schema=known.input_schema,
        output_schema=known.output_schema,
        is_async=known.is_async,
        readers=known.readers,
        key_parameter=known.key_parameter,
    )


def check_schemas(specs: Iterable[ToolSpec]) -> None:
    """Compile the schemas that arguments are checked against. Raises `ValueError` that names the tool and the place."""
    for spec in specs:
        if spec.check is not None:
            spec.check.compiled()
