"""From a model's module to a page: `render`."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import anyio

from ...engines.builder import Builder, Built, Mounted, Mounting, Note
from ...engines.builder.client import Resolve
from ...engines.builder.spoken import told
from ...engines.builder.talk import Talk
from ...engines.defaults import builder, mounting
from ...errors import EngineUnavailableError, GloveportError, TypeScriptSandboxTimeoutError, WidgetError
from ...policy import MIB, SandboxMode, check_seconds
from .html import page
from .packages import WidgetPackages
from .plugins import Plugins
from .widget import Widget

__all__ = ("render",)

_CACHE_BYTES: Final = 16 * MIB
_MOST_WARNINGS: Final = 20


async def render(
    source: str,
    *,
    plugins: Sequence[str] = (),
    css: str = "",
    title: str | None = None,
    packages_hook: Resolve | None = None,
    timeout: float = 30.0,
    sandbox: SandboxMode = "require",
) -> Widget:
    """Makes a self-contained page of a React component. Runs under asyncio and trio, and holds neither up.

    Args:
        source: a complete module in TSX (or TypeScript, or JavaScript) that exports the component as its default; also inside one
            Markdown fence; at most 1 MiB. It gets no props. It may import `react` and `react-dom`, and what `packages_hook` gives.
        plugins: `"npm:@tailwindcss/vite@latest"` turns on Tailwind CSS, which is part of this package.
        css: the application's own style sheet; with Tailwind CSS its directives are understood (`@theme`, `@utility`, `@apply`).
        title: of the page; default: the component's name.
        packages_hook: gives the modules for further imports; called with a specifier, the name of the module that imports it, and the
            kind of import. `None`: everything else is refused.
        timeout: seconds for building and mounting together. Waiting for a free worker does not count.
        sandbox: as for sessions.

    The component is mounted, first by React's server renderer and then in a document, in a jailed process of its own, with effects. What
    React complains of comes back as warnings.

    Raises:
        WidgetError: it does not compile, imports what it may not, exports no component, or throws while it is rendered or in an effect;
            with the line and column of `source`.
        TypeScriptSandboxTimeoutError: `timeout`.
        WidgetPluginError: a plugin that is not supported.
        EngineUnavailableError: a part is missing or does not start. SandboxUnavailableError: there is no jail.
    """
    began = time.monotonic()
    if not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the source of a widget is a str, not {type(source).__name__}")
    check_seconds("timeout", timeout)
    chosen = Plugins.parse(plugins)
    key = _key(source, css, chosen, title, sandbox, _versions(packages_hook))
    kept = _rendered.get(key, builder(sandbox).process) if key is not None else None
    if kept is None:
        built, mounted = await _made(source, css if chosen.tailwind else None, packages_hook, timeout, sandbox)
        kept = _widget(source, built, mounted, "" if chosen.tailwind else css, title)
        if key is not None and _versions(packages_hook) is not None:  # nothing came to it that was not foreseen
            _rendered.put(key, kept, built.process)
    return dataclasses.replace(kept, duration=time.monotonic() - began)


async def _made(
    source: str, css: str | None, resolve: Resolve | None, timeout: float, sandbox: SandboxMode
) -> tuple[Built, Mounted]:
    """Builds and mounts. The very first time the worker is started while the builder is."""
    ours, workers = builder(sandbox), mounting(sandbox)
    if workers.warm:
        return await _built_and_mounted(ours, workers, source, css, resolve, timeout, None)
    started: list[Talk] = []
    failed: list[GloveportError] = []

    async def start() -> None:
        try:
            started.append(await workers.begin())
        except GloveportError as error:
            failed.append(error)

    built: Built | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(start)
        try:
            clock = time.monotonic()
            built = await ours.build(source, css=css, resolve=resolve, timeout=timeout)
            timeout -= time.monotonic() - clock
        except GloveportError as error:  # not out of the group, which would wrap it
            failed.insert(0, error)
            group.cancel_scope.cancel()
    if failed or built is None:
        for talk in started:
            talk.close()
        raise failed[0]
    return built, await _mounted(workers, built, source, timeout, started[0])


async def _built_and_mounted(
    ours: Builder,
    workers: Mounting,
    source: str,
    css: str | None,
    resolve: Resolve | None,
    timeout: float,
    talk: Talk | None,
) -> tuple[Built, Mounted]:
    clock = time.monotonic()
    built = await ours.build(source, css=css, resolve=resolve, timeout=timeout)
    return built, await _mounted(workers, built, source, timeout - (time.monotonic() - clock), talk)


async def _mounted(workers: Mounting, built: Built, source: str, left: float, talk: Talk | None) -> Mounted:
    if left <= 0:
        if talk is not None:
            talk.close()
        raise TypeScriptSandboxTimeoutError("building the widget took all of its time")
    mounted = await workers.mount(built.code, timeout=left, talk=talk)
    if mounted.mounted and mounted.error is None:
        return mounted
    note = mounted.error or Note("the widget was not mounted", [])
    line, column = _Places(built, source).of(note)
    raise WidgetError(told(note.text), line=line, column=column, stage=mounted.stage or "render")


def _widget(source: str, built: Built, mounted: Mounted, css: str, title: str | None) -> Widget:
    named = title or told(mounted.name)[:80] or "Widget"
    try:
        html = page(built.page or built.code, css + built.css, named)
    except ValueError as error:
        raise EngineUnavailableError(f"the builder of widgets failed: {error}") from error
    encoded = html.encode()
    places = _Places(built, source)
    warnings = tuple(places.told(note) for note in mounted.warnings[:_MOST_WARNINGS])
    digest = hashlib.blake2b(encoded, digest_size=16).hexdigest()
    return Widget(f"widget_{digest}", html, named, len(encoded), warnings)


class _Places:
    """From places of the script to the model's own."""

    def __init__(self, built: Built, source: str) -> None:
        self._built = built
        self._source = source

    @functools.cached_property
    def _lines(self) -> list[str]:
        return re.split(r"\r\n|[\n\r\u2028\u2029]", self._source)

    def of(self, note: Note) -> tuple[int, int]:
        """The innermost one that is the model's; (0, 0): none is. Columns in characters."""
        for at in note.at:
            found = self._built.locate(*at)
            if found is not None and found[0] <= len(self._lines):
                line, column = found
                before = self._lines[line - 1].encode("utf-16-le", "surrogatepass")[: 2 * (column - 1)]
                return line, len(before.decode("utf-16-le", "ignore")) + 1
        return 0, 0

    def told(self, note: Note) -> str:
        """A note with its place."""
        line, column = self.of(note)
        return told(note.text) + (f" (line {line}, column {column})" if line else "")


