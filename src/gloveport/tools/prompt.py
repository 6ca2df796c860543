"""What the model is told: how to write code for a session, and which tools it has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ..policy import Limits
from .declarations import Declarations
from .schema import EXTENSION, Schema
from .spec import Tools, ToolSpec, build_specs
from .typescript import Signature

__all__ = ("describe_tools", "example_call")

_RULES = """\
You can run TypeScript or JavaScript in a sandbox. Write the code as the body of an async function: call tools with `await`, \
and `return` the final result (JSON data).
- Top-level `const`, `let`, `var`, `function` and `class` declarations stay available in later runs.
- There is no network, filesystem, `require` or `import`: the tools are the only way out.
- {clock} `Math.random()` is seeded.
- Console output is returned with the result.{limits}
- A tool that fails throws an Error whose `name` is the failure's type.
- Tool calls made together with `Promise.all` run at the same time."""

_CLOCKS = {
    False: "`setTimeout` does not really wait: time is virtual, and `Date.now()` does not advance while code runs.",
    True: "`Date.now()` is frozen, and `setTimeout` does not really wait.",
}


_CATALOG = """\
There are more tools than these. Find them with `await {where}search_tools("...")`; a tool that was found is called as \
`await {object}.<name>({{...}})`, with one object argument. `await {where}describe_tool(name)` says what to put into it."""


def describe_tools(
    tools: Tools,
    *,
    namespace: str | None = None,
    limits: Limits | None = None,
    frozen_clock: bool = False,
    tools_catalog: Any = None,
) -> str:
    """A block for the system prompt: the rules of a session, then each tool's signature, documentation and an example call.

    Args:
        tools: as for a session.
        namespace: as for a session.
        limits: of the session, to be told to the model; `None`: none are told.
        frozen_clock: `Date.now()` never advances, not even with timers and tools.
        tools_catalog: as for a session. The text says how to search it, and is of the same length whatever it holds.

    Raises `TypeError` and `ValueError` as a session does.
    """
    specs = build_specs(tools, namespace=namespace)
    found: str | None = None
    if tools_catalog is not None:
        from .finders import session_catalog  # it describes tools with what is here

        catalog = session_catalog(tools_catalog, specs, namespace)
        specs, found = {**specs, **catalog.specs}, catalog.object
    return describe_specs(specs.values(), namespace=namespace, limits=limits, frozen_clock=frozen_clock, catalog=found)


def describe_specs(
    specs: Iterable[ToolSpec],
    *,
    namespace: str | None = None,
    limits: Limits | None = None,
    frozen_clock: bool = False,
    catalog: str | None = None,
) -> str:
    """The same for tools that were checked before. `catalog` is the name of the catalog's object."""
    rules = _RULES.format(clock=_CLOCKS[frozen_clock], limits=f" {_limits(limits)}" if limits else "")
    declarations = Declarations()
    entries = [_entry(spec, declarations, namespace, limits) for spec in specs]
    if not entries:
        return f"{rules}\n\nThere are no tools."
    types = "\n\n".join(declarations.texts())
    shared = f"Types:\n\n```ts\n{types}\n```\n\n" if types else ""
    if catalog is not None:
        entries.append(_CATALOG.format(object=catalog, where=f"{namespace}." if namespace else ""))
    return f"{rules}\n\n{shared}Tools:\n\n" + "\n\n".join(entries)


def _entry(spec: ToolSpec, declarations: Declarations, namespace: str | None, limits: Limits | None) -> str:
    where = f"{namespace}." if namespace else ""
    signatures = spec.signatures or (str(Signature(spec, declarations)),)
    lines = ["```ts", *(f"{where}{signature}" for signature in signatures), "```"]
    if spec.description.strip():
        lines.append(spec.description.strip())
    budget = spec.max_calls if spec.max_calls is not None else limits and limits.tool_budgets.get(spec.name)
    if budget is not None:
        lines.append(f"At most {budget} calls in the session.")
    lines.append(f"Example: `{example_call(spec, namespace)}`")
    return "\n".join(lines)


