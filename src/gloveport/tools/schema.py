"""Python types as JSON Schema.

What JSON has no type for but the guest has (`Uint8Array`, `Date`, `Set`) carries the extension `x-gloveport`, which the
TypeScript renderer reads. Values cross as `wire/PROTOCOL.md` says, and the schemas say the same.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import pathlib
import sys
import types
import typing
import uuid
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, cast

from .constraints import constraints_of

__all__ = (
    "ARRAYS",
    "EXTENSION",
    "MAPPINGS",
    "QUALIFIERS",
    "SETS",
    "Mode",
    "Schema",
    "SchemaBuilder",
    "is_model",
    "is_required",
    "result_schema",
    "schema_of_annotation",
    "type_hints",
)

Schema = Mapping[str, Any]
EXTENSION = "x-gloveport"
"""Key of the extension; its values are `bytes`, `date`, `set` and `never`."""
Mode = Literal["input", "output"]
"""A field with a default may be absent in what a tool takes, and is there in what it returns."""

_BYTES = {"type": "string", "contentEncoding": "base64", EXTENSION: "bytes"}
_SET = {"type": "array", "uniqueItems": True, EXTENSION: "set"}
_NEVER = {EXTENSION: "never"}
_PLAIN: dict[Any, dict[str, Any]] = {
    None: {"type": "null"},
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: _BYTES,
    bytearray: _BYTES,
    memoryview: _BYTES,
    dt.datetime: {"type": "string", "format": "date-time", EXTENSION: "date"},
    dt.date: {"type": "string", "format": "date"},
    dt.time: {"type": "string", "format": "time"},
    dt.timedelta: {"type": "number", "description": "seconds"},
    decimal.Decimal: {"type": "string", "format": "decimal"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    typing.NoReturn: _NEVER,
    typing.Never: _NEVER,
    typing.LiteralString: {"type": "string"},
    enum.Enum: {},
}
ARRAYS = (list, collections.deque, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
SETS = (set, frozenset, abc.Set, abc.MutableSet)
MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict, abc.Mapping, abc.MutableMapping)
_AWAITABLES = (abc.Awaitable, abc.Coroutine)
QUALIFIERS = {"Required", "NotRequired", "ReadOnly", "Final", "ClassVar"}


def schema_of_annotation(annotation: Any, mode: Mode = "input") -> Schema:
    """The JSON Schema of a type, with what it refers to in `$defs`. A type without a counterpart gives `{}`: anything."""
    builder = SchemaBuilder(mode)
    return builder.document(annotation)


def result_schema(annotation: Any) -> Schema:
    """The same for what a function returns; a coroutine's or other awaitable's result stands for it."""
    if typing.get_origin(annotation) in _AWAITABLES:
        annotation = (typing.get_args(annotation) or (Any,))[-1]
    return schema_of_annotation(annotation, "output")


def type_hints(target: Any) -> dict[str, Any]:
    """Resolved annotations of a function or class. One that cannot be resolved is left out: nothing is known of it."""
    if not inspect.isroutine(target) and not inspect.isclass(target):
        target = getattr(target, "func", None) or type(target).__call__
        if not inspect.isroutine(target):  # a partial of a partial, or of a callable object
            return type_hints(target) if target is not None else {}
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:  # annotations are arbitrary expressions, and raise arbitrary errors
        return _resolved_one_by_one(target)


def _resolved_one_by_one(target: Any) -> dict[str, Any]:
    function = inspect.unwrap(target) if not inspect.isclass(target) else target
    names = getattr(function, "__globals__", None) or vars(
        sys.modules.get(function.__module__, types.SimpleNamespace())
    )
    hints: dict[str, Any] = {}
    for name, annotation in _raw_annotations(function).items():
        try:
            # The host's own annotation, evaluated as `typing.get_type_hints` does.
            hints[name] = eval(annotation, dict(names)) if isinstance(annotation, str) else annotation  # noqa: S307
        except Exception:  # noqa: S112  then nothing is known of that one
            continue
    return hints


def _raw_annotations(function: Any) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(function)


class SchemaBuilder:
    """Converts types, and collects the named ones that they refer to."""

    def __init__(self, mode: Mode) -> None:
        self.mode: Mode = mode
        self.definitions: dict[str, Schema] = {}
        self._names: dict[Any, str] = {}

    def document(self, annotation: Any) -> Schema:
        """A schema with what it refers to in `$defs`, which is shared by all that this builder makes."""
        schema = self.convert(annotation)
        return {**schema, "$defs": self.definitions} if self.definitions else schema

    def convert(self, annotation: Any) -> dict[str, Any]:
        try:
            plain = _PLAIN.get(annotation)
        except TypeError:  # not hashable: not a type
            return {}
        if plain is not None:
            return dict(plain)
        if supertype := getattr(annotation, "__supertype__", None):  # NewType
            return self.convert(supertype)
        if type(annotation).__name__ == "TypeAliasType":  # `type X = ...`, which may refer to itself
            return self._named(annotation, lambda: self.convert(annotation.__value__))
        if isinstance(annotation, typing.TypeVar):
            return self.convert(annotation.__bound__) if annotation.__bound__ else {}
        origin = typing.get_origin(annotation)
        if origin is not None:
            return self._generic(origin, typing.get_args(annotation))
        return self._class(annotation) if inspect.isclass(annotation) else {}

    # ── generic types ────────────────────────────────────────────────────────────────────────────────────────────────

    def _generic(self, origin: Any, args: tuple[Any, ...]) -> dict[str, Any]:
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.convert(arg) for arg in args]}
        if origin is typing.Literal:
            return {"enum": [arg.value if isinstance(arg, enum.Enum) else arg for arg in args]}
        if origin is typing.Annotated:
            return self._annotated(args[0], args[1:])
        if getattr(origin, "__name__", getattr(origin, "_name", None)) in QUALIFIERS:
            return self.convert(args[0])
        if origin is tuple:
            return self._tuple(args)
        if origin in ARRAYS:
            return {"type": "array", "items": self.convert(args[0])}
        if origin in SETS:
            return {**_SET, "items": self.convert(args[0])}
        if origin in MAPPINGS:
            # Other keys than text arrive as text, or the value arrives as a Map.
            return {"type": "object", "additionalProperties": self.convert(args[1])} if args[0] is str else {}
        if type(origin).__name__ == "TypeAliasType":
            return self.convert(origin.__value__[args])
        return self.convert(origin)

    def _annotated(self, annotation: Any, metadata: tuple[Any, ...]) -> dict[str, Any]:
        schema = self.convert(annotation)
        schema = {**schema, **constraints_of(metadata, schema.get("type"))}
        for item in metadata:  # `Doc` of PEP 727, pydantic's `Field`
            text = getattr(item, "documentation", None) or getattr(item, "description", None)
            if isinstance(text, str):
                return {**schema, "description": text}
        return schema

    def _tuple(self, args: tuple[Any, ...]) -> dict[str, Any]:
        if len(args) == 2 and args[1] is Ellipsis:
            return {"type": "array", "items": self.convert(args[0])}
        return self._fixed([self.convert(arg) for arg in args], len(args))

    def _fixed(self, items: list[dict[str, Any]], least: int) -> dict[str, Any]:
        return {"type": "array", "prefixItems": items, "minItems": least, "items": False}

    # ── classes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _class(self, cls: type[Any]) -> dict[str, Any]:
        if issubclass(cls, enum.Enum):
            return {"enum": [member.value for member in cls]} if not issubclass(cls, enum.Flag) else {"type": "integer"}
        if typing.is_typeddict(cls):
            return self._named(cls, lambda: self._typed_dict(cls))
        if dataclasses.is_dataclass(cls):
            return self._named(cls, lambda: self._dataclass(cls))
        if is_model(cls):
            return self._named(cls, lambda: self._model(cls))
        fields = getattr(cls, "_fields", None)
        if issubclass(cls, tuple) and fields:
            hints = type_hints(cls)
            defaults: Any = getattr(cast("Any", cls), "_field_defaults", {}) if self.mode == "input" else {}
            least = len(fields) - len(defaults)
            return self._fixed([self.convert(hints.get(name, Any)) for name in fields], least)
        return self._builtin(cast("type[Any]", cls))

    def _builtin(self, cls: type[Any]) -> dict[str, Any]:
        """A class of the standard library, or one that derives from a builtin."""
        if cls in ARRAYS or cls is tuple:
            return {"type": "array"}
        if cls in SETS:
            return dict(_SET)
        if cls in MAPPINGS:
            return {"type": "object"}
        if issubclass(cls, pathlib.PurePath):
            return {"type": "string"}
        for base in (str, bool, int, float, dt.datetime, dt.date):
            if issubclass(cls, base):
                return dict(_PLAIN[base])
        return {}

    def _named(self, key: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        name = self._names.get(key)
        if name is None:
            wanted = name = str(key.__name__)
            number = 2
            while name in self.definitions:
                name, number = f"{wanted}{number}", number + 1
            self._names[key] = name
            self.definitions[name] = {}  # it may refer to itself
            self.definitions[name] = make()
        return {"$ref": f"#/$defs/{name.replace('~', '~0').replace('/', '~1')}"}

    def _object(self, properties: dict[str, dict[str, Any]], required: Iterable[str]) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": list(required)}

    def _typed_dict(self, cls: Any) -> dict[str, Any]:
        hints = type_hints(cls)
        required = [name for name, hint in hints.items() if is_required(cls, name, hint)]
        return self._object({name: self.convert(hint) for name, hint in hints.items()}, required)

    def _dataclass(self, cls: Any) -> dict[str, Any]:
        hints = type_hints(cls)
        fields = [field for field in dataclasses.fields(cls) if field.init or self.mode == "output"]
        required = [
            field.name
            for field in fields
            if self.mode == "output" or (field.default is field.default_factory is dataclasses.MISSING)
        ]
        return self._object({field.name: self.convert(hints.get(field.name, Any)) for field in fields}, required)

    def _model(self, cls: Any) -> dict[str, Any]:
        """A pydantic model, as `model_dump()` gives it and as its constructor takes it."""
        properties: dict[str, dict[str, Any]] = {}
        required: list[str] = []
        for field, info in cls.model_fields.items():
            name = field if self.mode == "output" else (getattr(info, "alias", None) or field)
            schema = self.convert(info.annotation)
            properties[name] = {**schema, "description": info.description} if info.description else schema
            if self.mode == "output" or info.is_required():
                required.append(name)
        if set(cls.model_fields) == {"root"} and getattr(cls, "__pydantic_root_model__", False):
            return next(iter(properties.values()))
        if self.mode == "output":
            for name, computed in getattr(cls, "model_computed_fields", {}).items():
                properties[name] = self.convert(computed.return_type)
                required.append(name)
        return self._object(properties, required)


def is_required(cls: Any, name: str, hint: Any) -> bool:
    """Whether a `TypedDict` must have that key."""
    # `__required_keys__` is wrong where annotations are strings (seen with CPython 3.11 to 3.13).
    mark = getattr(typing.get_origin(hint), "_name", "")
    return mark == "Required" or (mark != "NotRequired" and name in cls.__required_keys__)


def is_model(cls: type[Any]) -> bool:
    pydantic = sys.modules.get("pydantic")  # if it was never imported, this class is none of its models
    return pydantic is not None and issubclass(cls, pydantic.BaseModel)
