"""`package.json`, as Node.js and the bundlers for browsers read it.

`exports` and `imports` are those of Node.js ("Modules: packages", nodejs.org, version 24); `browser` is the package browser field
specification that the bundlers share; `module` and `sideEffects` are what webpack, Rollup and esbuild made of them.
"""

from __future__ import annotations

import fnmatch
import posixpath
from typing import Any, Final, Literal, cast

from ...errors import PackageError
from .lockfile import mapping

__all__ = ("Manifest", "inside")

CONDITIONS: Final = frozenset({"browser", "module", "default"})
_MOST_DEPTH: Final = 20
_MOST_PATH: Final = 1000
_MOST_PATTERNS: Final = 100
_EXTENSIONS: Final = (".js", ".mjs", ".cjs", ".json", ".jsx", ".ts", ".tsx", "/index.js", "/index.mjs", "/index.cjs")


class Manifest:
    """What a `package.json` says. Its author may be hostile: anything that is not of the form it should have is not there."""

    def __init__(self, content: object) -> None:
        self._content: Final = mapping(content)
        self.name: Final = self._content.get("name")
        browser = self._content.get("browser")
        self.browser: Final = mapping(browser)
        """What is something else in browsers: `./file` or a package, and what it is, or `False`: an empty module."""
        self._browser_main: Final = browser if isinstance(browser, str) else None
        self._exports: Final = self._content.get("exports")

    @property
    def has_exports(self) -> bool:
        """Whether it says what may be imported."""
        return self._exports is not None

    def mains(self, *, require: bool) -> list[str]:
        """Paths that the package itself may be, the best first; without an extension, perhaps."""
        fields = (self._content.get("module"), self._content.get("main"))
        chosen = (self._browser_main, *(reversed(fields) if require else fields))
        return [text for text in chosen if isinstance(text, str) and text]

    def exported(self, subpath: str, *, require: bool) -> str:
        """The path of `exports` for `.` or `./subpath`. Raises `PackageError`: there is none."""
        exports = self._exports
        table = mapping(exports)
        if not table or not all(key.startswith(".") for key in table):
            table = {".": exports}
        found = _matched(subpath, table, _conditions(require=require))
        if found is None or not found.startswith("./"):
            shown = f"{self.name}{subpath[1:]}"
            raise PackageError(f"the package {self.name} does not export {shown!r} to browsers", shown)
        return _target(found)

    def imported(self, specifier: str, *, require: bool) -> str:
        """What `#name` is: a path `./file` of the package, or another package. Raises `PackageError`."""
        found = _matched(specifier, mapping(self._content.get("imports")), _conditions(require=require))
        if found is None or specifier in ("#", "#/") or found.startswith(("../", "/", "#")):
            raise PackageError(f"the package {self.name} has nothing for its import of {specifier!r}", specifier)
        return f"./{_target(found)}" if found.startswith("./") else found

    def in_browsers(self, path: str) -> str | bool | None:
        """What the `browser` field has in place of a file of the package; `None`: nothing."""
        if not self.browser:
            return None
        bare = [path.removesuffix(extension) for extension in _EXTENSIONS if path.endswith(extension)]
        for key in (path, *bare):
            for written in (f"./{key}", key) if "/" in key or "." in key else (f"./{key}",):
                found = self.browser.get(written)
                if found is False or isinstance(found, str):
                    return found
        return None

    def has_side_effects(self, path: str) -> bool:
        """Whether a file has to be there even if nothing of it is used."""
        said = self._content.get("sideEffects")
        if isinstance(said, bool):
            return said
        if not isinstance(said, list) or len(cast("list[object]", said)) > _MOST_PATTERNS:
            return True
        return any(_matches(path, pattern) for pattern in cast("list[object]", said))


def inside(path: str) -> str:
    """A path below the package, in its plain form. Raises `PackageError` for one that leads elsewhere or hides where it leads."""
    if "%" in path or "\\" in path or "\0" in path or path.startswith("/"):
        raise PackageError(f"{path!r} is no path of a file of a package")
    plain = posixpath.normpath(path)
    if plain == ".." or plain.startswith("../"):
        raise PackageError(f"{path!r} leads out of its package")
    return "" if plain == "." else plain


def _conditions(*, require: bool) -> frozenset[str]:
    return CONDITIONS | {"require" if require else "import"}


def _target(text: str) -> str:
    parts = text[2:].split("/")
    if any(part.lower() in ("", ".", "..", "node_modules") for part in parts) or "%" in text or "\\" in text:
        raise PackageError(f"{text!r} is no path of a file of a package")
    return "/".join(parts)


def _matched(wanted: str, table: dict[str, Any], conditions: frozenset[str]) -> str | None:
    """PACKAGE_IMPORTS_EXPORTS_RESOLVE: the exact entry, or the one with the longest text before its `*`. (A key that ends with `/` is
    an older form, which bundlers still know.)"""
    if wanted in table and "*" not in wanted:
        return _chosen(table[wanted], "", conditions, 0) or None
    best: tuple[int, int, str, str] | None = None
    for key in table:
        head, star, tail = (key, "*", "") if key.endswith("/") else key.partition("*")
        fits = star and wanted.startswith(head) and wanted.endswith(tail) and len(wanted) > len(head) + len(tail)
        if fits and (best is None or (len(head), len(key)) > best[:2]):
            best = len(head), len(key), key, wanted[len(head) : len(wanted) - len(tail)]
    if best is None:
        return None
    _, _, key, middle = best
    found = _chosen(table[key], middle, conditions, 0) or None
    return f"{found}{middle}" if found is not None and key.endswith("/") else found


def _chosen(target: object, middle: str, conditions: frozenset[str], depth: int) -> str | Literal[False] | None:
    """PACKAGE_TARGET_RESOLVE. `False` is its `null`, which forbids; `None` its `undefined`, after which the next one is tried."""
    if target is None or depth > _MOST_DEPTH:
        return False
    if isinstance(target, str):
        if len(target) > _MOST_PATH:  # it may be all stars, each of which becomes as long as the import
            return False
        return target.replace("*", middle) if middle else target
    if isinstance(target, list):
        for each in cast("list[object]", target):
            found = _chosen(each, middle, conditions, depth + 1)
            if found:
                return found
        return None
    for condition, each in mapping(target).items():
        found = _chosen(each, middle, conditions, depth + 1) if condition in conditions else None
        if found is not None:
            return found
    return None


def _matches(path: str, pattern: object) -> bool:
    """As generous as can be: what is kept without need is only large."""
    if not isinstance(pattern, str) or "{" in pattern or "!" in pattern or len(pattern) > 500:
        return True
    plain = pattern.removeprefix("./").removeprefix("**/")
    return fnmatch.fnmatchcase(path, plain) or fnmatch.fnmatchcase(path, f"*/{plain}")
