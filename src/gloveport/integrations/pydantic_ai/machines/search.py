"""Searching in a workspace by `find` and `grep`, as every Linux has them, and reading what they print."""

from __future__ import annotations

import posixpath
import re
from typing import Final

__all__ = ("Pattern", "find_arguments", "grep_arguments", "inside", "lines_of_find", "lines_of_grep")


_MOST: Final = 64
"""Alternatives of `{a,b}` that one glob may have."""
_PIECE: Final = re.compile(r"\*+|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)
_BRACES: Final = re.compile(r"\{([^{}]*,[^{}]*)\}")


class Pattern:
    """A glob: `*` and `?` within a name, `[…]`, `{a,b}`, `**` over directories. Without a `/` it is for the name of a file alone.

    A model wrote it, for paths that a model made: whatever it is, matching takes no more than linear time in each part of a path.
    Raises `ValueError` for one that cannot be read.
    """

    def __init__(self, glob: str) -> None:
        self._whole = "/" in glob
        text = glob.removeprefix("./").lstrip("/") if self._whole else glob
        try:
            self._regexes = [re.compile(_translated(one), re.DOTALL) for one in _expanded(text)]
        except re.error as error:
            raise ValueError(f"the glob {glob!r} cannot be read: {error}") from None

    def fits(self, path: str) -> bool:
        """Whether a path, relative to where the search begins, fits."""
        text = path if self._whole else posixpath.basename(path)
        return any(regex.fullmatch(text) for regex in self._regexes)


def _expanded(glob: str) -> list[str]:
    done, open_ones = list[str](), [glob]
    while open_ones:
        one = open_ones.pop()
        found = _BRACES.search(one)
        if found is None:
            done.append(one)
        else:
            open_ones += [one[: found.start()] + part + one[found.end() :] for part in found[1].split(",")]
        if len(done) + len(open_ones) > _MOST:
            raise ValueError(f"the glob has more than {_MOST} alternatives")
    return done


def _translated(glob: str) -> str:
    """What is between two `**` is looked for where it comes first: that is as good as any later place, so nothing is tried twice
    (atomic groups, as in `fnmatch.translate`)."""
    groups: list[list[str]] = [[]]
    for name in glob.split("/"):
        if name == "**":
            groups.append([])
        else:
            groups[-1].append(_name(name))
    first, *others = ["/".join(group) for group in groups]
    if not others:
        return first
    *middle, last = others
    head = f"{first}/" if first else ""
    return (
        head + "".join(f"(?>(?:[^/]+/)*?{one}/)" for one in middle if one) + (f"(?:[^/]+/)*?{last}" if last else ".+")
    )


def _name(glob: str) -> str:
    chunks = [""]
    for piece in _PIECE.findall(glob):
        match piece[0]:
            case "*":
                chunks.append("")
            case "?":
                chunks[-1] += "[^/]"
            case "[" if len(piece) > 1:
                inner = piece[1:-1].replace("\\", r"\\")
                chunks[-1] += "(?!/)[" + ("^" + inner[1:] if inner[0] == "!" else inner) + "]"
            case _:
                chunks[-1] += re.escape(piece)
    first, *others = chunks
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>[^/]*?{chunk})" for chunk in middle if chunk) + f"[^/]*{last}"


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
