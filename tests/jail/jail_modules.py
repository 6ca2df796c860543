"""A host that runs modules; prints what became of them."""

from __future__ import annotations

import json

import anyio

from gloveport import TypeScriptSandboxSession

CODES = (
    "export default () => 1",
    "Deno.readTextFileSync('/etc/passwd')",
    "const kept = []; for (let i = 0; i < 20; i++) kept.push(new Uint8Array(64 * 2 ** 20).fill(1)); kept.length",
    "Deno.exit(3)",
    "Deno.readTextFileSync('/workspace/a.txt')",
)


async def main() -> None:
    async with TypeScriptSandboxSession() as session:
        (session.workspace / "a.txt").write_text("a")  # type: ignore[operator]
        results = [await session.run_module(code, timeout=30) for code in CODES]
    print(json.dumps([[result.value, result.error_type] for result in results]))


anyio.run(main)
