"""Fixtures for sessions on every engine and isolation, and for what a test must not leave behind."""

from __future__ import annotations

import contextlib
import os
import sys
import time

import hypothesis
import pytest

ISOLATIONS = ("inline", "process", "shared")
SETTINGS = {
    **{isolation: {"engine": "wasm", "isolation": isolation} for isolation in ISOLATIONS},
    "v8": {"engine": "v8", "isolation": "process"},
}
"""Options of a session, by name."""


ONLY_ROOT_SEES = (
    "test_each_layer_alone_takes_away_what_it_says[root-seccomp]",
    "test_a_layer_that_is_left_out_is_named[root-user-namespace]",
    "test_it_inherits_no_descriptor",
    "test_a_dropped_worker_dies",
    "test_nothing_leaks",
    "test_shared_sessions_leak_nothing",
)
"""Tests that look into a jailed worker from outside, or take root's powers away: an ordinary user may do neither."""


# To explain a failure it traces every line, on Python 3.11 for minutes: the time limit of a test then hides what failed.
hypothesis.settings.register_profile(
    "here", phases=[phase for phase in hypothesis.Phase if phase is not hypothesis.Phase.explain]
)
hypothesis.settings.load_profile("here")


def pytest_collection_modifyitems(items):
    if os.getuid():
        for item in items:
            if item.name.startswith(ONLY_ROOT_SEES):
                item.add_marker(pytest.mark.skip(reason="only root can look"))


@pytest.fixture
def anyio_backend():
    return "asyncio"


def rest_v8_pools(seconds=20.0):
    """Ends the v8 workers that wait for sessions: they come in the background, and a test that counts sees them come."""
    pools = sys.modules.get("gloveport.engines.deno.pool")
    end = time.monotonic() + seconds
    for pool in [] if pools is None else list(pools._all):
        pool.rest()
        while (pool._dying or pool._ready or pool._starting) and time.monotonic() < end:
            pool.rest()
            time.sleep(0.01)


@pytest.fixture(autouse=True, scope="module")
def v8_workers_stay_in_their_module():
    yield
    rest_v8_pools()


@pytest.fixture(params=ISOLATIONS)
def isolation(request):
    """Each isolation of the wasm engine in turn: for what only it has, or what costs too many processes elsewhere."""
    return request.param


@pytest.fixture(params=SETTINGS)
def setting(request):
    """Each engine, in each isolation that it has."""
    return dict(SETTINGS[request.param])


@pytest.fixture(params=("inline", "v8"))
def either(request):
    """Each engine once, the wasm engine in the way that costs least."""
    return dict(SETTINGS[request.param])


@pytest.fixture
def make_session(setting):
    """Makes sessions of that setting and closes them."""
    from gloveport import AgentSandbox

    with contextlib.ExitStack() as stack:
        yield lambda tools=(), **options: stack.enter_context(AgentSandbox(tools or {}, **setting, **options))


@pytest.fixture
def make_either(either):
    """As `make_session`, once for each engine."""
    from gloveport import AgentSandbox

    with contextlib.ExitStack() as stack:
        yield lambda tools=(), **options: stack.enter_context(AgentSandbox(tools or {}, **{**either, **options}))


@pytest.fixture(params=("process", "v8"))
def worker(request):
    """Each engine in a process of its own, as it is by default."""
    return dict(SETTINGS[request.param])


@pytest.fixture(scope="session")
def postgres():
    """The conninfo of a PostgreSQL server of these tests."""
    from gloveport.bench.postgres import private_server

    with private_server(durable=False) as conninfo:
        yield conninfo
