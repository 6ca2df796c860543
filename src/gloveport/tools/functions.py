"""What is known of a Python function as a tool: parameters, schemas, documentation.

Finding out takes longer than starting a session, and sessions are made by the thousand with the same functions: so it is kept, weakly,
for as long as nothing that it follows from has changed.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import inspect
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from ..calls import IdempotencyKey
from .checks import ArgumentReaders
from .names import identifier
from .schema import Schema, SchemaBuilder, result_schema, type_hints

__all__ = ("Derived", "Parameter", "derived", "is_async")


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
class Derived:
    """Everything of a tool that follows from its function."""

    description: str
    parameters: tuple[Parameter, ...]
    input_schema: Schema
    output_schema: Schema | None
    is_async: bool
    readers: ArgumentReaders
    key_parameter: str | None = None
    """The parameter that gets the call's idempotency key."""


_known: Final[weakref.WeakKeyDictionary[types.FunctionType, tuple[_State, Derived]]] = weakref.WeakKeyDictionary()


def derived(tool: str, function: Callable[..., Any]) -> Derived:
    """What is known of the function. Raises `ValueError` for a required keyword-only parameter; `tool` is for the message."""
    if type(function) is not types.FunctionType:
        return _derive(tool, function)
    found = _known.get(function)
    if found is not None and found[0].still(function):
        return found[1]
    state = _State.of(function)
    made = _derive(tool, function)
    if state is not None and all(parameter.default is not function for parameter in made.parameters):
        _known[function] = state, made
    return made


@dataclasses.dataclass(frozen=True, slots=True)
class _State:
    """What the derived part follows from."""

    parts: tuple[Any, ...]
    annotations: dict[str, Any]
    names: tuple[tuple[str, Any], ...]
    """What the names in annotations that are text stand for."""

    @classmethod
    def of(cls, function: types.FunctionType) -> _State | None:
        if function.__dict__:  # `__wrapped__`, `__signature__` and the like
            return None
        try:
            annotations = dict(function.__annotations__)
            names = {name for text in annotations.values() if isinstance(text, str) for name in _names_in(text)}
        except Exception:  # annotations that are evaluated when they are asked for (Python 3.14), or are no expressions
            return None
        if any(_global(function, name) is _MISSING for name in names):  # it may come to exist
            return None
        return cls(_parts(function), annotations, tuple((name, _global(function, name)) for name in sorted(names)))

    def still(self, function: types.FunctionType) -> bool:
        """Whether nothing has changed."""
        now = _parts(function)
        return (
            all(one is other for one, other in zip(self.parts, now, strict=True))
            and not function.__dict__
            and _same(self.annotations, function.__annotations__)
            and all(_global(function, name) is value for name, value in self.names)
        )


_MISSING: Final = object()


def _parts(function: types.FunctionType) -> tuple[Any, ...]:
    keywords = function.__kwdefaults__
    return function.__code__, function.__defaults__, function.__doc__, keywords and len(keywords)


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(value is other[name] for name, value in one.items())


def _global(function: types.FunctionType, name: str) -> Any:
    found = function.__globals__.get(name, _MISSING)
    return vars(builtins).get(name, _MISSING) if found is _MISSING else found


@functools.lru_cache(maxsize=1024)
def _names_in(annotation: str) -> frozenset[str]:
    if annotation.isidentifier():
        return frozenset((annotation,))
    import ast

    nodes = ast.walk(ast.parse(annotation.strip(), mode="eval"))
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name))


# ── finding out ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _derive(tool: str, function: Callable[..., Any]) -> Derived:
    hints = type_hints(function)
    builder = SchemaBuilder("input")  # one for all parameters: classes of one name get different ones
    parameters = _parameters(tool, function, hints, builder)
    input_schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: _bare(parameter) for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required and not parameter.variadic],
        "additionalProperties": False,
    }
    if builder.definitions:
        input_schema["$defs"] = builder.definitions
    return Derived(
        _documentation(function),
        parameters,
        input_schema,
        result_schema(hints["return"]) if "return" in hints else None,
        is_async(function),
        ArgumentReaders(
            [hints.get(parameter.name, Any) for parameter in parameters],
            least=sum(parameter.required for parameter in parameters),
            variadic=any(parameter.variadic for parameter in parameters),
        ),
        _key_parameter(tool, function, hints),
    )


def _bare(parameter: Parameter) -> Schema:
    schema = {key: value for key, value in parameter.schema.items() if key != "$defs"}
    return {"type": "array", "items": schema} if parameter.variadic else schema


def _parameters(
    tool: str, function: Callable[..., Any], hints: Mapping[str, Any], builder: SchemaBuilder
) -> tuple[Parameter, ...]:
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some builtins have none
        return (Parameter("args", "args", {}, required=False, variadic=True),)
    found: list[Parameter] = []
    taken: set[str] = set()
    for parameter in signature.parameters.values():
        if hints.get(parameter.name) is IdempotencyKey:
            continue
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
        schema = builder.document(hints.get(parameter.name, Any))
        default = None if required else parameter.default
        found.append(Parameter(parameter.name, js_name, schema, required and not variadic, variadic, default))
    return tuple(found)


def _key_parameter(tool: str, function: Callable[..., Any], hints: Mapping[str, Any]) -> str | None:
    name = next((name for name, hint in hints.items() if hint is IdempotencyKey and name != "return"), None)
    if name is None:
        return None
    parameters = inspect.signature(function).parameters
    kinds = [p.kind for p in list(parameters.values())[list(parameters).index(name) :]]
    first, *others = kinds
    if first is not inspect.Parameter.KEYWORD_ONLY and (
        first is inspect.Parameter.POSITIONAL_ONLY
        or any(kind not in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD) for kind in others)
    ):
        raise ValueError(
            f"tool {tool!r}: the parameter {name!r} gets the idempotency key and no argument: put it last, or after `*`"
        )
    return name


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


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    target = _underlying(function)
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(type(target).__call__)
