"""The real TypeScript compiler, and json-schema-to-typescript, through deno's npm client."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import deno
import pytest

_PROGRAM = Path(__file__).with_suffix(".mjs")
_ALLOWED = ("--allow-read", "--allow-env", "--allow-sys")


@functools.cache
def _fetched() -> str | None:
    """Fetches the packages into deno's cache, once; why not, if it cannot."""
    command = [deno.find_deno_bin(), "cache", "--no-config", "--no-lock", "--quiet", str(_PROGRAM)]
    environment = {"DENO_TLS_CA_STORE": "system,mozilla", **os.environ}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100, check=False)
    return done.stderr[-300:] if done.returncode else None


def diagnostics(files: Mapping[str, str], schemas: Sequence[Any] = ()) -> dict[str, list[tuple[int, str]]]:
    """What `tsc --strict` says: line and text per file. `/v/oracle<i>.ts` exports `Root`, whose `it` is the type of schema i."""
    why = _fetched()
    if why is not None:
        pytest.skip(f"the npm registry cannot be reached: {why}")
    command = [
        deno.find_deno_bin(),
        "run",
        "--no-config",
        "--no-lock",
        "--cached-only",
        "--quiet",
        *_ALLOWED,
        str(_PROGRAM),
    ]
    text = json.dumps({"files": {f"/v/{name}": body for name, body in files.items()}, "schemas": schemas})
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=100, check=True)
    return {
        name.removeprefix("/v/"): [(line, said) for line, said in found]
        for name, found in json.loads(done.stdout).items()
    }
