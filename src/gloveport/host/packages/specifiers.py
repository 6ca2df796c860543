"""Import specifiers: what they name, and whether that is allowed."""

from __future__ import annotations

import functools
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from ...egress.urls import DEFAULT_PORTS
from ...errors import PackageError
from ...permissions import Packages
from ...policy import host_name

__all__ = ("is_node", "is_package", "root_of")

_BUNDLED: Final = frozenset({"react", "react-dom"})
_NODE: Final = frozenset(
    (
        *("assert", "async_hooks", "buffer", "child_process", "cluster", "console", "constants", "crypto", "dgram"),
        *(
            "diagnostics_channel",
            "dns",
            "domain",
            "events",
            "fs",
            "http",
            "http2",
            "https",
            "inspector",
            "module",
            "net",
        ),
        *("os", "path", "perf_hooks", "process", "punycode", "querystring", "readline", "repl", "stream"),
        *("string_decoder", "sys", "test", "timers", "tls", "trace_events", "tty", "url", "util", "v8", "vm", "wasi"),
        *("worker_threads", "zlib"),
    )
)
"""Node's own modules, which Deno has under their bare names, too (Deno 2.9.8, `builtinModules`)."""


def is_package(specifier: str) -> bool:
    """Whether a specifier names something that has to be fetched: not what a worker has by itself, nor its workspace."""
    if specifier.startswith((".", "/", "file:", "data:", "blob:", "node:")):
        return False
    first = specifier.partition("/")[0]
    return first not in _NODE and first not in _BUNDLED


def is_node(specifier: str) -> bool:
    """Whether it names a module of Node.js."""
    return specifier.startswith("node:") or specifier.partition("/")[0] in _NODE


_NPM: Final = re.compile(
    r"(?P<name>(?:@[a-z0-9._~-]+/)?[A-Za-z0-9._~-]+)(?:@(?P<range>[0-9A-Za-z.*^~<>=|+_ -]+))?(?P<path>/[A-Za-z0-9@._~!$&'()+,;=/-]*)?"
)
_JSR: Final = re.compile(
    r"(?P<name>@[a-z0-9-]+/[a-z0-9-]+)(?:@(?P<range>[0-9A-Za-z.*^~<>=|+_ -]+))?(?P<path>/[A-Za-z0-9@._~+/-]*)?"
)
_URL: Final = re.compile(r"https?://[!-~]+")
_MOST: Final = 2000


def root_of(specifier: str, packages: Packages) -> str:
    """What a specifier of a module's source means: an `npm:`, `jsr:` or http(s) URL. Raises `PackageError` for the model to read.

    A bare name is an npm package (`lodash`, `@scope/name/part`).
    """
    if len(specifier) > _MOST:
        raise PackageError(f"an import specifier of {len(specifier)} characters is too long")
    scheme, colon, rest = specifier.partition(":")
    if not colon:
        return _package("npm", specifier, specifier, _NPM, packages)
    if scheme == "npm":
        return _package("npm", rest.removeprefix("/"), specifier, _NPM, packages)
    if scheme == "jsr":
        return _package("jsr", rest.removeprefix("/"), specifier, _JSR, packages)
    if scheme in ("http", "https"):
        return _url(specifier, packages)
    raise PackageError(
        f"cannot import {specifier!r}: only npm packages, `jsr:` packages and https modules can be imported", specifier
    )


def _package(kind: str, text: str, specifier: str, shape: re.Pattern[str], packages: Packages) -> str:
    match = shape.fullmatch(text)
    name = "" if match is None else match["name"]
    if match is None or any(part in ("", ".", "..") for part in (match["path"] or "/x")[1:].rstrip("/").split("/")):
        raise PackageError(
            f"cannot import {specifier!r}: that is no {kind} package; write `{kind}:name@version`", specifier
        )
    if not _is_allowed(f"{kind}:{name}", packages):
        raise PackageError(
            f"cannot import {specifier!r}: {kind}:{name} is not among the packages that may be imported", specifier
        )
    wanted = f"@{match['range']}" if match["range"] else ""
    return f"{kind}:{name}{wanted}{match['path'] or ''}"


def _is_allowed(package: str, packages: Packages) -> bool:
    kind, _, name = package.partition(":")
    scope = name.partition("/")[0]
    rules = {package, f"{kind}:*", f"{kind}:{scope}/*"}
    return not rules.isdisjoint(packages.allow) and rules.isdisjoint(packages.deny)


def _url(url: str, packages: Packages) -> str:
    # A URL is fetched by the host. What a module could write into a query, a fragment or a user name would leave with it.
    parts = _split(url)
    if (
        parts is None
        or "\\" in url
        or parts.username is not None
        or parts.query
        or parts.fragment
        or url.endswith(("?", "#"))
    ):
        raise PackageError(
            f"cannot import {url!r}: a module URL has a plain host, no query, no fragment and no user name", url
        )
    if re.search(r"/\.\.?(/|$)|%(2e|2f|5c)|//", parts.path, re.IGNORECASE):
        raise PackageError(f"cannot import {url!r}: write the path of a module URL without `..`, `//` and escapes", url)
    plain = _plain(parts)
    if not _begins(plain, packages.allow) or _begins(plain, packages.deny):
        raise PackageError(f"cannot import {url!r}: no rule allows it", url)
    return plain


def _split(url: str) -> SplitResult | None:
    """Nothing: it is no URL, or one whose host or port has several readings."""
    try:
        parts = urlsplit(url) if _URL.fullmatch(url) else None
        if parts is not None:
            _plain(parts)
    except ValueError:
        return None
    return parts


def _plain(parts: SplitResult) -> str:
    """Its one spelling, by which rules are compared. Raises `ValueError`."""
    host = host_name(parts.hostname or "")
    port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path or '/'}"


@functools.lru_cache(maxsize=1024)
def _rule(rule: str) -> str:
    """How the URLs begin that it means."""
    if rule == "https://*":
        return "https://"
    return _plain(urlsplit(rule)) if rule.startswith(("https://", "http://")) else rule


def _begins(url: str, rules: tuple[str, ...]) -> bool:
    return any(url.startswith(_rule(rule)) for rule in rules)
