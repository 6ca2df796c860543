"""`gloveport render`: a page of a React component."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import get_args

from ..policy import DEFAULT_TIMEOUT, SandboxMode
from . import EXIT_CODE, EXIT_HOST, EXIT_LIMIT, EXIT_OK, EXIT_USAGE
from .telling import as_json

__all__ = ("arguments", "run")


def arguments(verb: argparse.ArgumentParser) -> None:
    """Its command line."""
    verb.add_argument("file", help="a module that exports the component as its default, or - for standard input")
    verb.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="where the page goes, or - for standard output"
    )
    verb.add_argument("--tailwind", action="store_true", help="with Tailwind CSS")
    verb.add_argument(
        "--css", metavar="FILE", help="a style sheet for the page, with Tailwind's directives under --tailwind"
    )
    verb.add_argument("--allow-packages", action="store_true", help="npm, JSR and https imports")
    verb.add_argument("--title", help="of the page (default: the component's name)")
    verb.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT, metavar="SECONDS", help="(default %(default)g)")
    verb.add_argument("--json", action="store_true", help="print what is known of the page as JSON")
    verb.add_argument("--sandbox", choices=get_args(SandboxMode), default="require")


def run(options: argparse.Namespace) -> int:
    """Render it. Warnings go to stderr."""
    try:
        source = sys.stdin.read() if options.file == "-" else Path(options.file).read_text("utf-8")
        css = Path(options.css).read_text("utf-8") if options.css else ""
    except (OSError, UnicodeDecodeError) as error:
        return _say(f"cannot read the code: {error}", EXIT_USAGE)
    import anyio

    from ..errors import TypeScriptSandboxTimeoutError, WidgetError
    from ..host.packages.resolver import resolver_for
    from ..host.widgets.packages import packages_of
    from ..host.widgets.render import render
    from ..permissions import Packages

    async def rendered():
        hook = None
        if options.allow_packages:
            hook = await packages_of(source, resolver_for(Packages()), options.sandbox)
        return await render(
            source,
            packages_hook=hook,
            plugins=["npm:@tailwindcss/vite@latest"] if options.tailwind else [],
            css=css,
            title=options.title,
            timeout=options.timeout,
            sandbox=options.sandbox,
        )

    try:
        widget = anyio.run(rendered)
    except (TypeError, ValueError) as error:
        return _say(str(error), EXIT_USAGE)
    except TypeScriptSandboxTimeoutError as error:
        return _say(str(error), EXIT_LIMIT)
    except WidgetError as error:
        return _say(str(error), EXIT_LIMIT if error.stage == "memory" else EXIT_CODE)
    for warning in widget.warnings:
        _say(f"warning: {warning}", EXIT_OK)
    if options.output == "-":
        sys.stdout.write(widget.html)
        return EXIT_OK
    try:
        path = widget.save(options.output)
    except OSError as error:
        return _say(f"cannot write the page: {error}", EXIT_HOST)
    if options.json:
        told = {
            "artifact_id": widget.artifact_id,
            "title": widget.title,
            "bytes": widget.bytes,
            "warnings": widget.warnings,
        }
        print(as_json({**told, "path": str(path)}))
    return EXIT_OK


def _say(text: str, code: int) -> int:
    print(f"gloveport: {text}", file=sys.stderr)
    return code
