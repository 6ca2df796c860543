from __future__ import annotations

import contextlib

import pytest

from gloveport import AgentSandbox


@pytest.fixture
def v8():
    """Makes sessions of the v8 engine and closes them."""
    with contextlib.ExitStack() as stack:
        yield lambda tools=(), **options: stack.enter_context(AgentSandbox(tools or {}, engine="v8", **options))
