"""The quick look at how deep a value is."""

from __future__ import annotations

import contextlib
import gc
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.errors import ProtocolViolation
from gloveport.wire import values

_NASTY = st.text(alphabet='[]{}"\\n,:', max_size=6)
_TREES = st.recursive(
    st.one_of(st.integers(), _NASTY),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NASTY, inner, max_size=3)),
    max_leaves=20,
)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


@settings(max_examples=400)
@given(tree=_TREES, around=st.integers(0, 6))
def test_what_looks_shallow_by_its_brackets_is(tree: Any, around: int):
    for _ in range(around):
        tree = [tree]
    data = json.dumps(tree).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "_LEVELS", 4)
        patch.setattr(values, "MAX_DEPTH", 0)
        shallow = values._is_shallow(data)
    assert not shallow or _depth(tree) <= 4
    if '"' not in data.decode() and _depth(tree) <= 2:
        assert shallow


@pytest.mark.parametrize(("opened", "closed"), [("]", "["), ('"]"', '"["'), ('\\"]\\"', '\\"[\\"'), ("\\]", "\\[")])
def test_texts_cannot_hide_how_deep_it_is(opened: str, closed: str):
    tree: Any = []
    for _ in range(values._LEVELS + 1):
        tree = [opened, tree, closed]
    data = json.dumps(tree).encode()
    assert not values._is_shallow(data)
    with pytest.raises(ProtocolViolation, match="deeper"):
        values.decode(data, 0)
    assert values.decode(json.dumps([opened, [], closed]).encode(), 0) == [opened, [], closed]


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("data", [b"[" + b"{}," * 100_000 + b"1]", b"[" * 200_000])
def test_a_large_value_leaves_the_collector_as_it_was(enabled, data):
    assert gc.isenabled()
    try:
        if not enabled:
            gc.disable()
        with contextlib.suppress(ProtocolViolation):
            values.decode(data, 0)
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
