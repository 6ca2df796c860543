"""What a module may import, as plain data that is checked once."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from .policy import MIB, check_count, check_seconds

__all__ = ("Packages",)

_DAY: Final = 86400.0
_ALLOW_RULE: Final = re.compile(
    r"(npm:(\*|(@[a-z0-9._~-]+/)?(\*|[A-Za-z0-9._~-]+))|jsr:(\*|@[a-z0-9-]+/(\*|[a-z0-9-]+)))"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Packages:
    """Which packages modules may import, and where they come from. Sizes are bytes, times seconds.

    A package that is allowed may have dependencies that are not named. Raises `ValueError` for what a rule cannot mean.
    """

    allow: tuple[str, ...] = ("npm:*", "jsr:*", "https://*")
    """`npm:name`, `npm:@scope/*`, `npm:*`, `jsr:@scope/name`, `jsr:@scope/*`, `jsr:*`; of module URLs a beginning that ends with a `/`:
    `https://esm.sh/`, or `https://*` for every public host. `http://` only where a rule names the host."""
    deny: tuple[str, ...] = ()
    """Wins over `allow`."""
    lock: str | None = None
    """A `deno.lock`: only what it holds is imported, in exactly those versions."""
    min_age: float = _DAY
    """How old a version of an npm or JSR package has to be, so that one which was taken over is noticed before it is used. 0: no matter."""
    max_bytes: int = 512 * MIB
    """What the cache of these packages may take on disk."""
    timeout: float = 120.0
    """Fetching what one module imports."""
    cache: str | None = None
    """A directory of its own for what is fetched; `None`: one in the user's cache. It can be copied to a machine without a network."""
    offline: bool = False
    """Nothing is fetched: only what `cache` holds."""
    npm_registry: str = "https://registry.npmjs.org/"
    jsr_registry: str = "https://jsr.io/"
    private: tuple[str, ...] = ()
    """Networks and addresses that are not public, and that registries and module hosts may have: `"10.1.0.0/16"`, `"127.0.0.1"`."""

    def __post_init__(self) -> None:
        for name in ("allow", "deny"):
            rules = _texts(name, getattr(self, name))
            for rule in rules:
                _check_rule(rule)
            object.__setattr__(self, name, rules)
        networks = (self.private,) if isinstance(self.private, str) else self.private
        object.__setattr__(self, "private", tuple(str(ipaddress.ip_network(network)) for network in networks))
        for name in ("lock", "cache"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else os.path.abspath(os.fspath(value)))
        for name in ("npm_registry", "jsr_registry"):
            _check_url(name, getattr(self, name))
            object.__setattr__(self, name, getattr(self, name).rstrip("/") + "/")
        check_count("max_bytes", self.max_bytes, least=1)
        check_seconds("timeout", self.timeout)
        if self.min_age != 0:
            check_seconds("min_age", self.min_age)


def _texts(name: str, given: Iterable[str] | str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise TypeError(f"`{name}` must be a list of rules, not the text {given!r}")
    return tuple(given)


def _check_rule(rule: object) -> None:
    if not isinstance(rule, str):
        raise TypeError(f"a package rule is a text, not {rule!r}")
    if rule == "https://*" or _ALLOW_RULE.fullmatch(rule):
        return
    if rule.startswith(("https://", "http://")):
        _check_url("the package rule", rule)
        if not rule.endswith("/"):
            raise ValueError(f"the package rule {rule!r} must end with a `/`: it means all URLs that begin so")
        return
    raise ValueError(
        f"the package rule {rule!r} cannot be read: write `npm:name`, `npm:@scope/*`, `jsr:@scope/name`, or a URL that ends with a `/`"
    )


def _check_url(name: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ValueError(f"{name} must be an http(s) URL without a user name and a query, not {url!r}")
