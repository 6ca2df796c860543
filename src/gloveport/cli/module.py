"""`gloveport run` for modules: code with `import` or `export`, and TSX."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import Any

import anyio

from ..host.modules.result import ModuleResult
from ..host.modules.session import TypeScriptSandboxSession
from ..policy import MIB
from . import EXIT_CODE, EXIT_HOST, EXIT_LIMIT, EXIT_OK, EXIT_USAGE
from .telling import as_json

__all__ = ("arguments", "run_module")

_LIMITS = {"timeout", "memory"}


def arguments(verb: argparse.ArgumentParser) -> None:
    """What only modules have."""
    group = verb.add_argument_group("modules", "code with import or export, and .tsx files")
    group.add_argument("--allow-packages", action="store_true", help="npm, JSR and https imports")
    group.add_argument(
        "--allow-net", nargs="*", metavar="HOST", help="network: these hosts, or every public one when none is named"
    )
    group.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a named input, given to the exported function",
    )


def run_module(code: str, options: argparse.Namespace) -> int:
    """Run a module in a session of its own, and print what came of it."""
    try:
        inputs = dict(_input(text) for text in options.input)
        session = TypeScriptSandboxSession(
            allow_package_imports=options.allow_packages,
            allow_network=False if options.allow_net is None else options.allow_net or True,
            max_memory_mb=max(1, options.max_memory // MIB),
            sandbox=options.sandbox,
        )
    except (TypeError, ValueError) as error:
        print(f"gloveport: {error}", file=sys.stderr)
        return EXIT_USAGE
    result = anyio.run(_run, session, code, inputs, options)
    if options.json:
        print(as_json(dataclasses.asdict(result)))
    else:
        _show(result)
    if result.ok:
        return EXIT_OK
    if result.exit_reason in _LIMITS or result.error_type == "ResultTooLarge":
        return EXIT_LIMIT
    return EXIT_HOST if result.exit_reason == "crashed" else EXIT_CODE


async def _run(
    session: TypeScriptSandboxSession, code: str, inputs: dict[str, Any], options: argparse.Namespace
) -> ModuleResult:
    async with session:
        return await session.run_module(
            code, inputs=inputs or None, timeout=options.timeout, max_output_bytes=options.max_result
        )


def _input(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"--input takes NAME=JSON, not {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        raise ValueError(f"--input {name}: {value!r} is not JSON; write texts as {name}='\"text\"'") from None


def _show(result: ModuleResult) -> None:
    sys.stderr.write(result.stdout + result.stderr)
    if result.ok:
        print(as_json(result.value, indent=2))
    else:
        print(result.error, file=sys.stderr)
