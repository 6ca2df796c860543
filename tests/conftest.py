"""Fixtures for sessions on every isolation, and for what a test must not leave behind."""

from __future__ import annotations

import contextlib

import pytest

ISOLATIONS = ("inline", "process", "shared")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=ISOLATIONS)
def isolation(request):
    """Each isolation in turn."""
    return request.param


@pytest.fixture
def make_session(isolation):
    """Makes sessions of that isolation and closes them."""
    from gloveport import AgentSandbox

    with contextlib.ExitStack() as stack:
        yield lambda tools=(), **options: stack.enter_context(AgentSandbox(tools or {}, isolation=isolation, **options))
