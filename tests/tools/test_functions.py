"""What is known of a function is kept, and found out again when the function changes."""

from __future__ import annotations

import datetime as dt
import gc
import weakref
from typing import Any

import pytest

from gloveport.tools import build_specs, functions
from gloveport.tools.functions import derived


def fresh() -> Any:
    def f(a: int, b: str = "x", *, c: int = 1) -> list[int]:
        """Old."""
        return []

    return f


def test_it_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    f = fresh()
    first = derived("f", f)
    monkeypatch.setattr(functions, "_derive", None)
    assert derived("g", f) is first
    specs = build_specs({"one": f, "two": f})
    assert specs["one"].parameters is specs["two"].parameters and specs["one"].callable is f


def _annotations(f: Any) -> None:
    f.__annotations__["a"] = bool


def _new_annotations(f: Any) -> None:
    f.__annotations__ = {"a": "bool"}


def _defaults(f: Any) -> None:
    f.__defaults__ = (1, 2)


def _code(f: Any) -> None:
    f.__code__ = (lambda z, y=1: z).__code__


def _doc(f: Any) -> None:
    f.__doc__ = "New."


def _wrapped(f: Any) -> None:
    f.__wrapped__ = lambda other: other


def _signature(f: Any) -> None:
    import inspect

    f.__signature__ = inspect.Signature()


def _keywords(f: Any) -> None:
    f.__kwdefaults__ = None  # then `c` is required, which no tool can have


@pytest.mark.parametrize("change", [_annotations, _new_annotations, _defaults, _code, _doc, _wrapped, _signature])
def test_a_change_is_noticed(change: Any) -> None:
    f = fresh()
    before = derived("f", f)
    change(f)
    after = derived("f", f)
    assert (after.description, after.input_schema) != (before.description, before.input_schema)


def test_a_keyword_that_loses_its_default_is_noticed() -> None:
    f = fresh()
    derived("f", f)
    _keywords(f)
    with pytest.raises(ValueError, match="keyword-only"):
        derived("f", f)


def test_a_name_that_comes_to_mean_something_else_is_noticed() -> None:
    names: dict[str, Any] = {"T": int}
    exec("from __future__ import annotations\ndef f(a: T, b: list[Later] = None): ...", names)
    f = names["f"]
    kinds = []
    for T in (int, str):
        names["T"] = T
        kinds.append(derived("f", f).parameters[0].schema)
    assert kinds == [{"type": "integer"}, {"type": "string"}]
    names["Later"] = dt.date
    for T in (int, str, str):
        names["T"] = T
        found = derived("f", f).parameters
        assert found[0].schema["type"] == {int: "integer", str: "string"}[T]
        assert found[1].schema["items"]["format"] == "date"


def test_functions_are_not_kept_alive() -> None:
    f = fresh()
    build_specs([f])
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None
