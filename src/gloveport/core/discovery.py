"""What a session's code has found of its tool catalog.

A tool of the catalog can be called once an answer to a search has named it. That is part of the session's state: it outlives dumps,
forks and runs that are rolled back, because what the model has read it goes on knowing. It is information and not permission:
what else decides about a call (budgets, a policy) decides about these calls as about any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

import msgspec

from ..errors import ProtocolViolation, ValueCrossingError
from ..wire.messages import SURROGATES
from ..wire.values import decode

__all__ = ("CatalogTools", "Discovery", "Refusal", "ToolInfo")

_HINTS: Final = 20
"""Refusals of one run that say more, with similar names; the rest are short. To look names up is the host's time."""


class ToolInfo(msgspec.Struct, frozen=True):
    """What the session has to know of a tool."""

    name: str
    """As it was given."""
    js_name: str
    """As the guest calls it."""
    sequential: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """Why a call is not made: an error for the guest."""

    name: str
    """The error's name."""
    text: str


class CatalogTools(Protocol):
    """A catalog, as the core sees it."""

    @property
    def object(self) -> str:
        """The guest's object on which its tools are called."""
        ...

    @property
    def finders(self) -> frozenset[str]:
        """The tools, by JavaScript name, whose answers make tools of the catalog callable."""
        ...

    def info(self, js_name: str) -> ToolInfo | None:
        """The tool of that name, if there is one now."""
        ...

    def js_name(self, name: str) -> str | None:
        """The JavaScript name of the tool that is called so, there or as it was given."""
        ...

    def covers(self, name: str) -> bool:
        """Whether a tool, by the name it was given, is in the catalog or may come to be."""
        ...

    def refusal(self, js_name: str, *, found: bool, hint: bool) -> Refusal:
        """What to say of a call of a tool that was not found yet, was removed since (`found`), or never was there.

        Without `hint` it takes next to no time and space.
        """
        ...


class Discovery:
    """The tools of the catalog that were found, in the order they were."""

    def __init__(self, catalog: CatalogTools | None) -> None:
        self._catalog = catalog
        self._prefix = "" if catalog is None else f"{catalog.object}."
        self._hints = 0
        self.found: dict[str, str] = {}
        """JavaScript name to the name it was given."""

    def begin_run(self) -> None:
        """Hints are counted per run."""
        self._hints = 0

    def owns(self, call_name: str) -> bool:
        """Whether that is a call on the catalog's object."""
        return self._catalog is not None and call_name.startswith(self._prefix)

    def info(self, call_name: str) -> ToolInfo:
        """The tool of an admitted call. One that was removed since keeps its name."""
        assert self._catalog is not None
        js_name = call_name.removeprefix(self._prefix)
        return self._catalog.info(js_name) or ToolInfo(self.found.get(js_name, js_name), js_name)

    def refuse(self, call_name: str) -> Refusal | None:
        """Why a call is refused, or `None`: the tool is there, and was found."""
        assert self._catalog is not None
        js_name = call_name.removeprefix(self._prefix)
        found = js_name in self.found
        if found and self._catalog.info(js_name) is not None:
            return None
        self._hints += 1
        return self._catalog.refusal(js_name, found=found, hint=self._hints <= _HINTS)

    def learn(self, call_name: str, payload: bytes) -> None:
        """Take in an answer. Whoever made it: what it names was found."""
        if self._catalog is None or call_name not in self._catalog.finders:
            return
        for name in _named(payload):
            js_name = self._catalog.js_name(name)
            info = None if js_name is None else self._catalog.info(js_name)
            if js_name is not None and info is not None:
                self.found[js_name] = info.name


def _named(payload: bytes) -> list[str]:
    """The names in an answer: of a tool, or of each in a list; a tool is an object with a `name`, or the name itself."""
    try:
        value = decode(payload, SURROGATES if b"\\u" in payload else 0)
    except (ProtocolViolation, ValueCrossingError):
        return []
    items: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    names = [cast("Mapping[str, Any]", item).get("name") if isinstance(item, Mapping) else item for item in items]
    return [name for name in names if isinstance(name, str)]
