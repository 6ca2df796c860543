"""Python annotations as readers: what crossed is checked against the type, and converted to it.

The counterpart of `schema.py`, which says the same in JSON Schema. Not done with pydantic or msgspec: one is no dependency, the other
refuses unions of classes, and both speak of Python's types and stop at, or cannot be kept from, telling values.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import inspect
import logging
import pathlib
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from ..errors import ValueCrossingError
from ..wire.values import check_hashes
from .constraints import check_of, constraints_of
from .problems import MAX_PROBLEMS, Misfit, Problem, TooMuchToCheck, unknown_names
from .scalars import EXACT, SCALARS, Budget, Reader, anything, choice, of_enum, subclass
from .schema import ARRAYS, MAPPINGS, QUALIFIERS, SETS, is_model, is_required, schema_of_annotation, type_hints

__all__ = ("reader_of",)

_logger = logging.getLogger("gloveport")
_FORGIVING: Final = frozenset({"value_error", "assertion_error"})


def reader_of(annotation: Any) -> Reader:
    """The reader of a type. A type without a counterpart takes anything."""
    return _Builder().convert(annotation)


class _Builder:
    def __init__(self) -> None:
        self._named: dict[Any, list[Reader]] = {}

    def convert(self, annotation: Any) -> Reader:
        try:
            plain = SCALARS.get(annotation)
        except TypeError:  # not hashable: not a type
            return anything
        if plain is not None:
            return plain
        if supertype := getattr(annotation, "__supertype__", None):  # NewType
            return self.convert(supertype)
        if type(annotation).__name__ == "TypeAliasType":
            return self._late(annotation, lambda: self.convert(annotation.__value__))
        if isinstance(annotation, typing.TypeVar):
            return self.convert(annotation.__bound__) if annotation.__bound__ else anything
        if annotation is typing.LiteralString:
            return SCALARS[str]
        if annotation in (typing.Never, typing.NoReturn):
            return _never
        origin = typing.get_origin(annotation)
        if origin is not None:
            return self._generic(origin, typing.get_args(annotation))
        return self._class(annotation) if inspect.isclass(annotation) else anything

    def _late(self, key: Any, make: Callable[[], Reader]) -> Reader:
        """A type that may contain itself."""
        found = self._named.get(key)
        if found is None:
            found = self._named[key] = []
            found.append(make())
            return found[0]
        if found:
            return found[0]
        holder = found
        return lambda value, budget: holder[0](value, budget)  # noqa: PLW0108  there is none yet

    def _generic(self, origin: Any, args: tuple[Any, ...]) -> Reader:
        if origin in (typing.Union, types.UnionType):
            return _union([(arg, self.convert(arg)) for arg in args])
        if origin is typing.Literal:
            return choice(args)
        if origin is typing.Annotated:
            return self._annotated(args[0], args[1:])
        if getattr(origin, "__name__", getattr(origin, "_name", None)) in QUALIFIERS:
            return self.convert(args[0])
        if origin is tuple:
            return self._tuple(args)
        if origin in ARRAYS:
            return _array(self.convert(args[0]), collections.deque if origin is collections.deque else None)
        if origin in SETS:
            return _set(self.convert(args[0]), frozenset if origin is frozenset else set)
        if origin in MAPPINGS:
            return _mapping(_key(args[0], self.convert(args[0])), self.convert(args[1]), origin)
        if type(origin).__name__ == "TypeAliasType":
            return self.convert(origin.__value__[args])
        return self._class(origin, args) if inspect.isclass(origin) else anything

    def _annotated(self, annotation: Any, metadata: tuple[Any, ...]) -> Reader:
        reader = self.convert(annotation)
        keywords = constraints_of(metadata, schema_of_annotation(annotation).get("type"))
        if not keywords:
            return reader
        check = check_of(keywords)

        def read(value: Any, budget: Budget) -> Any:
            found = reader(value, budget)
            problem = check(found)
            if problem is not None:
                raise Misfit([((), problem)])
            return found

        return read

    def _tuple(self, args: tuple[Any, ...]) -> Reader:
        if len(args) == 2 and args[1] is Ellipsis:
            return _array(self.convert(args[0]), tuple)
        return _tuple([self.convert(arg) for arg in args], tuple)

    # ── classes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _class(self, cls: type[Any], args: tuple[Any, ...] = ()) -> Reader:
        if issubclass(cls, enum.Enum):
            return of_enum(cls)
        key = (cls, args)
        if typing.is_typeddict(cls):
            return self._late(key, lambda: self._fields(cls, args, dict, _typed_dict_fields(cls)))
        if is_model(cls):
            return _model(cast("Any", cls)[args] if args else cls)
        if dataclasses.is_dataclass(cls):
            return self._late(key, lambda: self._fields(cls, args, cls, _dataclass_fields(cls)))
        names: Any = getattr(cls, "_fields", None)
        if issubclass(cls, tuple) and names:
            return self._late(key, lambda: self._named_tuple(cls, names))
        return self._builtin(cast("type[Any]", cls))

    def _builtin(self, cls: type[Any]) -> Reader:
        if cls in ARRAYS or cls is tuple:
            return _array(anything, tuple if cls is tuple else collections.deque if cls is collections.deque else None)
        if cls in SETS:
            return _set(anything, frozenset if cls is frozenset else set)
        if cls in MAPPINGS:
            return _mapping(anything, anything, cls)
        if issubclass(cls, pathlib.PurePath):
            return _path(cls)
        for base in (str, bool, int, float, dt.datetime, dt.date):
            if issubclass(cls, base):
                return subclass(cls, base) if base in (str, int, float) else SCALARS[base]
        return anything

    def _named_tuple(self, cls: Any, names: tuple[str, ...]) -> Reader:
        hints = type_hints(cls)
        least = len(names) - len(cls._field_defaults)
        readers = [self.convert(hints.get(name, Any)) for name in names]
        return _tuple(readers, lambda items: cls(*items), least)

    def _fields(
        self, cls: Any, args: tuple[Any, ...], make: Callable[..., Any], fields: Mapping[str, tuple[Any, bool]]
    ) -> Reader:
        given = dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))
        readers = {name: self.convert(_substituted(hint, given)) for name, (hint, _) in fields.items()}
        required = [name for name, (_, needed) in fields.items() if needed]
        return _object(readers, required, make, cls.__name__)


def _substituted(hint: Any, given: Mapping[Any, Any]) -> Any:
    """A field of a generic class, with the arguments of the class."""
    if not given:
        return hint
    if isinstance(hint, typing.TypeVar):
        return given.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(parameter, Any) for parameter in parameters)] if parameters else hint


def _typed_dict_fields(cls: Any) -> dict[str, tuple[Any, bool]]:
    return {name: (hint, is_required(cls, name, hint)) for name, hint in type_hints(cls).items()}


def _dataclass_fields(cls: Any) -> dict[str, tuple[Any, bool]]:
    hints = type_hints(cls)
    return {
        field.name: (hints.get(field.name, Any), field.default is field.default_factory is dataclasses.MISSING)
        for field in dataclasses.fields(cls)
        if field.init
    }


# ── readers of what holds other values ───────────────────────────────────────────────────────────────────────────────


def _never(value: Any, _: Budget) -> Any:
    raise Misfit([((), "must be left out")])


def _spend(budget: Budget, count: int) -> None:
    budget.left -= count + 1
    if budget.left < 0:
        raise TooMuchToCheck


def _items(reader: Reader, values: Iterable[Any], budget: Budget) -> list[Any]:
    if reader is anything:
        return list(values)
    out: list[Any] = []
    problems: list[Problem] = []
    for index, value in enumerate(values):
        try:
            out.append(reader(value, budget))
        except Misfit as misfit:
            problems += misfit.under(index)
            if len(problems) > MAX_PROBLEMS:
                break
    if problems:
        raise Misfit(problems)
    return out


def _array(reader: Reader, make: Callable[[list[Any]], Any] | None) -> Reader:
    def read(value: Any, budget: Budget) -> Any:
        if type(value) is not list:
            raise Misfit.of("an array", value)
        values = cast("list[Any]", value)
        _spend(budget, len(values))
        items = _items(reader, values, budget)
        return items if make is None else make(items)

    return read


def _tuple(readers: list[Reader], make: Callable[[Iterable[Any]], Any], least: int | None = None) -> Reader:
    most = len(readers)
    least = most if least is None else least
    expected = f"an array of {most if least == most else f'{least} to {most}'}"

    def read(value: Any, budget: Budget) -> Any:
        if type(value) is not list:
            raise Misfit.of(expected, value)
        items = cast("list[Any]", value)
        if not least <= len(items) <= most:
            raise Misfit([((), f"must be {expected}, got one of {len(items)}")])
        _spend(budget, len(items))
        out: list[Any] = []
        problems: list[Problem] = []
        for index, (reader, item) in enumerate(zip(readers, items, strict=False)):
            try:
                out.append(reader(item, budget))
            except Misfit as misfit:
                problems += misfit.under(index)
        if problems:
            raise Misfit(problems)
        return _constructed(make, (out,), {}, "value")

    return read


def _set(reader: Reader, make: Callable[[Iterable[Any]], Any]) -> Reader:
    def read(value: Any, budget: Budget) -> Any:
        if not isinstance(value, (set, frozenset, list)):
            raise Misfit.of("a Set", value)
        members = cast("set[Any] | list[Any]", value)
        _spend(budget, len(members))
        if isinstance(members, list):  # what is there twice would look like a collision
            members = list({repr(member): member for member in members}.values())
        return _hashed(make, _items(reader, members, budget))

    return read


def _hashed(make: Callable[[Iterable[Any]], Any], items: list[Any]) -> Any:
    """Into a set or dict, unless that would take for ever: hashes of what is no text are known beforehand."""
    keys = items if make is not dict else [key for key, _ in items]
    try:
        check_hashes((key for key in keys if not isinstance(key, (str, bytes))), object)
        return make(items)
    except Exception as error:  # not hashable, or a class of the application says so in its own way
        crossing = isinstance(error, ValueCrossingError)
        text = str(error) if crossing else "has members that Python cannot hash: send arrays of plain values"
        raise Misfit([((), text)]) from None


def _key(annotation: Any, reader: Reader) -> Reader:
    """Keys of an object are text: a number among them is read as one."""
    if annotation in (int, float):
        kind: Any = annotation

        def read(value: Any, budget: Budget) -> Any:
            if type(value) is str and len(value) < 400:
                try:
                    return kind(value)
                except ValueError:
                    raise Misfit([((), "has a property whose name is no number")]) from None
            return reader(value, budget)

        return read
    return reader


_MADE: Final[dict[Any, Callable[[Any], Any]]] = {
    collections.OrderedDict: collections.OrderedDict,
    collections.defaultdict: lambda items: collections.defaultdict(None, items),
}


def _mapping(key_reader: Reader, item_reader: Reader, kind: Any) -> Reader:
    make = _MADE.get(kind)

    def read(value: Any, budget: Budget) -> Any:
        if type(value) is not dict:
            raise Misfit.of("an object", value)
        data = cast("dict[Any, Any]", value)
        _spend(budget, len(data))
        keys = _keys(key_reader, data, budget)
        items: list[Any] = []
        problems: list[Problem] = []
        for key, item in data.items():
            try:
                items.append(item_reader(item, budget))
            except Misfit as misfit:
                problems += misfit.under(key if isinstance(key, (str, int)) else str(key))
                if len(problems) > MAX_PROBLEMS:
                    break
        if problems:
            raise Misfit(problems)
        pairs = list(zip(keys, items, strict=True))
        found = dict(pairs) if keys is data else _hashed(dict, pairs)
        return found if make is None else make(found)

    return read


def _keys(reader: Reader, data: dict[Any, Any], budget: Budget) -> Any:
    if reader is anything:
        return data
    try:
        if reader is SCALARS[str]:
            for key in data:
                reader(key, budget)
            return data
        return [reader(key, budget) for key in data]
    except Misfit as misfit:
        raise Misfit([((), f"has a key that {text}") for _, text in misfit.problems]) from None


def _object(readers: Mapping[str, Reader], required: list[str], make: Callable[..., Any], name: str) -> Reader:
    known = list(readers)

    def read(value: Any, budget: Budget) -> Any:
        if type(value) is not dict:
            raise Misfit.of("an object", value)
        data = cast("dict[str, Any]", value)
        _spend(budget, len(data))
        problems: list[Problem] = [((key,), "is missing") for key in required if key not in data]
        fields: dict[str, Any] = {}
        for key, reader in readers.items():
            if key in data:
                try:
                    fields[key] = reader(data[key], budget)
                except Misfit as misfit:
                    problems += misfit.under(key)
        if len(fields) < len(data):
            problems += unknown_names(data, known, ())
        if problems:
            raise Misfit(problems)
        return fields if make is dict else _constructed(make, (), fields, name)

    return read


def _path(cls: type[pathlib.PurePath]) -> Reader:
    def read(value: Any, _: Budget) -> Any:
        if type(value) is not str:
            raise Misfit.of("a path", value)
        if "\0" in value:
            raise Misfit([((), "must be a path, which has no zero character")])
        return cls(value)

    return read


def _model(cls: Any) -> Reader:
    def read(value: Any, _: Budget) -> Any:
        return _constructed(cls.model_validate, (value,), {}, cls.__name__)

    return read


def _constructed(make: Callable[..., Any], args: tuple[Any, ...], fields: dict[str, Any], name: str) -> Any:
    """What the application's class makes of the fields. The texts of its own errors are not for the guest."""
    try:
        return make(*args, **fields)
    except Exception as error:
        problems = _pydantic_problems(error)
        if problems is None:
            _logger.debug("a tool's argument was refused by %s", name, exc_info=error)
            raise Misfit([((), f"is not a valid {name}")]) from None
        raise Misfit(problems) from None


