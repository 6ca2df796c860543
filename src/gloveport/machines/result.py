"""What a command did."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

__all__ = ("CommandResult",)

_ALWAYS: Final = frozenset({"stdout", "stderr", "exit_code", "truncated"})


class _LazySerializer:
    """Pydantic looks this attribute up when it meets a value of a type that it has not seen (a tool's return value, say).

    Only then is a serializer made: the class stays a plain dataclass, and pydantic need not be installed.
    """

    def __init__(self) -> None:
        self._made: Any = None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if self._made is None:
            from pydantic_core import SchemaSerializer, core_schema

            self._made = SchemaSerializer(
                core_schema.any_schema(serialization=core_schema.plain_serializer_function_ser_schema(_shown))
            )
        return self._made


@dataclasses.dataclass(frozen=True)
class CommandResult:
    """What a command did. It is given whatever the command did: see `exit_code`, `timed_out` and `limit`.

    As a tool's return value a model sees `stdout`, `stderr`, `exit_code` and `truncated`, and of the other fields those that are
    not as usual.
    """

    stdout: str = ""
    """At most `max_output_bytes`: the beginning and the end, with a line that counts what is left out. Bytes that are not UTF-8
    are replaced by U+FFFD."""
    stderr: str = ""
    """As `stdout`."""
    exit_code: int = 0
    """Of the program; 128 + the number of the signal that ended it; 124 after a timeout; 126 and 127 when it cannot be run, or
    there is no such program (as of a shell: POSIX.1-2017, XCU 2.8.2)."""
    truncated: bool = False
    """Whether something of the output is left out."""
    timed_out: bool = False
    """Whether it was stopped because it took longer than `timeout_seconds`."""
    limit: str | None = None
    """The limit of the machine that ended it: `memory`, `pids`, `disk`, `output`."""
    signal: int | None = None
    """The number of the signal that ended it."""
    stdout_skipped: int = 0
    """Bytes left out of `stdout`."""
    stderr_skipped: int = 0
    """Bytes left out of `stderr`."""
    note: str | None = None
    """One sentence on what to do, after a timeout or a limit."""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with 0."""
        return self.exit_code == 0 and not self.timed_out and self.limit is None

    __pydantic_serializer__ = _LazySerializer()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """The schema of a dataclass, written out as above."""
        from pydantic_core import core_schema

        schema = handler(source)
        schema["serialization"] = core_schema.plain_serializer_function_ser_schema(_shown)
        return schema


def _shown(result: CommandResult) -> dict[str, Any]:
    return {
        field.name: value
        for field in dataclasses.fields(result)
        if (value := getattr(result, field.name)) != field.default or field.name in _ALWAYS
    }
