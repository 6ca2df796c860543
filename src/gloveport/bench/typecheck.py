"""`gloveport bench typecheck`: what a check costs once the checker is there, beside the same compiler started for it."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from .report import Row, median_of

__all__ = ("BARS", "measure")

BARS: Final[Mapping[str, float]] = {
    "check": 1 / 3,
    "check after 20 runs": 1 / 2,
    "check, sessions in turn": 1 / 3,
    "check that finds five mistakes": 1 / 3,
}
"""A check by the resident server divided by one run of the same compiler on the same code, at most."""

_STUBS: Final = """
interface Order { id: number; customer: string; total: number; placed: Date; }
declare function open_orders(status: string, limit?: number): Promise<Order[]>;
declare function send_email(args: { to: string; subject: string; body?: string }): Promise<void>;
"""
_CODE: Final = """
const orders: Order[] = await open_orders("open", 50);
const totals = new Map<string, number>();
for (const order of orders) totals.set(order.customer, (totals.get(order.customer) ?? 0) + order.total);
const best = [...totals].sort((a, b) => b[1] - a[1]).slice(0, 3);
for (const [customer, total] of best) await send_email({ to: customer, subject: `Thank you for ${total.toFixed(2)}` });
return best;
"""
_MISTAKES: Final = """
const orders = open_orders(5); orders.length; await send_emial({});
await send_email({ to: 5 }); return (await orders)[0].totl;
"""


def measure(*, quick: bool) -> list[Row]:
    """All rows. Installs nothing: raises `TypeCheckUnavailableError` when the checker is not there."""
    from ..engines.checker import Question
    from ..engines.checker.install import require
    from ..engines.defaults import checker

    compiler, resident = require(), checker("require")
    numbers = itertools.count()
    earlier = tuple(
        f"const step{i} = (await open_orders('x')).map((order) => order.total + {i}); return step{i}" for i in range(20)
    )

    def fresh(code: str, runs: tuple[str, ...] = (), stubs: str = _STUBS) -> Question:
        return Question(f"{code}\n// {next(numbers)}", stubs, runs)

    def one_of_two() -> Question:
        return fresh(_CODE, stubs=_STUBS + f"declare function other{next(numbers) % 2}(): void;\n")

    def checking(question: Callable[[], Question], wrong: int) -> Callable[[], float]:
        def seconds() -> float:
            asked = question()
            began = time.perf_counter()
            found = resident.check(asked)
            taken = time.perf_counter() - began
            if len(found) != wrong:
                raise RuntimeError(f"the checker found {found}, not {wrong} problems")
            return taken

        return seconds

    questions: dict[str, tuple[Callable[[], Question], int]] = {
        "check": (lambda: fresh(_CODE), 0),
        "check after 20 runs": (lambda: fresh(_CODE, earlier), 0),
        "check, sessions in turn": (one_of_two, 0),
        "check that finds five mistakes": (lambda: fresh(_MISTAKES), 5),
    }
    resident.check(fresh(_CODE))
    with tempfile.TemporaryDirectory() as folder:
        cold = _cold(str(compiler.program), Path(folder))
        return [
            _row(name, 5 if quick else 31, checking(question, wrong), cold)
            for name, (question, wrong) in questions.items()
        ]


def _cold(program: str, folder: Path) -> Callable[[], float]:
    (folder / "tools.d.ts").write_text(_STUBS)
    (folder / "run.ts").write_text(f"async function run() {{{_CODE}}}")
    flags = ["--noEmit", "--skipLibCheck", "--target", "esnext", "--lib", "es2023", "--types", "", "--ignoreConfig"]

    def seconds() -> float:
        began = time.perf_counter()
        done = subprocess.run([program, *flags, "tools.d.ts", "run.ts"], cwd=folder, capture_output=True, check=False)
        taken = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"the compiler failed: {done.stdout[:500]!r}")
        return taken

    return seconds


def _row(name: str, samples: int, ours: Callable[[], float], cold: Callable[[], float]) -> Row:
    mine, other = median_of(samples, ours, cold)
    ratio, bar = mine / other, BARS[name]
    return Row(
        name=name,
        ours=mine,
        unit="s",
        peer="tsc started for it",
        peer_value=other,
        ratio=ratio,
        bar=bar,
        ok=ratio <= bar,
    )
