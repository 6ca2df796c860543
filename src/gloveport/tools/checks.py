"""What checks the arguments of one tool; made with the tool, compiled when it is first needed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from .problems import Misfit
from .schema import Schema

if TYPE_CHECKING:
    from .scalars import Budget, Reader
    from .validators import Validators

__all__ = ("ArgumentReaders", "SchemaCheck", "usable")

_logger = logging.getLogger("gloveport")
_BUDGET: Final = 4_000_000
"""Values to look at for one call: four times as many as can cross."""


class ArgumentReaders:
    """The readers of a Python function's parameters."""

    __slots__ = ("_hints", "_readers")

    def __init__(self, hints: Sequence[Any]) -> None:
        self._hints = hints
        self._readers: list[Reader] | None = None

    def all(self) -> list[Reader]:
        """One per parameter. The import and the first call pay for them, not the session's start."""
        if self._readers is None:
            from .readers import reader_of

            self._readers = [reader_of(hint) for hint in self._hints]
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
        from .explain import explain, json_form

        try:
            validators = self.compiled()
        except ValueError as error:  # of a catalog: nobody looked before
            _logger.warning("arguments cannot be checked: %s", error)
            raise Misfit([((), "cannot be checked: the tool's schema is not usable")]) from None
        data = json_form(value)
        if not validators.fits(data):
            raise Misfit(explain(validators, data))
        return data


def usable(schema: Schema) -> bool:
    """Whether arguments can be checked against a schema, for those that come from a stranger."""
    try:
        SchemaCheck("", schema).compiled()
    except ValueError:
        return False
    return True
