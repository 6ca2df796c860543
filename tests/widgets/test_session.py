"""Widgets of a `TypeScriptSandboxSession`."""

from __future__ import annotations

import time

import anyio
import pytest

from gloveport import TypeScriptSandboxSession, Widget, WidgetError, WidgetPluginError
from gloveport.errors import TypeScriptSandboxError, TypeScriptSandboxExecutionError, TypeScriptSandboxUnavailableError

SOURCE = "export default function Sales() { return <p className='p-4'>hi</p> }"


def test_a_session_renders_and_keeps_what_it_rendered(backend):
    async def main():
        async with TypeScriptSandboxSession(enable_rendering=True, plugins=["npm:@tailwindcss/vite@latest"]) as session:
            widget = await session.render(SOURCE)
            html = await session.render_widget(SOURCE)
        return session, widget, html

    session, widget, html = anyio.run(main, backend=backend)
    assert isinstance(widget, Widget)
    assert html == widget.html
    assert ".p-4" in html
    assert [kept.artifact_id for kept in session.widgets] == [widget.artifact_id]
    assert session.widgets[widget.artifact_id].html == html


def test_rendering_goes_on_beside_a_module(backend):
    async def main():
        async with TypeScriptSandboxSession(enable_rendering=True) as session:
            await session.render(SOURCE)
            async with anyio.create_task_group() as group:
                group.start_soon(session.run_module, "export default () => new Promise((r) => setTimeout(r, 30_000))")
                await anyio.sleep(0.05)
                assert (await session.render(SOURCE + "// beside")).mounted
                group.cancel_scope.cancel()

    began = time.monotonic()
    anyio.run(main, backend=backend)
    assert time.monotonic() - began < 25


def test_a_failing_widget_is_an_execution_error_and_leaves_the_session_alone():
    async def main():
        async with TypeScriptSandboxSession(enable_rendering=True) as session:
            await session.run_module("globalThis.kept = 5; export default () => 1")
            with pytest.raises(WidgetError, match="line 2") as caught:
                await session.render("export default function W() {\n  throw new Error('x') }")
            assert isinstance(caught.value, TypeScriptSandboxExecutionError)
            result = await session.run_module("export default () => globalThis.kept")
            assert (result.value, result.state_lost) == (5, False)
            assert len(session.widgets) == 0

    anyio.run(main)


def test_it_renders_only_if_it_may_and_while_it_is_open():
    async def main():
        async with TypeScriptSandboxSession() as session:
            for call in (session.render, session.render_widget):
                with pytest.raises(TypeScriptSandboxError, match="enable_rendering=True"):
                    await call(SOURCE)
        closed = TypeScriptSandboxSession(enable_rendering=True)
        with pytest.raises(TypeScriptSandboxError, match="closed"):
            await closed.render(SOURCE)

    anyio.run(main)


def test_plugins_are_checked_when_the_session_is_made():
    with pytest.raises(WidgetPluginError, match="not supported"):
        TypeScriptSandboxSession(enable_rendering=True, plugins=["npm:other"])
    with pytest.raises(ValueError, match="enable_rendering"):
        TypeScriptSandboxSession(plugins=["npm:@tailwindcss/vite"])


def test_a_part_that_is_missing_is_named(monkeypatch, tmp_path):
    from gloveport.engines import defaults
    from gloveport.engines.builder import client

    monkeypatch.setattr(client, "NATIVE", tmp_path)
    monkeypatch.setattr(defaults, "_builders", {})

    async def main():
        async with TypeScriptSandboxSession(enable_rendering=True) as session:
            with pytest.raises(TypeScriptSandboxUnavailableError, match="builder of widgets is not built"):
                await session.render(SOURCE + "// missing")

    anyio.run(main)


def test_many_at_once_each_get_their_own(backend):
    async def main():
        found = {}
        async with TypeScriptSandboxSession(enable_rendering=True) as session:

            async def one(i):
                found[i] = await session.render(f"export default () => <p>number {i}</p>")

            async with anyio.create_task_group() as group:
                for i in range(6):
                    group.start_soon(one, i)
        return found

    found = anyio.run(main, backend=backend)
    assert all(f'"number ",{i}' in found[i].html or f"number {i}" in found[i].html for i in range(6))
    assert len({widget.artifact_id for widget in found.values()}) == 6


def test_cancelled_rendering_leaves_the_next_one_alone(backend):
    async def main():
        async with TypeScriptSandboxSession(enable_rendering=True) as session:
            await session.render(SOURCE)
            for after in (0.001, 0.01, 0.02, 0.05):
                with anyio.move_on_after(after) as scope:
                    await session.render(f"export default function W() {{ for (;;); }} // {after}")
                assert scope.cancelled_caught
            assert (await session.render(SOURCE + "// after")).mounted

    anyio.run(main, backend=backend)


def test_no_jail_when_none_is_asked_for():
    async def main():
        async with TypeScriptSandboxSession(enable_rendering=True, sandbox="off") as session:
            return await session.render(SOURCE + "// off")

    assert anyio.run(main).mounted