def _limits(limits: Limits) -> str:
    output, result = _bytes(limits.max_output_bytes), _bytes(limits.max_result_bytes)
    parts = [
        f"At most {output} each of stdout and stderr are kept.",
        f"The result must not exceed {result}, and a run may compute for {limits.timeout:g} s.",
    ]
    if limits.max_tool_calls is not None:
        parts.append(f"At most {limits.max_tool_calls} tool calls in the session.")
    if limits.max_host_calls is not None:
        parts.append(f"At most {limits.max_host_calls} tool calls in one run.")
    return " ".join(parts)


def _bytes(size: int) -> str:
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} bytes"


# ── examples ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def example_call(spec: ToolSpec, namespace: str | None = None) -> str:
    """A call of the tool with placeholders for what it requires."""
    where = f"{namespace}." if namespace else ""
    if spec.schema_tool:
        example = _example(spec.input_schema, spec.input_schema, 0)
        arguments = "" if example == "{}" and not spec.input_schema.get("required") else example
    else:
        required = [parameter for parameter in spec.parameters if parameter.required]
        arguments = ", ".join(_example(parameter.schema, parameter.schema, 0) for parameter in required)
    return f"await {where}{spec.js_name}({arguments})"


_PLACEHOLDERS = {"string": '"..."', "number": "1", "integer": "1", "boolean": "true", "null": "null", "array": "[]"}
_EXTENSIONS = {"bytes": "new Uint8Array([1])", "date": "new Date()", "set": "new Set()"}
_EXAMPLE_DEPTH = 4


def _example(schema: Any, root: Schema, depth: int) -> str:
    if not isinstance(schema, Mapping):
        return "null"
    node = cast("Schema", schema)
    for key in ("examples", "enum"):
        values = node.get(key)
        if isinstance(values, (list, tuple)) and values:
            return _json(cast("Sequence[Any]", values)[0])
    for key in ("const", "default"):
        if key in node:
            return _json(node[key])
    if node.get(EXTENSION) in _EXTENSIONS:
        return _EXTENSIONS[node[EXTENSION]]
    if isinstance(node.get("$ref"), str):
        name = str(node["$ref"]).rpartition("/")[2]
        shared: Any = root.get("$defs", root.get("definitions"))
        target = cast("Schema", shared).get(name) if isinstance(shared, Mapping) else None
        return _example(target, root, depth + 1) if depth < _EXAMPLE_DEPTH else "{}"
    for key in ("anyOf", "oneOf", "allOf"):
        branches = node.get(key)
        if isinstance(branches, (list, tuple)) and branches and depth < _EXAMPLE_DEPTH:
            return _example(cast("Sequence[Any]", branches)[0], root, depth + 1)
    return _example_of_type(node, root, depth)


def _example_of_type(node: Schema, root: Schema, depth: int) -> str:
    kind: Any = node.get("type")
    if isinstance(kind, (list, tuple)):
        kind = next(iter(cast("Sequence[Any]", kind)), None)
    if kind == "object" or (kind is None and "properties" in node):
        return _example_object(node, root, depth)
    prefix = node.get("prefixItems")
    if isinstance(prefix, (list, tuple)) and depth < _EXAMPLE_DEPTH:
        return f"[{', '.join(_example(item, root, depth + 1) for item in cast('Sequence[Any]', prefix))}]"
    if kind == "array" and isinstance(node.get("items"), Mapping) and depth + 2 < _EXAMPLE_DEPTH:
        return f"[{_example(node['items'], root, depth + 1)}]"
    return _PLACEHOLDERS.get(str(kind), '"..."')


def _example_object(node: Schema, root: Schema, depth: int) -> str:
    properties = node.get("properties")
    required = node.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, (list, tuple)) or depth >= _EXAMPLE_DEPTH:
        return "{}"
    known = cast("Mapping[str, Any]", properties)
    members = [
        f"{name if name.isidentifier() else _json(name)}: {_example(known.get(name, {}), root, depth + 1)}"
        for name in cast("Sequence[Any]", required)
        if isinstance(name, str)
    ]
    return f"{{{', '.join(members)}}}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
