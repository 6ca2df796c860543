"""The same questions for pydantic-monty, which runs a subset of Python. Runs as a script in its own virtual environment."""

from __future__ import annotations

import importlib
import itertools
import statistics
import time
from typing import Any

__all__ = ("MontyProbes",)


def echo(value: Any) -> Any:
    return value


class MontyProbes:
    """Those probes that Monty has an equivalent for: one worker of a warm pool per session."""

    def __init__(self) -> None:
        module: Any = importlib.import_module("pydantic_monty")  # installed in the peer's environment only
        self._pool: Any = module.Monty().__enter__()
        self._numbers = itertools.count()
        self._session: Any = None

    def _warm(self) -> Any:
        if self._session is None:
            self._session = self._pool.checkout().__enter__()
        return self._session

    def create(self, count: int = 5) -> float:
        taken: list[float] = []
        for _ in range(count):
            began = time.perf_counter()
            with self._pool.checkout() as session:
                session.feed_run(f"{next(self._numbers)} + 1")
                taken.append(time.perf_counter() - began)
        return statistics.median(taken)

    def warm_run(self, count: int = 100) -> float:
        session = self._warm()
        taken: list[float] = []
        for _ in range(count):
            began = time.perf_counter()
            session.feed_run(f"{next(self._numbers)} + 1")
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)

    def tool_call(self, count: int = 1000) -> float:
        count = min(count, 900)  # Monty 1.4.0 ends a session after 1,000
        with self._pool.checkout() as session:
            session.feed_run("1")
            began = time.perf_counter()
            session.feed_run(
                f"for i in range({count}):\n    echo({{'i': i, 's': 'hello'}})\n", external_lookup={"echo": echo}
            )
            return (time.perf_counter() - began) / count


if __name__ == "__main__":
    serving: Any = importlib.import_module("serving")  # a script's own folder comes first

    serving.answer(MontyProbes())
