"""Tools that are found by search instead of being declared.

`ToolCatalog` holds the tools and their index; it belongs to no session and may serve any number of them, in any thread.
`SessionCatalog` is one session's view of it: what the search tools answer, and what is said of a call that is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, cast, runtime_checkable

from ..core.saved import CatalogIdentity
from ..types import SchemaTool
from .names import INHERITED
from .schema import Schema
from .search import Document, ToolIndex, check_fts5
from .spec import Tools, ToolSpec, build_specs

__all__ = ("ToolCatalog", "ToolSource")

_logger = logging.getLogger("gloveport")

_MAX_INDEXED: Final = 2000
"""Characters of a description, or of a name, that are searched."""


@runtime_checkable
class ToolSource(Protocol):
    """Tools that may change while sessions go on: a connection to a server, say."""

    @property
    def name(self) -> str:
        """What tells it from others, also in stored sessions."""
        ...

    @property
    def version(self) -> int:
        """Another number whenever `tools` gives others. Asked often."""
        ...

    @property
    def tools(self) -> Sequence[SchemaTool]:
        """The tools as they are now."""
        ...


@dataclasses.dataclass(frozen=True)
class _Snapshot:
    """The tools at one time."""

    versions: tuple[int, ...]
    specs: Mapping[str, ToolSpec]
    """By JavaScript name."""
    js_names: Mapping[str, str]
    """By the name as it was given."""
    budgets: Mapping[str, int]
    index: ToolIndex


class ToolCatalog:
    """Any number of tools, found by search.

    Args:
        tools: as for a session: a mapping or a sequence of callables, `SchemaTool`s and mappings with their keys. A sequence may also
            hold sources whose tools change, such as MCP servers (`gloveport.mcp`); a single one may be given as it is.

    Every tool is called with one object; the properties for a Python function are its parameters. The index is built by the first
    search. Raises `TypeError` and `ValueError` that name the tool as a session does, and for names that every JavaScript object has;
    `EngineUnavailableError` where Python's SQLite has no FTS5.
    """

    def __init__(self, tools: Tools | ToolSource) -> None:
        check_fts5()
        fixed, self._sources = _parted(tools)
        names = [source.name for source in self._sources]
        if len(set(names)) < len(names):
            raise ValueError(f"two sources of `tools_catalog` have one name: {sorted(names)}")
        self._fixed = _checked(build_specs(fixed, namespace="tools", wanted="tools_catalog"))
        self._lock = threading.Lock()
        self._snapshot = self._taken(strict=True)
        fixed_names = sorted(spec.name for spec in self._fixed.values())
        self.identity = CatalogIdentity(
            hashlib.sha256("\0".join(fixed_names).encode("utf-8", "surrogatepass")).hexdigest(),
            len(fixed_names),
            tuple(sorted(names)),
        )
        """What a stored session is bound to."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tools, by the names they were given."""
        return tuple(self._current().js_names)

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """The tools as they are now, by JavaScript name."""
        return self._current().specs

    @property
    def budgets(self) -> Mapping[str, int]:
        """The `max_calls` of those that have one."""
        return self._current().budgets

    @property
    def may_change(self) -> bool:
        """Whether it has sources."""
        return bool(self._sources)

    def js_name(self, name: str) -> str | None:
        """The JavaScript name of the tool that is called so, there or as it was given."""
        snapshot = self._current()
        return name if name in snapshot.specs else snapshot.js_names.get(name)

    def given(self, name: str) -> str | None:
        """The JavaScript name of the tool that was given that name."""
        return self._current().js_names.get(name)

    def search(self, query: str, limit: int = 10) -> list[tuple[ToolSpec, float]]:
        """Tools and scores, best first; the best has 1. A query that is a tool's name has that tool first."""
        snapshot = self._current()
        exact = self.js_name(query.strip())
        found = snapshot.index.search(query, limit)
        if exact is not None:
            found = [(exact, 1.0), *(hit for hit in found if hit[0] != exact)][:limit]
        return [(snapshot.specs[key], score) for key, score in found]

    def _current(self) -> _Snapshot:
        versions = tuple(source.version for source in self._sources)
        if self._snapshot.versions != versions:
            with self._lock:
                if self._snapshot.versions != versions:
                    self._snapshot = self._renewed(versions)
        return self._snapshot

    def _renewed(self, versions: tuple[int, ...]) -> _Snapshot:
        try:
            return self._taken(strict=False)
        except (TypeError, ValueError) as error:  # the run that looks something up is not to blame
            _logger.warning("a source of a tool catalog has unusable tools, the earlier ones stay: %s", error)
            return dataclasses.replace(self._snapshot, versions=versions)

    def _taken(self, *, strict: bool) -> _Snapshot:
        """The tools as they are now. Names that collide are refused at first; later the tool that came later is left out."""
        versions: list[int] = []
        specs = dict(self._fixed)
        names = {spec.name for spec in specs.values()}
        for source in self._sources:
            versions.append(source.version)
            for js_name, spec in _checked(build_specs(source.tools, namespace="tools", wanted=source.name)).items():
                if js_name not in specs and spec.name not in names:
                    specs[js_name] = spec
                    names.add(spec.name)
                    continue
                text = f"the tool {spec.name!r} of {source.name!r}: another tool of the catalog has that name"
                if strict:
                    raise ValueError(f"{text}; give one of them a prefix")
                _logger.warning("%s; it is left out", text)
        documents = (
            Document(
                js_name,
                f"{js_name} {spec.name}" if spec.name != js_name else js_name,
                spec.description[:_MAX_INDEXED],
                _told(spec),
            )
            for js_name, spec in specs.items()
        )
        return _Snapshot(
            tuple(versions),
            specs,
            {spec.name: js_name for js_name, spec in specs.items()},
            {spec.name: spec.max_calls for spec in specs.values() if spec.max_calls is not None},
            ToolIndex(documents),
        )


def _parted(tools: Any) -> tuple[Tools, list[ToolSource]]:
    if isinstance(tools, ToolSource) and not isinstance(tools, Mapping):
        return [], [tools]
    if not isinstance(tools, Sequence) or isinstance(tools, (str, bytes)):
        return tools, []
    fixed: list[Any] = []
    sources: list[ToolSource] = []
    for item in cast("Sequence[Any]", tools):
        # The cheap check first: that of a protocol takes 20 µs (CPython 3.11).
        if not isinstance(item, (SchemaTool, Mapping)) and isinstance(item, ToolSource):
            sources.append(item)
        else:
            fixed.append(item)
    return fixed, sources


def _checked(specs: Mapping[str, ToolSpec]) -> dict[str, ToolSpec]:
    for spec in specs.values():
        if spec.js_name in INHERITED:
            raise ValueError(
                f"tool {spec.name!r} cannot be in a catalog: `{spec.js_name}` means something on every JavaScript object; rename it"
            )
    return {
        js_name: spec if spec.schema_tool else dataclasses.replace(spec, schema_tool=True)
        for js_name, spec in specs.items()
    }


def _told(spec: ToolSpec) -> Iterable[str]:
    """Names of parameters, and what is said of them."""
    properties: Any = spec.input_schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    for name, schema in cast("Mapping[Any, Any]", properties).items():
        yield str(name)[:_MAX_INDEXED]
        if isinstance(schema, Mapping):
            yield str(cast("Schema", schema).get("description") or "")[:_MAX_INDEXED]
