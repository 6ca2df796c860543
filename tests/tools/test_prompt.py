"""What the model is told."""

from __future__ import annotations

from typing import Any

from gloveport.policy import Limits
from gloveport.tools import describe_tools
from gloveport.types import SchemaTool


def query_rows(sql: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Run a read-only SQL query against the orders table."""
    raise NotImplementedError


NODE = {
    "type": "object",
    "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    "required": ["kids"],
}
TREE = SchemaTool(
    "plant-tree", "Plants a tree.", {"properties": {"node": {"$ref": "#/$defs/Node"}}, "required": ["node"], "$defs": {"Node": NODE}},
    lambda args: args,
)  # fmt: skip

# ruff: noqa: E501  the text is one line per paragraph
RULES = """\
You can run TypeScript or JavaScript in a sandbox. Write the code as the body of an async function: call tools with `await`, and `return` the final result (JSON data).
- Top-level `const`, `let`, `var`, `function` and `class` declarations stay available in later runs.
- There is no network, filesystem, `require` or `import`: the tools are the only way out.
- `setTimeout` does not really wait: time is virtual, and `Date.now()` does not advance while code runs. `Math.random()` is seeded.
- Console output is returned with the result.
- A tool that fails throws an Error whose `name` is the failure's type.
- Tool calls made together with `Promise.all` run at the same time."""


def test_the_whole_text() -> None:
    assert describe_tools({"query_rows": query_rows, "plant-tree": TREE}) == (
        RULES
        + """

Types:

```ts
interface Node {
  kids: Node[];
}
```

Tools:

```ts
query_rows(sql: string, params?: Record<string, unknown> | null): Promise<Record<string, unknown>[]>
```
Run a read-only SQL query against the orders table.
Example: `await query_rows("...")`

```ts
plant_tree(args: {
  node: Node;
}): Promise<unknown>
```
Plants a tree.
Example: `await plant_tree({node: {kids: []}})`"""
    )


def test_no_tools() -> None:
    assert describe_tools([]) == f"{RULES}\n\nThere are no tools."


def test_limits_and_a_frozen_clock() -> None:
    limits = Limits(max_tool_calls=50, tool_budgets={"query_rows": 3}, max_host_calls=10, max_output_bytes=1000)
    text = describe_tools([query_rows], namespace="db", limits=limits, frozen_clock=True)
    assert (
        "- Console output is returned with the result. At most 1000 bytes each of stdout and stderr are kept. The result must "
        "not exceed 1 MiB, and a run may compute for 30 s. At most 50 tool calls in the session. At most 10 tool calls in one "
        "run.\n"
    ) in text
    assert "`Date.now()` is frozen" in text and "time is virtual" not in text
    assert text.endswith('At most 3 calls in the session.\nExample: `await db.query_rows("...")`')
    assert "db.query_rows(sql: string" in text


def test_examples_take_what_the_schema_suggests() -> None:
    properties = {
        "text": {"type": "string", "examples": ["Paris"]},
        "mode": {"enum": ["fast", "slow"]},
        "many": {"type": "integer", "default": 5},
        "pair": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "boolean"}]},
        "a-b": {"type": ["null", "string"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "optional": {"type": "string"},
    }
    tool = SchemaTool("f", "", {"properties": properties, "required": list(properties)[:-1]}, len)
    assert describe_tools([tool]).rpartition("Example: ")[2] == (
        '`await f({text: "Paris", mode: "fast", many: 5, pair: [1, true], "a-b": null, either: "..."})`'
    )