def _versions(packages: Resolve | None) -> str | None:
    """Of all packages; `None`: that cannot be told, so that nothing is kept."""
    if packages is None:
        return ""
    return packages.versions if isinstance(packages, WidgetPackages) else None


def _key(
    source: str, css: str, plugins: Plugins, title: str | None, sandbox: SandboxMode, versions: str | None
) -> bytes | None:
    if versions is None:
        return None
    text = json.dumps([source, css, plugins.tailwind, title, sandbox, versions])
    return hashlib.blake2b(text.encode("ascii"), digest_size=32).digest()


class _Rendered:
    """Widgets by what they were made from. Only good ones: what failed may have failed for want of time.

    One is kept for as long as the process is that built it: had somebody taken that over, it would have made what he likes.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, tuple[Widget, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes, process: int | None) -> Widget | None:
        with self._lock:
            widget, by = self._kept.get(key, (None, None))
            if widget is None or by != process:
                return None
            self._kept.move_to_end(key)
            return widget

    def put(self, key: bytes, widget: Widget, process: int) -> None:
        with self._lock:
            replaced, _ = self._kept.pop(key, (None, None))
            self._bytes += widget.bytes - (replaced.bytes if replaced else 0)
            self._kept[key] = widget, process
            while self._bytes > self._max:
                self._bytes -= self._kept.popitem(last=False)[1][0].bytes


_rendered = _Rendered(_CACHE_BYTES)
