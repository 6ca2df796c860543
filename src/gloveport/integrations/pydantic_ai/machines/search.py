"""Searching in a workspace by `find` and `grep`, as every Linux has them, and reading what they print."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

__all__ = ("Pattern", "find_arguments", "grep_arguments", "inside", "lines_of_find", "lines_of_grep")


class Pattern:
    """A glob: `*` and `?` within a name, `[…]`, `{a,b}`, `**` over directories. Without a `/` it is for the name of a file alone.

    Raises `ValueError` for one that cannot be read.
    """

    def __init__(self, glob: str) -> None:
        self._whole = "/" in glob
        text = glob.removeprefix("./").lstrip("/") if self._whole else glob
        try:
            self._regex = re.compile("".join(_pieces(text)), re.DOTALL)
        except re.error as error:
            raise ValueError(f"the glob {glob!r} cannot be read: {error}") from None

    def fits(self, path: str) -> bool:
        """Whether a path, relative to where the search begins, fits."""
        return self._regex.fullmatch(path if self._whole else posixpath.basename(path)) is not None


_PIECE = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|\{[^{}]*\}|.", re.DOTALL)


def _pieces(glob: str) -> Iterator[str]:
    for piece in _PIECE.findall(glob):
        match piece[0]:
            case "*" if piece == "**/":
                yield "(?:[^/]+/)*"
            case "*":
                yield ".*" if piece == "**" else "[^/]*"
            case "?":
                yield "[^/]"
            case "[" if len(piece) > 1:
                yield "[" + ("^" if piece[1] == "!" else "") + piece[1 + (piece[1] == "!") :].replace("\\", r"\\")
            case "{" if len(piece) > 1:
                yield "(?:" + "|".join("".join(_pieces(part)) for part in piece[1:-1].split(",")) + ")"
            case _:
                yield re.escape(piece)


def inside(directory: str, arguments: list[str]) -> list[str]:
    """The same command in another directory (in Pydantic AI 2.62 `Workspace.run` takes no `cwd`)."""
    return ["sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh", directory, *arguments]


def find_arguments() -> list[str]:
    """For the files below the working directory, but hidden ones and what is in hidden directories."""
    return ["find", ".", "-name", ".?*", "-prune", "-o", "(", "-type", "f", "-o", "-type", "l", ")", "-print0"]


def lines_of_find(output: str, pattern: Pattern | None) -> list[str]:
    """The paths, sorted."""
    paths = (path.removeprefix("./") for path in output.split("\0") if path)
    return sorted(path for path in paths if pattern is None or pattern.fits(path))


def grep_arguments(pattern: str, name: str, *, ignore_case: bool, literal: bool, context: int) -> list[str]:
    """For all matches below a directory, or in one file. Names end in a NUL, so that any can be told from the text (`-Z`)."""
    how = ["-F" if literal else "-E", *(["-i"] if ignore_case else []), *(["-C", str(context)] if context else [])]
    hidden = [] if name != "." else ["-r", "--exclude=.?*", "--exclude-dir=.?*"]
    return ["grep", "-nHIZ", *how, *hidden, "-e", pattern, "--", name]


def lines_of_grep(output: str, pattern: Pattern | None) -> list[str]:
    """`path:number:text` of matches, `path-number-text` around them, `--` between places."""
    found = list[str]()
    for line in output.splitlines():
        path, zero, rest = line.partition("\0")
        path = path.removeprefix("./")
        if not zero:
            if line == "--" and found and found[-1] != "--":
                found.append(line)
            continue
        if pattern is None or pattern.fits(path):
            mark = re.match(r"[0-9]+([:-])", rest)
            found.append(f"{path}{mark[1] if mark else ':'}{rest}")
    while found and found[-1] == "--":
        found.pop()
    return found
