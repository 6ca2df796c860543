"""`gloveport bench catalog`: what a catalog of 3,000 tools costs, against what could be done without an index."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..types import SchemaTool
from .report import Row, median_of

__all__ = ("BARS", "measure", "office")

SIZE: Final = 3000
BARS: Final[Mapping[str, float]] = {
    "index": 12.0,
    "query": 1.0,
    "query of a sentence": 4.0,
    "session with a catalog": 1.5,
    "call of a found tool": 1.4,
    "dump with a catalog": 1.1,
    "prompt": 1.0,
}
"""Ours divided by what it is compared with, at most."""

_SYSTEMS = "github slack jira stripe salesforce notion gmail drive zendesk hubspot"
_VERBS = "get list create update delete search send export import sync archive approve reject translate convert upload download"
_NOUNS = """
    invoice customer order ticket issue report email file calendar event user group payment refund weather forecast document page
    comment repository branch release secret token message channel
"""
_SENTENCE = "send an e-mail to the customer about her refund, and attach the invoice"


def office(size: int) -> list[SchemaTool]:
    """That many tools with the names and texts that real servers have, the same every time."""
    names = [f"{s}_{v}_{n}" for s in _SYSTEMS.split() for v in _VERBS.split() for n in _NOUNS.split()]
    return [_tool(name) for name in random.Random(1).sample(names, size)]  # noqa: S311  not for secrets


def _tool(name: str) -> SchemaTool:
    system, verb, noun = name.split("_")
    properties = {
        "id": {"type": "string", "description": f"The {noun}."},
        "limit": {"type": "integer", "description": "At most so many."},
        f"{noun}Title": {"type": "string"},
    }
    text = f"{verb.capitalize()} the {noun} of {system} that fits, and return its fields: title, owner and dates."
    return SchemaTool(name, text, {"type": "object", "properties": properties, "required": ["id"]}, _one)


def _one(args: Any) -> int:
    return 1


def measure(*, quick: bool) -> list[Row]:
    """All rows."""
    from ..tools.catalog import ToolCatalog

    samples = 5 if quick else 21
    tools = office(SIZE)
    catalog = ToolCatalog(tools)
    texts = [{"name": t.name, "description": t.description, "input_schema": t.input_schema} for t in tools]

    def build() -> None:
        ToolCatalog(tools).search("invoice")

    def scan() -> list[str]:
        return [t.name for t in tools if "invoice" in t.name.lower() or "invoice" in t.description.lower()]

    return [
        _row("index", "json.dumps of it", samples, _timed(build), _timed(lambda: json.dumps(texts))),
        _row("query", "substring scan", samples, _timed(lambda: catalog.search("invoices"), 20), _timed(scan, 20)),
        _row(
            "query of a sentence",
            "substring scan",
            samples,
            _timed(lambda: catalog.search(_SENTENCE), 20),
            _timed(scan, 20),
        ),
        *_sessions(catalog, samples),
        *_sizes(catalog, ToolCatalog(tools[:3])),
    ]


def _sessions(catalog: Any, samples: int) -> list[Row]:
    from ..host.sync import AgentSandbox

    def create(tools_catalog: Any) -> Callable[[], None]:
        def make() -> None:
            with AgentSandbox({}, tools_catalog=tools_catalog, isolation="inline") as session:
                session.run("return 1")

        return make

    name = catalog.names[0]
    with AgentSandbox({"declared": _one}, tools_catalog=catalog, isolation="inline") as session:
        session.run(f"await describe_tool({name!r})")

        def calls(function: str) -> Callable[[], float]:
            return _timed(lambda: session.run(f"for (let i = 0; i < 50; i++) await {function}({{id: '1'}}); return 1"))

        return [
            _row("session with a catalog", "without", samples, _timed(create(catalog)), _timed(create(None))),
            _row("call of a found tool", "of a declared one", samples, calls(f"tools.{name}"), calls("declared")),
        ]


def _sizes(large: Any, small: Any) -> list[Row]:
    from ..host.sync import AgentSandbox

    key = bytes(32)

    def sizes(tools_catalog: Any) -> tuple[int, int]:
        with AgentSandbox({}, tools_catalog=tools_catalog, isolation="inline", random_seed=1, clock=1.0) as session:
            session.run("await search_tools('invoice')")
            return len(session.dump(key)), len(session.describe_tools())

    many, few = sizes(large), sizes(small)
    rows = (("dump with a catalog", 0), ("prompt", 1))
    return [_row(name, "with 3 tools", 1, lambda i=i: many[i], lambda i=i: few[i], "bytes") for name, i in rows]


def _timed(function: Callable[[], Any], repeat: int = 1) -> Callable[[], float]:
    def seconds() -> float:
        began = time.perf_counter()
        for _ in range(repeat):
            function()
        return (time.perf_counter() - began) / repeat

    return seconds


def _row(
    name: str, peer: str, samples: int, ours: Callable[[], float], theirs: Callable[[], float], unit: str = "s"
) -> Row:
    mine, other = median_of(samples, ours, theirs)
    ratio, bar = mine / other, BARS[name]
    return Row(name=name, ours=mine, unit=unit, peer=peer, peer_value=other, ratio=ratio, bar=bar, ok=ratio <= bar)
