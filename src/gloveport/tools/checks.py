"""What checks the arguments of one tool; made with the tool, compiled when it is first needed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..wire.values import UNDEFINED
from .jsonform import json_form
from .problems import Misfit
from .schema import Schema

if TYPE_CHECKING:
    from .scalars import Budget, Reader
    from .validators import Validators

__all__ = ("ArgumentReaders", "SchemaCheck", "usable")

_logger = logging.getLogger("gloveport")
_NOTHING: Any = None
"""The budget of readers that spend nothing."""
_BUDGET: Final = 4_000_000
"""Values to look at for one call: four times as many as can cross."""


class ArgumentReaders:
    """The readers of a Python function's parameters."""

    __slots__ = ("_hints", "_least", "_plain", "_readers", "_variadic")

    def __init__(self, hints: Sequence[Any], *, least: int, variadic: bool) -> None:
        self._hints = hints
        self._least = least
        self._variadic = variadic
        self._readers: list[Reader] | None = None
        self._plain: list[Reader] | None = None

    def plain(self, given: Sequence[Any]) -> list[Any] | None:
        """The arguments, if nothing about them needs a second look. Most calls are such, and take half the time so."""
        readers = self._plain
        if readers is None or not self._least <= len(given) <= len(readers) or UNDEFINED in given:
            return None
        try:
            return [read(value, _NOTHING) for read, value in zip(readers, given, strict=False)]
        except Misfit:
            return None

    def all(self) -> list[Reader]:
        """One per parameter. The import and the first call pay for them, not the session's start."""
        if self._readers is None:
            from .readers import reader_of
            from .scalars import SCALARS, anything

            self._readers = readers = [reader_of(hint) for hint in self._hints]
            if all(reader is anything or reader in SCALARS.values() for reader in readers) and not self._variadic:
                self._plain = readers
        return self._readers

    @staticmethod
    def budget() -> Budget:
        """For one call."""
        from .scalars import Budget

        return Budget(_BUDGET)


class SchemaCheck:
    """The JSON Schema that a schema tool's object has to fit."""

    __slots__ = ("_compiled", "_schema", "_tool")

    def __init__(self, tool: str, schema: Schema) -> None:
        self._tool = tool
        self._schema = schema
        self._compiled: Validators | None = None

    def compiled(self) -> Validators:
        """Raises `ValueError` that names the tool and the place in its schema."""
        if self._compiled is None:
            from .validators import Validators

            try:
                self._compiled = Validators.of({"type": "object", **self._schema})
            except ValueError as error:
                raise ValueError(
                    f"tool {self._tool!r}: `input_schema` cannot be used: {error}. Correct it, or set `validate=False`"
                ) from None
        return self._compiled

    def read(self, value: Mapping[str, Any]) -> Any:
        """The object as JSON data. Raises `Misfit`."""
        try:
            validators = self._compiled or self.compiled()
        except ValueError as error:  # of a catalog: nobody looked before
            _logger.warning("arguments cannot be checked: %s", error)
            raise Misfit([((), "cannot be checked: the tool's schema is not usable")]) from None
        data = json_form(value)
        try:
            if validators.fits(data):
                return data
            from .explain import explain

            problems = explain(validators, data)
        except (KeyboardInterrupt, SystemExit):
            raise
        except (
            BaseException
        ) as error:  # a panic of Rust code is no `Exception`; whatever it was, nothing was found to fit
            _logger.warning("arguments of %r could not be checked: %s", self._tool, type(error).__name__)
            raise Misfit([((), "cannot be checked: send something simpler")]) from None
        raise Misfit(problems)


def usable(schema: Schema) -> bool:
    """Whether arguments can be checked against a schema, for those that come from a stranger."""
    try:
        SchemaCheck("", schema).compiled()
    except ValueError:
        return False
    return True
