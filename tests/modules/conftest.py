"""Sessions of modules for tests that are not async themselves."""

from __future__ import annotations

import contextlib

import pytest
from anyio.from_thread import start_blocking_portal

from gloveport import TypeScriptSandboxSession


class Blocking:
    """A session that is used from this thread."""

    def __init__(self, portal, session):
        self._portal = portal
        self.session = session

    def __call__(self, source, **options):
        options.setdefault("timeout", 20)

        async def run():
            return await self.session.run_module(source, **options)

        return self._portal.call(run)

    def value(self, source, **options):
        result = self(source, **options)
        assert result.ok, result.error
        return result.value

    def fails(self, source, **options):
        result = self(source, **options)
        assert not result.ok
        assert result.value is None
        return result

    def call(self, function, *arguments):
        return self._portal.call(function, *arguments)


@contextlib.contextmanager
def opened(**options):
    with start_blocking_portal() as portal:
        session = TypeScriptSandboxSession(**options)
        with portal.wrap_async_context_manager(session):
            yield Blocking(portal, session)


@pytest.fixture(scope="module")
def module():
    """One session for all tests of a file that leave nothing behind."""
    with opened() as session:
        yield session


@pytest.fixture
def fresh():
    """A session of its own."""
    with opened() as session:
        yield session
