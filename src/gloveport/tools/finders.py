"""One session's view of its catalog: `search_tools`, `describe_tool`, and what is said of calls that are refused."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from ..core.discovery import Refusal, ToolInfo
from ..errors import ToolArgumentError, ToolError, ToolNotDiscoveredError, ToolNotFoundError
from .catalog import ToolCatalog
from .prompt import example_call
from .search import query_terms
from .spec import ToolSpec, build_specs
from .typescript import stubs_of

__all__ = ("DEFAULT_OBJECT", "SessionCatalog", "session_catalog")

DEFAULT_OBJECT: Final = "tools"
MAX_RESULTS: Final = 50
MAX_DESCRIBED: Final = 50
MAX_DESCRIPTION: Final = 200
_DEFAULT_RESULTS: Final = 10
_SUGGESTIONS: Final = 3
_MAX_SHOWN: Final = 100

_SEARCH: Final = """\
Find tools by what they do, best first. Only a tool that was found (or described) can be called: `{object}.<name>(args)`.
At most `limit` results (default 10, at most 50)."""
_DESCRIBE: Final = (
    "How to call a found tool: its TypeScript declaration, schemas and an example call. A list of names gives a list."
)
_SIGNATURES: Final = {
    "search_tools": (
        "search_tools(query: string, limit?: number): Promise<{ name: string; description: string; score: number }[]>",
    ),
    "describe_tool": (
        "describe_tool(name: string): Promise<{ name: string; description: string; input_schema: any; output_schema: any; "
        "typescript: string; usage: string }>",
        "describe_tool(names: string[]): Promise<{ name: string; description: string; input_schema: any; output_schema: any; "
        "typescript: string; usage: string }[]>",
    ),
}
E = TypeVar("E", bound=ToolError)


class SessionCatalog:
    """A catalog beside the declared tools of a session.

    Raises `ValueError` for tools that both have, or that have the name of the catalog's object. What a source adds later under the
    name of a declared tool does not exist for this session.
    """

    def __init__(self, catalog: ToolCatalog, declared: Mapping[str, ToolSpec], namespace: str | None) -> None:
        self.catalog = catalog
        self.object = namespace or DEFAULT_OBJECT
        self.specs = _finder_specs(self)
        """The tools that are declared for it."""
        self.finders = frozenset(self.specs)
        self._where = f"{namespace}." if namespace else ""
        taken = {**self.specs, **declared}
        self._taken = frozenset({*taken, *(spec.name for spec in taken.values())})
        self._declared = frozenset(taken)
        both = sorted(self.finders.intersection(name for js, spec in declared.items() for name in (js, spec.name)))
        if both:
            raise ValueError(f"the tool {both[0]!r} is one of the catalog's own: rename yours")
        if namespace is None and DEFAULT_OBJECT in declared:
            raise ValueError(
                f"the tool {DEFAULT_OBJECT!r} has the name of the catalog's object: rename it, or set `namespace`"
            )
        for name in sorted(self._taken):  # few, where the catalog may be large
            js_name = catalog.js_name(name)
            if js_name is not None:
                raise ValueError(
                    f"the tool {catalog.specs[js_name].name!r} of `tools_catalog` has the name of a declared tool: "
                    "leave one out, or rename it"
                )

    def _hidden(self, js_name: str, spec: ToolSpec) -> bool:
        return js_name in self._taken or spec.name in self._taken

    # ── what the session asks ────────────────────────────────────────────────────────────────────────────────────────

    def spec(self, js_name: str) -> ToolSpec | None:
        """The tool of the catalog that has that JavaScript name now."""
        spec = self.catalog.specs.get(js_name)
        return None if spec is None or self._hidden(js_name, spec) else spec

    def called(self, call_name: str) -> ToolSpec | None:
        """The tool of a call, `object.name`."""
        return self.spec(call_name.removeprefix(f"{self.object}."))

    def named(self, name: str) -> ToolSpec | None:
        """The tool by the name it was given."""
        js_name = self.catalog.given(name)
        return None if js_name is None else self.spec(js_name)

    @property
    def names(self) -> tuple[str, ...]:
        """The tools by the names they were given."""
        return tuple(spec.name for js_name, spec in self.catalog.specs.items() if not self._hidden(js_name, spec))

    def info(self, js_name: str) -> ToolInfo | None:
        """See `CatalogTools`."""
        spec = self.spec(js_name)
        return None if spec is None else ToolInfo(spec.name, js_name, spec.sequential)

    def js_name(self, name: str) -> str | None:
        """See `CatalogTools`."""
        return self.catalog.js_name(name)

    def covers(self, name: str) -> bool:
        """See `CatalogTools`."""
        return self.catalog.may_change or self.named(name) is not None

    def refusal(self, js_name: str, *, found: bool, hint: bool) -> Refusal:
        """See `CatalogTools`."""
        where = f"{self._where}search_tools"
        known = self.spec(js_name) is not None
        if not hint:  # one of very many: short
            text = f'find tools with `await {where}("...")` first'
            return Refusal((ToolNotDiscoveredError if known else ToolNotFoundError).__name__, text)
        name = _shown(js_name)
        if known:
            text = (
                f'`{self.object}.{name}` was not found yet: call `await {where}("...")` with words for what you need, or '
                f'`await {self._where}describe_tool("{name}")`, and then call it'
            )
            return Refusal(ToolNotDiscoveredError.__name__, text)
        if js_name in self._declared:
            text = f"`{name}` is no tool of the catalog but a function: call `{self._where}{name}(...)`"
        elif found:
            text = f'`{name}` was removed from the catalog: look for another tool with `await {where}("...")`'
        else:
            text = self._unknown(js_name)
        return Refusal(ToolNotFoundError.__name__, text)

    def _unknown(self, name: str) -> str:
        alike = self._alike(name) if len(name) <= _MAX_SHOWN else []
        guess = f"; did you mean {' or '.join(f'`{other}`' for other in alike)}?" if alike else "."
        return f'no tool is called `{_shown(name)}`{guess} Find tools with `await {self._where}search_tools("...")`'

    def _alike(self, name: str) -> list[str]:
        given = self.catalog.given(name)  # called by its own name, which JavaScript does not allow
        if given is not None:
            return [given]
        return [spec.js_name for spec, _ in self.catalog.search(name, _SUGGESTIONS) if self.spec(spec.js_name)]

    # ── what the guest calls ─────────────────────────────────────────────────────────────────────────────────────────

    def search_tools(self, query: Any, limit: Any = None) -> list[dict[str, Any]]:
        """Answer a search. Raises `ToolArgumentError` for the model."""
        if isinstance(query, Mapping):
            named = cast("Mapping[str, Any]", query)
            query, limit = named.get("query"), named.get("limit", limit)
        if not isinstance(query, str):
            raise _for_model(ToolArgumentError(f'write `await {self._where}search_tools("words for what you need")`'))
        if not query_terms(query) and self.catalog.js_name(query.strip()) is None:
            raise _for_model(
                ToolArgumentError(
                    "the query has no words to search for: say what the tool should do, "
                    f'such as `await {self._where}search_tools("translate text")`'
                )
            )
        hits = self.catalog.search(query, _limit(limit) + len(self._taken))
        visible = [(spec, score) for spec, score in hits if self.spec(spec.js_name) is not None][: _limit(limit)]
        return [
            {"name": spec.js_name, "description": _cut(spec.description), "score": score} for spec, score in visible
        ]

    def describe_tool(self, name: Any) -> dict[str, Any] | list[dict[str, Any]]:
        """Answer how to call a tool, or several. Raises `ToolArgumentError` and `ToolNotFoundError` for the model."""
        if isinstance(name, Mapping):
            named = cast("Mapping[str, Any]", name)
            name = named.get("name", named.get("names"))
        if isinstance(name, str):
            return self._described(name)
        names = cast("list[Any]", name) if isinstance(name, list) else []
        if not names or len(names) > MAX_DESCRIBED or not all(isinstance(item, str) for item in names):
            raise _for_model(
                ToolArgumentError(
                    f"write `await {self._where}describe_tool(name)`, with the name of a tool or a list of 1 to {MAX_DESCRIBED}"
                )
            )
        return [self._described(item) for item in names]

    def _described(self, name: str) -> dict[str, Any]:
        js_name = self.catalog.js_name(name)
        spec = None if js_name is None else self.spec(js_name)
        if spec is None:
            raise _for_model(ToolNotFoundError(self._unknown(name)))
        return {
            "name": spec.js_name,
            "description": spec.description,
            "input_schema": spec.input_schema,
            "output_schema": spec.output_schema,
            "typescript": stubs_of([spec], namespace=self.object),
            "usage": example_call(spec, self.object),
        }


def session_catalog(tools: Any, declared: Mapping[str, ToolSpec], namespace: str | None) -> SessionCatalog:
    """From what was given as `tools_catalog`."""
    return SessionCatalog(tools if isinstance(tools, ToolCatalog) else ToolCatalog(tools), declared, namespace)


def _finder_specs(catalog: SessionCatalog) -> dict[str, ToolSpec]:
    """`search_tools` and `describe_tool` as tools of a session."""
    functions = {"search_tools": catalog.search_tools, "describe_tool": catalog.describe_tool}
    texts = {"search_tools": _SEARCH.format(object=catalog.object), "describe_tool": _DESCRIBE}
    return {
        name: dataclasses.replace(
            spec,
            callable=functions[name],
            description=texts[name],
            signatures=_SIGNATURES[name],
            annotations={"readOnlyHint": True},
        )
        for name, spec in _finder_templates().items()
    }


@functools.cache
def _finder_templates() -> dict[str, ToolSpec]:
    def search_tools(query: Any, limit: Any = None) -> None: ...
    def describe_tool(name: Any) -> None: ...

    return build_specs([search_tools, describe_tool])


def _for_model(error: E) -> E:
    error.shown = True
    return error


def _shown(name: str) -> str:
    return name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}…"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_DESCRIPTION else f"{line[: MAX_DESCRIPTION - 1]}…"


def _limit(value: Any) -> int:
    if value is None:
        return _DEFAULT_RESULTS
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise _for_model(ToolArgumentError("the limit of search_tools must be a number from 1 to 50"))
    return int(min(max(value, 1), MAX_RESULTS))
