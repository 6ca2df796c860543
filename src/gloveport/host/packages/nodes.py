"""Finding the files of npm packages in a cache, as a bundler for browsers finds them in `node_modules`."""

from __future__ import annotations

import base64
import functools
import ipaddress
import json
import posixpath
import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ...egress.urls import DEFAULT_PORTS
from ...errors import PackageError
from .files import CacheFiles
from .lockfile import LockFile, NpmPackage
from .manifest import Manifest, inside
from .specifiers import is_node

__all__ = ("NodeFile", "NodeFiles")

_MANIFEST_BYTES: Final = 1024 * 1024
_PROBED: Final = ("", ".tsx", ".ts", ".jsx", ".js", ".mjs", ".cjs", ".json")
_INDEXES: Final = ("index.tsx", "index.ts", "index.jsx", "index.js", "index.mjs", "index.cjs", "index.json")
_TYPESCRIPT: Final = {".js": (".ts", ".tsx"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}
_BANNED: Final = re.compile(r'[<>:"|?*\\\0]')


class NodeFile(NamedTuple):
    """A file of a package."""

    package: NpmPackage
    path: str

    @property
    def name(self) -> str:
        """Tells it from others, and says to a reader of errors what it is."""
        return f"{self.package.key}/{self.path}"


class NodeFiles:
    """The packages of one lock and cache. For one thread at a time.

    `npm_registry` is the URL that they came from, which is part of where they are.
    """

    def __init__(self, files: CacheFiles, lock: LockFile, npm_registry: str) -> None:
        self._files = files
        self._lock = lock
        self._registry = _folder_of(npm_registry)
        self._manifests: dict[tuple[str, str], Manifest] = {}
        self._roots: tuple[str, ...] = ()

    def starts_with(self, roots: tuple[str, ...]) -> None:
        """Says the keys of the packages that the widget itself imports."""
        self._roots = roots

    def entry(self, package: NpmPackage, subpath: str, *, require: bool) -> NodeFile | None:
        """What importing a package, or `subpath` of it, means; `None` is an empty module. Raises `PackageError`."""
        manifest = self._manifest(package, "")
        if manifest.has_exports:
            path = manifest.exported(f"./{subpath}" if subpath else ".", require=require)
            if not self._is_file(package, path):
                raise PackageError(f"the package {package.name} exports {path!r}, which it does not have")
            return NodeFile(package, path)
        path = self._probed(package, inside(subpath), require=require)
        if path is None:
            what = f"{package.name}/{subpath}" if subpath else package.name
            raise PackageError(f"the package {package.name}@{package.version} has no file for {what!r}", what)
        return self._in_browsers(package, path, require=require)

    def imported(self, specifier: str, origin: NodeFile, *, require: bool) -> NodeFile | str | None:
        """The same for an import in one of its files. A text is what it imports of React, which is not looked up here."""
        if specifier.startswith("#"):
            specifier = self._manifest(origin.package, "").imported(specifier, require=require)
            origin = NodeFile(origin.package, "package.json")  # which is what such paths are relative to
        if specifier.startswith(("./", "../")) or specifier in (".", ".."):
            return self._relative(specifier, origin, require=require)
        if specifier.startswith("/") or re.match(r"[A-Za-z][A-Za-z+.-]+:", specifier.removeprefix("node:")):
            raise PackageError(
                f"the package {origin.package.name} imports {specifier!r}, which is no package", specifier
            )
        browser = self._manifest(origin.package, "").browser
        said = browser.get(specifier, browser.get(specifier.removeprefix("node:").removesuffix("/")))
        if said is False:
            return None
        if isinstance(said, str):
            if said.startswith("."):
                return self._relative(said, NodeFile(origin.package, "package.json"), require=require)
            specifier = said
        return specifier if specifier.partition("/")[0] in _REACT else self._bare(specifier, origin, require=require)

    def read(self, file: NodeFile, most: int) -> bytes:
        """Its bytes. Raises `PackageError`."""
        data = self._files.read(*self._parts(file.package, file.path), most=most)
        if data is None:
            raise PackageError(f"{file.name} is not in the cache of packages")
        return data

    def has_side_effects(self, file: NodeFile) -> bool:
        """What its package says. A style sheet always has some."""
        return file.path.endswith(".css") or self._manifest(file.package, "").has_side_effects(file.path)

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _bare(self, specifier: str, origin: NodeFile, *, require: bool) -> NodeFile | None:
        package = origin.package
        parts = specifier.split("/")
        count = 2 if specifier.startswith("@") else 1
        name, subpath = "/".join(parts[:count]), "/".join(parts[count:])
        if name == package.name and self._manifest(package, "").has_exports:  # it means itself
            return self.entry(package, subpath, require=require)
        key = package.dependencies.get(name) or self._undeclared(name)
        if key is not None:
            return self.entry(self._lock.npm(key), subpath, require=require)
        if is_node(specifier):
            text = f"the package {package.name} needs {specifier!r} of Node.js, which a browser does not have"
            raise PackageError(text, specifier)
        text = f"the package {package.name} imports {specifier!r}, which does not come with it: import that in the widget, too"
        raise PackageError(text, specifier)

    def _undeclared(self, name: str) -> str | None:
        """A package that forgot to say that it depends on another one finds it in `node_modules`, if there is one of that name."""
        keys = [key for key, package in self._reachable.items() if package.name == name]
        return keys[0] if len(keys) == 1 else None

    @functools.cached_property
    def _reachable(self) -> dict[str, NpmPackage]:
        return self._lock.reachable(self._roots)

    def _relative(self, specifier: str, origin: NodeFile, *, require: bool) -> NodeFile | None:
        package = origin.package
        joined = posixpath.join(posixpath.dirname(origin.path), specifier)
        if specifier.endswith(("/", "/.", "/..")) or specifier in (".", ".."):
            joined += "/"
        path = self._probed(package, inside(joined), require=require, folder=joined.endswith("/"))
        if path is None:
            raise PackageError(f"the package {package.name}@{package.version} has no file for {specifier!r}", specifier)
        return self._in_browsers(package, path, require=require)

    def _in_browsers(self, package: NpmPackage, path: str, *, require: bool) -> NodeFile | None:
        said = self._manifest(package, "").in_browsers(path)
        if said is False:
            return None
        if isinstance(said, str):
            if not said.startswith("."):
                said = f"./{said}"
            there = self._probed(package, inside(said), require=require)
            if there is None:
                raise PackageError(f"the package {package.name} has no file {said!r}, which it names for browsers")
            path = there
        return NodeFile(package, path)

    def _probed(self, package: NpmPackage, path: str, *, require: bool, folder: bool = False) -> str | None:
        """The file that a path without an extension means."""
        if path and not folder:
            found = next((path + end for end in _PROBED if self._is_file(package, path + end)), None)
            stem, end = posixpath.splitext(path)
            others = (stem + other for other in _TYPESCRIPT.get(end, ()))
            found = found or next((other for other in others if self._is_file(package, other)), None)
            if found is not None:
                return found
        if not self._files.is_directory(*self._parts(package, path)):
            return None
        for main in self._manifest(package, path).mains(require=require):
            there = inside(posixpath.join(path, main))
            for candidate in (*(there + end for end in _PROBED), *(posixpath.join(there, index) for index in _INDEXES)):
                if self._is_file(package, candidate):
                    return candidate
        indexes = (posixpath.join(path, index) for index in _INDEXES)
        return next((index for index in indexes if self._is_file(package, index)), None)

    def _manifest(self, package: NpmPackage, folder: str) -> Manifest:
        found = self._manifests.get((package.key, folder))
        if found is None:
            parts = self._parts(package, posixpath.join(folder, "package.json"))
            data = self._files.read(*parts, most=_MANIFEST_BYTES)
            if data is None and not folder:
                raise PackageError(f"the package {package.name}@{package.version} is not in the cache of packages")
            try:
                found = Manifest(json.loads(data or b"{}"))
            except (ValueError, RecursionError):
                raise PackageError(f"the package {package.name} has a package.json that is no JSON") from None
            self._manifests[package.key, folder] = found
        return found

    def _is_file(self, package: NpmPackage, path: str) -> bool:
        return bool(path) and self._files.is_file(*self._parts(package, path))

    def _parts(self, package: NpmPackage, path: str) -> tuple[str, ...]:
        below = path.split("/") if path else ()
        return ("npm", *self._registry, *_encoded(package.name), package.version, *below)


_REACT: Final = frozenset({"react", "react-dom"})


def _folder_of(registry: str) -> tuple[str, ...]:
    """Where Deno 2.9.8 keeps what came from a registry: its name, unless it is an address, its port and the parts of its path."""
    parts = urlsplit(registry)
    host = parts.hostname or ""
    try:
        ipaddress.ip_address(host)
        host = ""
    except ValueError:
        pass
    port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else str(parts.port)
    first = "_".join(part for part in (host, port) if part)
    return tuple(_BANNED.sub("_", part) for part in (first, *parts.path.split("/")) if part)


def _encoded(name: str) -> tuple[str, ...]:
    """Names with capitals are written in letters that no file system confuses (Deno 2.9.8)."""
    if name == name.lower():
        return tuple(name.split("/"))
    return (f"_{base64.b32encode(name.encode()).decode().rstrip('=').lower()}",)
