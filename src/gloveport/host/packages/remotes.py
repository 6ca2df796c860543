"""Modules by their URLs, and JSR packages, in a cache: files named by a hash of their path, with their headers after the text.

That form is Deno's own (2.9.8). So nothing is taken at its word: a text counts only if it has the hash that the lock, or the manifest of
its JSR package, says.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from ...egress.urls import DEFAULT_PORTS
from ...errors import PackageError
from .files import CacheFiles
from .lockfile import LockFile, mapping
from .manifest import inside

__all__ = ("RemoteFile", "RemoteFiles", "loader_of")

_METADATA: Final = b"\n// denoCacheMetadata="
_META_BYTES: Final = 8 * 1024 * 1024
_HEADERS_BYTES: Final = 64 * 1024
_REDIRECTS: Final = 10
_URL: Final = re.compile(r"https?://[!-~]+")
_LOADERS: Final = {
    **dict.fromkeys(("js", "mjs", "cjs"), "js"),
    **dict.fromkeys(("ts", "mts", "cts"), "ts"),
    **{end: end for end in ("jsx", "tsx", "json", "css")},
    **dict.fromkeys(("txt", "md"), "text"),
}
_TYPES: Final = {
    **{f"{kind}/{script}": "js" for kind in ("application", "text") for script in ("javascript", "ecmascript")},
    **{f"{kind}/{script}": "ts" for kind in ("application", "text", "video") for script in ("typescript", "mp2t")},
    "text/jsx": "jsx",
    "text/tsx": "tsx",
    "application/json": "json",
    "text/json": "json",
    "text/css": "css",
}


def loader_of(path: str) -> str | None:
    """How a file is read, by the end of its name; `None`: it is nothing that can be imported."""
    return _LOADERS.get(posixpath.splitext(path)[1][1:].lower())


class RemoteFile(NamedTuple):
    """A module and how it is read."""

    url: str
    data: bytes
    loader: str | None


class RemoteFiles:
    """The modules of one lock and cache."""

    def __init__(self, files: CacheFiles, lock: LockFile, jsr_registry: str) -> None:
        self._files = files
        self._lock = lock
        self._jsr = jsr_registry if jsr_registry.endswith("/") else f"{jsr_registry}/"
        self._checksums: dict[str, dict[str, Any]] = {}

    def module(self, url: str, most: int) -> RemoteFile:
        """The module with a URL, after redirects. Raises `PackageError`."""
        for _ in range(_REDIRECTS):
            url = self._lock.redirects.get(url, url)
            data, headers = self._cached(url, most)
            if "location" not in headers:
                break
            url = _joined(url, str(headers["location"]))
        else:
            raise PackageError(f"{url} is redirected too often", url)
        if hashlib.sha256(data).hexdigest() != self._expected(url):
            raise PackageError(f"{url} is not what the lock file of packages says", url)
        kind = str(headers.get("content-type", "")).partition(";")[0].strip().lower()
        path = urlsplit(url).path
        return RemoteFile(url, data, loader_of(path) or _TYPES.get(kind))

    def imported(self, specifier: str, url: str) -> str:
        """What a module at a URL imports, as a URL, or with `npm:` or `jsr:`. Raises `PackageError`."""
        if specifier.startswith(("npm:", "jsr:")):
            return specifier
        if specifier.startswith(("./", "../", "/", "https://", "http://")):
            return _joined(url, specifier)
        raise PackageError(f"{url} imports {specifier!r}, which a page in a browser does not have", specifier)

    def exported(self, package: str, subpath: str) -> str:
        """The URL of what a JSR package (`@scope/name@version`) exports as `subpath`. Raises `PackageError`."""
        exports = mapping(self._version(package).get("exports"))
        found = exports.get(f"./{subpath}" if subpath else ".")
        if not isinstance(found, str):
            what = f"jsr:{package}/{subpath}" if subpath else f"jsr:{package}"
            raise PackageError(f"the package {package} does not export {what!r}", what)
        return f"{self._jsr}{_folder(package)}/{inside(found)}"

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _expected(self, url: str) -> str | None:
        known = self._lock.remote.get(url)
        if known is not None or not url.startswith(self._jsr):
            return known
        match = re.fullmatch(r"(@[a-z0-9-]+/[a-z0-9-]+)/([0-9A-Za-z.+-]+)(/.+)", url[len(self._jsr) :])
        if match is None:
            return None
        listed = mapping(self._version(f"{match[1]}@{match[2]}").get("manifest"))
        checksum = mapping(listed.get(match[3])).get("checksum")
        return checksum.removeprefix("sha256-") if isinstance(checksum, str) else None

    def _version(self, package: str) -> dict[str, Any]:
        """What the registry says of a version, if it is what the lock says."""
        found = self._checksums.get(package)
        if found is None:
            data, _ = self._cached(f"{self._jsr}{_folder(package)}_meta.json", _META_BYTES)
            if hashlib.sha256(data).hexdigest() != mapping(self._lock.jsr.get(package)).get("integrity"):
                raise PackageError(f"jsr:{package} is not what the lock file of packages says")
            found = self._checksums[package] = _json(data)
        return found

    def _cached(self, url: str, most: int) -> tuple[bytes, dict[str, Any]]:
        parts = urlsplit(url)
        port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else f"_port_{parts.port}"
        asked = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        name = hashlib.sha256(asked.encode()).hexdigest()
        whole = self._files.read("remote", parts.scheme, f"{parts.hostname}{port}", name, most=most + _HEADERS_BYTES)
        if whole is None:
            raise PackageError(f"{url} is not in the cache of packages", url)
        data, mark, headers = whole.rpartition(_METADATA)
        if not mark:
            raise PackageError(f"{url} is in the cache of packages in a form that is not known", url)
        if len(data) > most:
            raise PackageError(f"{url} has more than the {most} bytes that one file of a package may have", url)
        return data, mapping(_json(headers).get("headers"))


def _joined(base: str, reference: str) -> str:
    try:
        found = urljoin(base, reference)
        _ = urlsplit(found).port
    except ValueError:
        found = ""
    if not _URL.fullmatch(found):
        raise PackageError(f"{base} leads to {reference!r}, which is no URL", reference)
    return found


def _folder(package: str) -> str:
    name, _, version = package.rpartition("@")
    return f"{name}/{version}"


def _json(data: bytes) -> dict[str, Any]:
    try:
        return mapping(json.loads(data))
    except (ValueError, RecursionError):
        raise PackageError("a file in the cache of packages is no JSON") from None
