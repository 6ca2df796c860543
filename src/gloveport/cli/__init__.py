"""The `gloveport` command. Each verb is a module of its own, imported when it is used.

Exit codes are stable:

| code | meaning |
|---|---|
| 0 | it worked |
| 1 | the code threw, does not compile, or its types do not fit; or a bar of the bench was missed |
| 2 | wrong usage |
| 3 | a limit: time, memory, size of the result |
| 4 | the jail is not complete here (`gloveport doctor` says why) |
| 5 | anything else went wrong on this side |
| 130 | interrupted |
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from .._version import __version__
from .telling import print_anything

__all__ = ("EXIT_CODE", "EXIT_HOST", "EXIT_LIMIT", "EXIT_OK", "EXIT_SANDBOX", "EXIT_USAGE", "main", "parser")

EXIT_OK, EXIT_CODE, EXIT_USAGE, EXIT_LIMIT, EXIT_SANDBOX, EXIT_HOST = range(6)

_VERBS = {
    "run": "run JavaScript or TypeScript in a sandbox",
    "render": "make a page of a React component",
    "sandbox": "make, use and delete machines: isolated Linux with a shell and files",
    "sessions": "list and show stored sessions",
    "demo": "a session that pauses, is restored in a fresh process, and forked",
    "install": "fetch an optional part: the type checker",
    "doctor": "what of the jail works on this machine, and what to do about the rest",
    "bench": "measure, and compare with the promises",
    "prune": "remove caches that are no longer used",
}


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="gloveport", description="Runs what an AI agent writes, where it can do no harm."
    )
    top.add_argument("--version", action="version", version=f"gloveport {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, text in _VERBS.items():
        verb = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        importlib.import_module(f"{__name__}.{name}").arguments(verb)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Gives the exit code."""
    print_anything()
    options = parser().parse_args(argv)
    from ..errors import GloveportError, SandboxUnavailableError

    try:
        return importlib.import_module(f"{__name__}.{options.verb}").run(options)
    except SandboxUnavailableError as error:
        return _say(error, EXIT_SANDBOX)
    except GloveportError as error:
        return _say(error, EXIT_HOST)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader went away: nobody is there to be told
        sys.stderr.close()
        return EXIT_HOST


def _say(error: Exception, code: int) -> int:
    print(f"gloveport: {type(error).__name__}: {error}", file=sys.stderr)
    return code
