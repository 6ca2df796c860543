"""Packages in widgets: the answers to what a widget, and what it imports, imports.

They are fetched as for modules, by the session's resolver. Then this process reads their files from the cache, and hands them to the
jailed builder, which sees no file itself. Nothing of them runs here.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

import anyio.to_thread

from ...engines.builder import Answer
from ...engines.builder.spoken import Loader, told
from ...engines.defaults import toolbox
from ...errors import CompileError, PackageError, WidgetError
from ...policy import MIB, SandboxMode
from ..packages.files import CacheFiles
from ..packages.lockfile import LockFile
from ..packages.nodes import NodeFile, NodeFiles
from ..packages.ranges import noted
from ..packages.remotes import RemoteFiles, loader_of
from ..packages.resolver import Resolver, split_root
from ..packages.specifiers import is_node, root_of

__all__ = ("WidgetPackages", "packages_of")

FILE_BYTES: Final = 4 * MIB
TOTAL_BYTES: Final = 16 * MIB
"""Bytes of all files of one widget's packages."""
REACT: Final = (
    *("react", "react/jsx-runtime", "react/jsx-dev-runtime", "react/compiler-runtime"),
    *("react-dom", "react-dom/client"),
)
"""What is in every page."""
_LAZY: Final = frozenset({"require-call", "dynamic-import"})
"""Imports that may be written for surroundings in which they are never reached, or tried to see whether they are there."""
_IN_STYLES: Final = frozenset({"import-rule", "composes-from"})
_MOST_TEXT: Final = 600
_MOST_SPECIFIER: Final = 2000


class _Url(NamedTuple):
    """A module by its URL."""

    name: str


class _Wanted(NamedTuple):
    """What the widget imports: as it is fetched, and the path in it."""

    root: str
    subpath: str


