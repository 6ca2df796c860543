"""A registry on loopback, and sessions that render what imports from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from gloveport import TypeScriptSandboxSession, Widget
from gloveport.errors import WidgetError
from gloveport.permissions import Packages
from tests.packages.registry import Registry

Render = Callable[..., Any]


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.close()


@pytest.fixture
def packages(registry: Registry, tmp_path: Path) -> Callable[..., Packages]:
    """Rules for that registry, and a cache in `tmp_path`."""

    def make(**options: Any) -> Packages:
        tmp_path.chmod(0o755)
        defaults: dict[str, Any] = {
            "allow": ("npm:*", "jsr:*", f"{registry.url}/mods/"),
            "npm_registry": f"{registry.url}/npm/",
            "jsr_registry": f"{registry.url}/jsr/",
            "cache": str(tmp_path / "cache"),
        }
        return Packages(**{**defaults, **options})

    return make


@pytest.fixture
def render(packages: Callable[..., Packages]) -> Render:
    """Renders sources one after another in one session: a `Widget` or a `WidgetError` for each."""

    def go(*sources: str, allowed: Packages | None = None, backend: str = "asyncio", **options: Any) -> Any:
        async def main() -> list[Widget | WidgetError]:
            found: list[Widget | WidgetError] = []
            rules = allowed or packages()
            async with TypeScriptSandboxSession(
                allow_package_imports=rules, enable_rendering=True, **options
            ) as session:
                for source in sources:
                    try:
                        found.append(await session.render(source))
                    except WidgetError as error:
                        found.append(error)
            return found

        found = anyio.run(main, backend=backend)
        return found[0] if len(found) == 1 else found

    return go


@pytest.fixture
def values(render: Render) -> Callable[..., list[Any]]:
    """What widgets find when they are mounted, one for each of (imports, expression): JSON values, or texts of errors."""

    def found(widget: Widget | WidgetError) -> Any:
        if isinstance(widget, WidgetError):
            return str(widget)
        said = next(text for text in widget.warnings if "VALUE" in text)
        return json.JSONDecoder().raw_decode(said.partition("VALUE")[2])[0]

    def of(*cases: tuple[str, str], **options: Any) -> list[Any]:
        shown = "{}\nconsole.warn('VALUE' + JSON.stringify({}));\nexport default () => <p>hi</p>"
        widgets = render(*(shown.format(*case) for case in cases), **options)
        return [found(widget) for widget in (widgets if isinstance(widgets, list) else [widgets])]

    return of


@pytest.fixture
def defaults(values: Callable[..., list[Any]]) -> Callable[..., dict[str, Any]]:
    """The default exports of modules, by their specifiers."""

    def of(*specifiers: str) -> dict[str, Any]:
        return dict(zip(specifiers, values(*((f"import x from {each!r}", "x") for each in specifiers)), strict=True))

    return of
