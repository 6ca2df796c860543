"""`gloveport run`: one piece of code in a fresh session, or a module."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, get_args

from ..host.checking import TypeCheck
from ..policy import EngineName, Isolation, Limits, SandboxMode
from . import EXIT_CODE, EXIT_HOST, EXIT_LIMIT, EXIT_OK, EXIT_USAGE
from . import module as modules
from .telling import as_json

__all__ = ("arguments", "run")

_LIMIT_ERRORS = {"RuntimeTimeout", "MemoryLimitExceeded", "ResultTooLarge"}
_HOST_ERRORS = {"WorkerCrashed", "RunCancelled"}
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def arguments(verb: argparse.ArgumentParser) -> None:
    """Its command line."""
    defaults = Limits()
    what = verb.add_mutually_exclusive_group(required=True)
    what.add_argument("-c", "--code", help="the code itself")
    what.add_argument("file", nargs="?", help="a file with the code, or - for standard input")
    verb.add_argument("--json", action="store_true", help="print the whole result as JSON")
    verb.add_argument(
        "--timeout",
        type=float,
        default=defaults.timeout,
        metavar="SECONDS",
        help="computing time (default %(default)g)",
    )
    verb.add_argument(
        "--max-memory", type=size, default=defaults.max_memory, metavar="SIZE", help="guest memory (default 256M)"
    )
    verb.add_argument(
        "--max-output", type=size, default=defaults.max_output_bytes, metavar="SIZE", help="of stdout and stderr each"
    )
    verb.add_argument(
        "--max-result", type=size, default=defaults.max_result_bytes, metavar="SIZE", help="of the result as JSON"
    )
    verb.add_argument("--seed", type=int, help="of Math.random")
    verb.add_argument("--clock", type=float, metavar="EPOCH", help="where the clock begins, in epoch seconds")
    verb.add_argument("--engine", choices=get_args(EngineName), default="wasm", help="what executes the code")
    verb.add_argument("--isolation", choices=get_args(Isolation), default="process")
    verb.add_argument(
        "--typecheck", choices=get_args(TypeCheck), default="off", help="what to do about types that do not fit"
    )
    verb.add_argument("--sandbox", choices=get_args(SandboxMode), default="require")
    modules.arguments(verb)


def size(text: str) -> int:
    """Bytes of `64K`, `1M`, `2g` or a plain number."""
    unit = text[-1:].lower() if text[-1:].isalpha() else ""
    try:
        return int(text[: len(text) - len(unit)]) * _UNITS[unit]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write a number, with K, M or G") from None


def run(options: argparse.Namespace) -> int:
    """Run it. The result goes to stdout as JSON, the guest's own stdout and stderr to stderr."""
    try:
        code = _code(options)
    except (OSError, UnicodeDecodeError) as error:
        print(f"gloveport: cannot read the code: {error}", file=sys.stderr)
        return EXIT_USAGE
    from ..engines.defaults import toolbox
    from ..host.sync import AgentSandbox

    if str(options.file).endswith((".tsx", ".jsx")) or toolbox(options.sandbox).module_kind(code) == "module":
        return modules.run_module(code, options)
    try:
        session = AgentSandbox(
            {},
            timeout=options.timeout,
            max_memory=options.max_memory,
            max_output_bytes=options.max_output,
            max_result_bytes=options.max_result,
            random_seed=options.seed,
            clock=options.clock,
            engine=options.engine,
            isolation=options.isolation,
            sandbox=options.sandbox,
            typecheck=options.typecheck,
        )
    except (TypeError, ValueError) as error:
        print(f"gloveport: {error}", file=sys.stderr)
        return EXIT_USAGE
    with session:
        result = session.execute(code)
    if options.json:
        print(as_json(result.to_dict()))
    else:
        _show(result)
    if result.ok:
        return EXIT_OK
    if result.error_type in _LIMIT_ERRORS:
        return EXIT_LIMIT
    return EXIT_HOST if result.error_type in _HOST_ERRORS else EXIT_CODE


def _code(options: argparse.Namespace) -> str:
    if options.code is not None:
        return options.code
    if options.file == "-":
        return sys.stdin.read()
    return Path(options.file).read_text("utf-8")


def _show(result: Any) -> None:
    if result.error_type != "TypeCheckError":  # which lists them itself
        for problem in result.problems:
            print(f"gloveport: {problem}", file=sys.stderr)
    sys.stderr.write(result.stdout + result.stderr)
    if result.ok:
        print(as_json(result.result, indent=2))
        return
    where = f" (line {result.line}, column {result.column})" if result.line else ""
    print(f"{result.error}{where}", file=sys.stderr)