def _pydantic_problems(error: Exception) -> list[Problem] | None:
    core = sys.modules.get("pydantic_core")
    if core is None or not isinstance(error, core.ValidationError):
        return None
    problems: list[Problem] = []
    for item in cast("Any", error).errors(include_url=False, include_context=False, include_input=False):
        ours = item["type"] in _pydantic_types() and item["type"] not in _FORGIVING
        text = str(item["msg"]) if ours else "it is not valid"
        problems.append((tuple(item["loc"]), f"is refused: {text}"))
        if len(problems) > MAX_PROBLEMS:
            break
    return problems


def _pydantic_types() -> frozenset[str]:
    from pydantic_core.core_schema import ErrorType

    return frozenset(typing.get_args(ErrorType))


# ── alternatives ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _union(members: list[tuple[Any, Reader]]) -> Reader:
    """The member that the value is of already; else the first that takes it."""
    found: dict[Any, None] = {EXACT[member]: None for member, _ in members if _is_exact(member)}
    nullable = any(member is type(None) or member is None for member, _ in members)
    readers = [reader for member, reader in members if member is not type(None) and member is not None]
    exact_kinds = frozenset(found)

    def read(value: Any, budget: Budget) -> Any:
        if type(value) in exact_kinds or (value is None and nullable):
            return value
        if len(readers) == 1:
            return readers[0](value, budget)
        misfits: list[Misfit] = []
        for reader in readers:
            try:
                return reader(value, budget)
            except Misfit as misfit:
                misfits.append(misfit)
                _spend(budget, 1)
        raise _closest(misfits)

    return read


def _is_exact(member: Any) -> bool:
    return isinstance(member, type) and member in EXACT


def _closest(misfits: list[Misfit]) -> Misfit:
    """The only one that came further than the value's kind, or what all of them asked for."""
    deeper = [misfit for misfit in misfits if any(path for path, _ in misfit.problems)]
    if len(deeper) == 1:
        return deeper[0]
    texts = [text for misfit in misfits for path, text in misfit.problems if not path]
    if deeper or not texts:
        return Misfit([((), f"fits none of the {len(misfits)} alternatives")])
    wanted = dict.fromkeys(text.partition(", got ")[0].removeprefix("must be ") for text in texts)
    got = next((text.partition(", got ")[2] for text in texts if ", got " in text), "")
    return Misfit([((), f"must be {' or '.join(wanted)}{f', got {got}' if got else ''}")])