class WidgetPackages:
    """What one widget may import. `prepare` fetches; after that it answers the builder's questions."""

    def __init__(self, resolver: Resolver, places: Mapping[str, tuple[int, int]] | None = None) -> None:
        """`places`: lines and columns of the widget's imports, for errors that are further inside."""
        self._resolver = resolver
        self._of_widget = places or {}
        self._reached: dict[str, str] = {}
        """By which of the widget's own imports a module came in."""
        self._culprit: str | None = None
        self._exact: dict[str, str] = {}
        self._refused: dict[str, PackageError] = {}
        self._unforeseen = False
        self._places: dict[str, NodeFile | _Url] = {}
        self._answers: dict[str, Answer] = {}
        self._bytes = 0
        self._lock = LockFile({})
        self._set_up()

    @property
    def versions(self) -> str | None:
        """Names everything that the widget's packages consist of; `None`: that cannot be said."""
        if self._unforeseen or self._refused:
            return None
        npm = [root for root in self._exact if root.startswith("npm:")]
        others = [f"{root} {exact}" for root, exact in self._exact.items() if root not in npm]
        try:
            digest = self._lock.digest((self._lock.npm_of(root).key for root in npm), others)
        except PackageError:
            return None
        return json.dumps([str(self._resolver.directory), digest])

    async def prepare(self, specifiers: Sequence[str]) -> None:
        """Fetches what the widget imports. What cannot be had is an error only if the builder asks for it."""
        roots: dict[str, str] = {}
        for specifier in dict.fromkeys(specifiers):
            try:
                roots[specifier] = self._wanted(specifier).root
            except PackageError as error:
                self._refused[specifier] = error
        wanted = sorted({root for root in roots.values() if root})
        if wanted:
            try:
                self._exact |= await self._resolver.resolve(wanted)
            except PackageError:  # one of them, as a rule: which, and why?
                for specifier, root in roots.items():
                    await self._fetch_alone(specifier, root)
        await anyio.to_thread.run_sync(self._load)

    async def __call__(self, specifier: str, importer: str, kind: str) -> Answer:
        """The module for an import. Raises `WidgetError` with the reason."""
        try:
            if importer == "" and specifier not in self._refused:
                root = self._wanted(specifier).root
                if root and root not in self._exact:  # hidden from the compiler, or the compiler failed
                    self._unforeseen = True
                    self._exact |= await self._resolver.resolve([root])
                    await anyio.to_thread.run_sync(self._load)
            answer = await anyio.to_thread.run_sync(self._answer, specifier, importer, kind)
            self._reached.setdefault(answer.name, self._reached.get(importer, specifier))
            return answer
        except PackageError as error:
            text = told(str(error), _MOST_TEXT)
            if importer and kind in _LAZY:
                code = f"throw Object.assign(new Error({json.dumps(text)}), {{ code: 'MODULE_NOT_FOUND' }});"
                return Answer(name=f"missing {specifier[:200]} of {importer}", code=code)
            self._culprit = self._reached.get(importer, specifier)
            raise WidgetError(text) from error

    def located(self, error: WidgetError) -> WidgetError:
        """The same with the place of the widget's import that led to it, if it has none."""
        place = self._of_widget.get(self._culprit or "")
        if error.line or place is None:
            return error
        return WidgetError(error.message, line=place[0], column=place[1], stage=error.stage)

    async def _fetch_alone(self, specifier: str, root: str) -> None:
        try:
            self._exact |= await self._resolver.resolve([root])
        except PackageError as error:
            self._refused[specifier] = error

    # ── in a thread ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _load(self) -> None:
        self._lock = LockFile.read(self._resolver.lock_file)
        self._set_up()
        with contextlib.suppress(PackageError):
            self._nodes.starts_with(
                tuple(self._lock.npm_of(root).key for root in self._exact if root.startswith("npm:"))
            )

    def _set_up(self) -> None:
        files, packages = CacheFiles(self._resolver.directory), self._resolver.packages
        self._nodes = NodeFiles(files, self._lock, packages.npm_registry)
        self._remotes = RemoteFiles(files, self._lock, packages.jsr_registry)

    def _wanted(self, specifier: str) -> _Wanted:
        """What an import of the widget itself is. Without a root it is React's. Raises `PackageError`."""
        if specifier.startswith((".", "/", "file:", "data:", "blob:", "#", "<")) or not specifier:
            text = "a widget is one module and there are no files. Put code, data and styles into it"
            raise PackageError(f"{specifier!r} cannot be imported: {text}", specifier)
        if is_node(specifier):
            text = f"{specifier!r} cannot be imported: a widget runs in a browser, not in Node.js"
            hint = "" if ":" in specifier else f" (a package of that name would be 'npm:{specifier}')"
            raise PackageError(text + hint, specifier)
        root = root_of(specifier, self._resolver.packages)
        if root.startswith(("https:", "http:")):
            return _Wanted(root, "")
        package, path = split_root(root)
        if package.removeprefix("npm:").rpartition("@")[0] in ("react", "react-dom"):
            return _Wanted("", _react(package.removeprefix("npm:").rpartition("@")[0] + path))
        return _Wanted(package, path[1:]) if package.startswith("npm:") else _Wanted(root, path[1:])

    def _answer(self, specifier: str, importer: str, kind: str) -> Answer:
        if len(specifier) > _MOST_SPECIFIER:
            raise PackageError(f"an import specifier of {len(specifier)} characters is too long")
        require = kind == "require-call"
        if importer == "":
            if specifier in self._refused:
                raise self._refused[specifier]
            root, subpath = self._wanted(specifier)
            found = self._root(root, subpath, require=require) if root else subpath
        else:
            origin = self._places.get(importer)
            if origin is None:
                raise PackageError(f"{importer!r} is no module of this widget")
            if isinstance(origin, _Url):
                found = self._of_url(specifier, origin.name, require=require)
            else:
                found = self._of_node(specifier, origin, kind)
        if found is None:
            return Answer(name="nothing", code="module.exports = {};")
        if isinstance(found, str):
            code = f"module.exports = require({json.dumps(_react(found))});"
            return Answer(name=f"the page's {found}", code=code)
        return self._url(found) if isinstance(found, _Url) else self._node(found)

    def _root(self, root: str, subpath: str, *, require: bool) -> NodeFile | _Url | None:
        exact = self._exact.get(root)
        if exact is None:
            raise PackageError(f"{root!r} is not in the cache of packages", root)
        if root.startswith("npm:"):
            return self._nodes.entry(self._lock.npm_of(root), subpath, require=require)
        return self._jsr(root) if root.startswith("jsr:") else _Url(root)

    def _jsr(self, specifier: str) -> _Url:
        package, path = split_root(specifier)
        version = noted(package, self._lock.specifiers)
        if version is None:
            raise PackageError(f"{specifier!r} is not in the cache of packages", specifier)
        name = package.removeprefix("jsr:").rpartition("@")[0]
        return _Url(self._remotes.exported(f"{name}@{version}", path[1:]))

    def _of_url(self, specifier: str, url: str, *, require: bool) -> NodeFile | _Url | str | None:
        target = self._remotes.imported(specifier, url)
        if target.startswith("jsr:"):
            return self._jsr(target)
        if not target.startswith("npm:"):
            return _Url(target)
        package, path = split_root(target)
        name = package.removeprefix("npm:").rpartition("@")[0]
        if name in ("react", "react-dom"):
            return name + path
        return self._nodes.entry(self._lock.npm_of(package), path[1:], require=require)

    def _of_node(self, specifier: str, origin: NodeFile, kind: str) -> NodeFile | str | None:
        require = kind == "require-call"
        if kind in _IN_STYLES and not specifier.startswith(
            (".", "/")
        ):  # there every path is relative, and may be a package
            with contextlib.suppress(PackageError):
                return self._nodes.imported(f"./{specifier}", origin, require=False)
        return self._nodes.imported(specifier, origin, require=require)

    def _node(self, file: NodeFile) -> Answer:
        known = self._answers.get(file.name)
        if known is not None:
            return known
        loader = loader_of(file.path)
        if loader is None:
            raise PackageError(f"{file.name} is of no kind that can be imported")
        data = self._nodes.read(file, FILE_BYTES)
        return self._given(file, data, loader, side_effects=self._nodes.has_side_effects(file))

    def _url(self, place: _Url) -> Answer:
        if place.name in self._answers:
            return self._answers[place.name]
        file = self._remotes.module(place.name, FILE_BYTES)
        if file.loader is None:
            raise PackageError(f"{file.url} is of no kind that can be imported", file.url)
        return self._given(_Url(file.url), file.data, file.loader, side_effects=True)

    def _given(self, place: NodeFile | _Url, data: bytes, loader: str, *, side_effects: bool) -> Answer:
        if place.name not in self._answers:  # a URL may have led to one that is there
            self._bytes += len(data)
            if self._bytes > TOTAL_BYTES:
                text = f"the packages of this widget have more than the {TOTAL_BYTES} bytes that they may have"
                raise WidgetError(text)
            code = data.decode("utf-8", "replace")
            self._places[place.name] = place
            self._answers[place.name] = Answer(
                name=place.name, code=code, loader=cast("Loader", loader), side_effects=side_effects
            )
        return self._answers[place.name]


async def packages_of(source: str, resolver: Resolver, sandbox: SandboxMode) -> WidgetPackages:
    """What a widget may import, with what it does import fetched. Raises `WidgetError` when the cache cannot be
    read, `EngineUnavailableError` or `SandboxUnavailableError`."""
    try:
        compiled = await toolbox(sandbox).module_async(source)
        places = {each.specifier: (each.line, each.column) for each in reversed(compiled.imports)}
    except CompileError:  # which the builder will explain
        places = {}
    packages = WidgetPackages(resolver, places)
    try:
        await packages.prepare([each for each in places if each.partition("/")[0] != "tailwindcss"])
    except PackageError as error:
        raise WidgetError(told(str(error), _MOST_TEXT)) from error
    return packages


def _react(specifier: str) -> str:
    if specifier not in REACT:
        raise PackageError(f"{specifier!r} cannot be imported: of React a page has {', '.join(REACT)}", specifier)
    return specifier
