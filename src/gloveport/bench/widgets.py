"""`gloveport bench widgets`: how long a component takes to become a page that was mounted. Bars: `SPECIFICATION.md`."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio

from ..engines.defaults import mounting
from ..host.widgets.render import render
from ..host.widgets.widget import SUMMARY_BYTES, Widget
from .report import Row

__all__ = ("BARS", "measure")

BARS: Final[Mapping[str, float]] = {
    "first widget of a process": 1.0,
    "hello world": 0.060,
    "told to the model": SUMMARY_BYTES - 1,
}
"""Seconds; bytes of JSON. At most."""

_HELLO: Final = "export default function Widget() {\n  return <main>Hello from a widget</main>;\n}\n// "
_TAILWIND: Final = (
    "npm:@tailwindcss/vite@latest",
    _HELLO.replace("<main>", '<main className="p-4 text-red-500 md:flex w-[37px]">'),
)
_LARGE: Final = (
    'import { useState } from "react";\n'
    + "\n".join(
        f"function Row{i}({{ n }}: {{ n: number }}) {{ return <li key={{n}}>row {{n}} of {i}</li> }}"
        for i in range(300)
    )
    + "\nexport default function W() { const [n] = useState(3); return <ul>"
    + "".join(f"<Row{i} n={{n}} />" for i in range(300))
    + "</ul> }\n// "
)
_FIRST: Final = """
import anyio, time
from gloveport.host.widgets.render import render
async def main():
    began = time.perf_counter()
    await render({source!r})
    print(time.perf_counter() - began)
anyio.run(main)
"""


def measure(*, quick: bool) -> list[Row]:
    """All rows."""
    samples = 5 if quick else 31
    rows = [_row("first widget of a process", [_first() for _ in range(3 if quick else 9)], "s")]
    return rows + anyio.run(_warm, samples)


def _first() -> float:
    """In a process that has done nothing but import: builder and worker are started."""
    code = _FIRST.format(source=_HELLO)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


async def _warm(samples: int) -> list[Row]:
    numbers = itertools.count()
    kinds: dict[str, Callable[[], tuple[str, Sequence[str]]]] = {
        "hello world": lambda: (f"{_HELLO}{next(numbers)}", ()),
        "hello world with Tailwind CSS": lambda: (f"{_TAILWIND[1]}{next(numbers)}", _TAILWIND[:1]),
        "300 components": lambda: (f"{_LARGE}{next(numbers)}", ()),
        "the same one again": lambda: (_HELLO, ()),
    }
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    widget: Widget = await render(_HELLO)
    for _ in range(samples):
        for name, kind in kinds.items():
            source, plugins = kind()
            # The next worker is started when one was taken: widgets of a model come seconds apart.
            await anyio.to_thread.run_sync(mounting("require").settle)
            began = time.perf_counter()
            await render(source, plugins=plugins)
            taken[name].append(time.perf_counter() - began)
    told = len(json.dumps(widget.summary(), separators=(",", ":")))
    rows = [_row(name, times, "s") for name, times in taken.items()]
    return [*rows, _row("told to the model", [told], "B"), _row("page", [widget.bytes], "B")]


def _row(name: str, values: Sequence[float], unit: str) -> Row:
    value, most = statistics.median(values), BARS.get(name)
    if most is None:
        return Row(name=name, ours=value, unit=unit)
    ratio = value / most
    return Row(name=name, ours=value, unit=unit, peer="promise", peer_value=most, ratio=ratio, bar=1.0, ok=ratio <= 1)
