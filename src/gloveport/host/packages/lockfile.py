"""`deno.lock`: which package is which version, and what its dependencies are. (Format 5, as Deno 2.9.8 writes it.)"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from ...errors import PackageError
from .ranges import noted

__all__ = ("LockFile", "NpmPackage", "mapping")

_NAME: Final = re.compile(r"(?:@(?!\.)[A-Za-z0-9._~-]+/)?(?!\.)[A-Za-z0-9._~-]+")
_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+-]*")
_MOST_BYTES: Final = 32 * 1024 * 1024
_LISTS: Final = ("dependencies", "optionalDependencies", "optionalPeers")


@dataclasses.dataclass(frozen=True)
class NpmPackage:
    """One version of an npm package, with the ones that it was resolved with."""

    key: str
    """`name@version`, with what its peers came to: `name@1.0.0_react@19.0.0`."""
    name: str
    version: str
    dependencies: Mapping[str, str]
    """Names, as the package itself writes them, and keys."""
    integrity: str


class LockFile:
    """What a lock says. All of it came from registries: names and versions are checked before anything is made of them."""

    def __init__(self, content: object) -> None:
        whole = mapping(content)
        self.specifiers: Final = {key: text for key, text in mapping(whole.get("specifiers")).items() if _text(text)}
        self.redirects: Final = {key: text for key, text in mapping(whole.get("redirects")).items() if _text(text)}
        self.remote: Final = {key: text for key, text in mapping(whole.get("remote")).items() if _text(text)}
        self.jsr: Final = mapping(whole.get("jsr"))
        self._npm: Final = mapping(whole.get("npm"))

    @classmethod
    def read(cls, path: Path) -> LockFile:
        """Reads one; one that is not there holds nothing. Raises `PackageError`."""
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
            if len(data) > _MOST_BYTES:
                raise PackageError("the lock file of packages is too large")
            return cls(json.loads(data))
        except FileNotFoundError:
            return cls({})
        except (OSError, ValueError, RecursionError) as error:
            raise PackageError("the lock file of packages cannot be read") from error

    def npm_of(self, specifier: str) -> NpmPackage:
        """The package that `npm:name@range` came to. Raises `PackageError`."""
        version = noted(specifier, self.specifiers)
        name = specifier.removeprefix("npm:").rpartition("@")[0]
        if version is None:
            raise PackageError(f"{specifier.removesuffix('@*')} is not in the cache of packages", specifier)
        return self.npm(f"{name}@{version}")

    def npm(self, key: str) -> NpmPackage:
        """The package with a key. Raises `PackageError`."""
        found = self._packages.get(key)
        if found is None:
            found = self._packages[key] = self._package(key)
        return found

    @functools.cached_property
    def _packages(self) -> dict[str, NpmPackage]:
        return {}

    @functools.cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key in self._npm:
            found.setdefault(_split(key)[0], []).append(key)
        return found

    def _package(self, key: str) -> NpmPackage:
        entry = mapping(self._npm.get(key))
        name, identity = _split(key)
        version = identity.partition("_")[0]
        if key not in self._npm or not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
            raise PackageError(f"the lock file of packages has no entry {key!r}")
        dependencies: dict[str, str] = {}
        for kind in _LISTS:
            listed = entry.get(kind)
            for text in cast("list[object]", listed) if isinstance(listed, list) else ():
                if isinstance(text, str):
                    self._add(dependencies, text)
        integrity = entry.get("integrity")
        return NpmPackage(key, name, version, dependencies, integrity if isinstance(integrity, str) else "")

    def _add(self, dependencies: dict[str, str], text: str) -> None:
        """An entry is `name`, where the lock has one version of it, `name@version`, or `alias@npm:name@version`."""
        alias, _, rest = text.partition("@npm:")
        name, identity = _split(rest or text)
        keys = [f"{name}@{identity}"] if identity else self._by_name.get(name, [])
        if len(keys) == 1 and keys[0] in self._npm:  # one that is optional may not be there
            dependencies.setdefault(alias if rest else name, keys[0])

    def reachable(self, keys: Iterable[str]) -> dict[str, NpmPackage]:
        """These and all of their dependencies. Raises `PackageError`."""
        found: dict[str, NpmPackage] = {}
        left = list(keys)
        while left:
            key = left.pop()
            if key not in found:
                found[key] = self.npm(key)
                left += found[key].dependencies.values()
        return found

    def digest(self, npm: Iterable[str], others: Iterable[str]) -> str:
        """Names these npm packages with all of their dependencies, and everything else that is not npm when there are `others`."""
        packages = sorted((package.key, package.integrity) for package in self.reachable(npm).values())
        wanted = sorted(others)
        rest = [wanted, self.specifiers, self.redirects, self.remote, self.jsr, self._npm] if wanted else []
        return hashlib.sha256(json.dumps([packages, rest]).encode()).hexdigest()


def _split(text: str) -> tuple[str, str]:
    at = text.find("@", 1)
    return (text, "") if at < 0 else (text[:at], text[at + 1 :])


def _text(value: object) -> bool:
    return isinstance(value, str)


def mapping(value: object) -> dict[str, Any]:
    """A JSON object; anything else is an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
