from __future__ import annotations

import functools

import pytest

BACKENDS = ["asyncio", "trio"]


@pytest.fixture(params=BACKENDS)
def backend(request):
    """Each event loop in turn."""
    if request.param == "trio":
        pytest.importorskip("trio")
    return request.param


@pytest.fixture
def render():
    """`render`, blocking."""
    import anyio

    from gloveport.host.widgets.render import render as rendering

    def run(source, *, backend="asyncio", **options):
        return anyio.run(functools.partial(rendering, source, **options), backend=backend)

    return run


@pytest.fixture
def page_of():
    """The page of a widget that was not mounted: a tenth of the time, for tests of what building makes."""
    import anyio

    from gloveport.engines.defaults import builder
    from gloveport.host.widgets.html import page
    from gloveport.host.widgets.plugins import Plugins

    async def made(source, plugins, css):
        tailwind = Plugins.parse(plugins).tailwind
        built = await builder("require").build(source, css=css if tailwind else None, resolve=None, timeout=20.0)
        return page(built.page or built.code, built.css, "Title")

    return lambda source, *, plugins=(), css="": anyio.run(made, source, plugins, css)


@pytest.fixture(scope="session")
def browser():
    """Real Chromium."""
    from tests.widgets.chromium import Chromium

    found = Chromium()
    yield found
    found.close()


@pytest.fixture(autouse=True, scope="module")
def nothing_stays_between_modules():
    """Ends the spares: a test elsewhere that counts processes must not see them come."""
    yield
    from gloveport.engines import defaults

    for kind in (defaults._mountings, defaults._builders):
        while kind:
            kind.popitem()[1].close()
