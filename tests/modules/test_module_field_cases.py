"""What users of other sandboxes ran into, as small inputs: each behaves as they expected."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from gloveport import ModuleResult, TypeScriptSandboxSession

FENCE = "`" * 3
NEXT = "export default () => 'next'"


def run(*sources: str, timeout: float = 30.0, **options: Any) -> list[ModuleResult]:
    """One after another in one session."""

    async def main() -> list[ModuleResult]:
        async with TypeScriptSandboxSession(**options) as session:
            return [await session.run_module(source, timeout=timeout) for source in sources]

    return anyio.run(main)


def followed(sources: list[str], **options: Any) -> list[ModuleResult]:
    """Each source, with a harmless call after it that has to work."""
    results = run(*[each for source in sources for each in (source, NEXT)], **options)
    assert [result.value for result in results[1::2]] == ["next"] * len(sources)
    return results[::2]


# ── shape and habits of model-written code ───────────────────────────────────────────────────────────────────────────


def test_fences_and_sentences_around_the_module():
    results = run(
        f"{FENCE}ts\nexport default () => 1 + 1\n{FENCE}",
        f"Here is the module:\n\n{FENCE}typescript\nexport function run() {{ return 2 }}\n{FENCE}\nIt returns 2.",
        "export default () => `code: ${'`'.repeat(3)}`",
        "\ufeffexport default () => 3",
    )
    assert [result.value for result in results] == [2, 2, f"code: {FENCE}", 3]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("export function run() { return 7 }", 7),
        ("export const run = async () => 7", 7),
        ("export default async function () { return 7 }", 7),
        ("const xs = [1, 2, 3];\nxs.length + 4", 7),
        ("async function main() { return 7 }\nmain()", 7),
        ("return 7", 7),
    ],
)
def test_code_without_a_default_export(source: str, value: int):
    assert run(source)[0].value == value


def test_what_gives_nothing_says_what_it_printed():
    printed, arrow = run("console.log('the answer is', 7)", "export default () => { console.log(7) }")
    assert (printed.value, printed.stdout) == (None, "the answer is 7\n")
    assert (arrow.value, arrow.stdout) == (None, "7\n")


def test_a_default_export_that_is_no_function_is_named():
    assert "number" in (run("export default 7")[0].error or "")


def test_a_function_that_is_never_called_is_never_a_silent_success():
    (result,) = run("async function main() { return 7 }")
    assert result.value == 7 or "main" in (result.error or "")


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("enum Level { Low = 1, High = 5 }\nexport default () => Level[5] + Level.Low", "High1"),
        ("namespace Geo { export const area = (r: number) => r * 2 }\nexport default () => Geo.area(3)", 6),
        (
            "class P { constructor(private readonly x: number, public y = 1) {} sum() { return this.x + this.y } }\n"
            "export default () => new P(4).sum()",
            5,
        ),
        (
            "const f = (x: (string | number)[], ok: boolean) => (ok ? x : ([] as (string | number)[]));\n"
            "export default () => f([1], true).length",
            1,
        ),
        ("const conf = { a: 1 } satisfies Record<string, number>;\nexport default () => conf.a!", 1),
        ("function id<T,>(x: T): T { return x }\nexport default () => id<number>(3)", 3),
        (
            "type A = { b: number }; interface C extends A {}\nimport type { X } from './nowhere.ts';\n"
            "export default (): C => ({ b: 1 })",
            {"b": 1},
        ),
        ("export default () => { const x: number = 'oops'; return x }", "oops"),
    ],
)
def test_real_typescript(source: str, value: Any):
    (result,) = run(source)
    assert result.value == value, result.error


def test_a_mistake_has_the_models_line_and_column():
    (result,) = run("export default () => {\n  const a = ;\n}")
    assert (result.line, result.column) == (2, 13)


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_endless_code_wherever_it_is():
    results = followed(
        [
            "for (;;);\nexport default () => 1",
            "await (async () => { for (;;); })();\nexport default () => 1",
            "export default () => { for (;;); }",
            "export default () => new Promise(() => setInterval(() => { for (;;); }, 1))",
            "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);\nexport default () => 1",
        ],
        timeout=1.5,
    )
    assert [result.exit_reason for result in results] == ["timeout"] * 5


def test_promises_that_nothing_can_settle():
    results = followed(
        ["await new Promise(() => {});\nexport default () => 1", "export default () => new Promise(() => {})"]
    )
    assert [result.error_type for result in results] == ["Stuck"] * 2


@pytest.mark.parametrize(
    "expression",
    [
        "Deno.exit(3)",
        "globalThis.process?.exit?.(3)",
        "import('node:process').then(p => p.default.exit(4))",
        "self.close()",
        "globalThis.process?.kill?.(globalThis.process.pid, 9)",
        "import('node:process').then(p => p.default.abort())",
        "location.reload?.()",
        "globalThis.reportError?.(new Error('reported'))",
    ],
)
def test_exit_close_and_reload_end_at_most_the_call(expression: str):
    (result,) = followed([f"export default async () => {{ const r = await ({expression}); return 'after' }}"])
    assert result.value == "after" or not result.ok
    if "exit" in expression or "close" in expression:
        assert result.exit_reason == "exited" and str(result.exit_code) in (result.error or "")


def test_out_of_memory_is_one_failed_call():
    results = followed(
        [
            "export default () => { const a = []; for (;;) a.push({x: a.length}) }",
            "export default () => [...'.'.repeat(3e8)].length",
            "export default () => { let s = 'x'; for (;;) s += s + s.length }",
            "export default () => { const k = []; for (let i = 0; i < 3000; i++) k.push(new Uint8Array(1 << 20).fill(1));"
            " return k.length }",
            "export default () => { const f = () => f() + 1; return f() }",
        ],
        max_memory_mb=256,
    )
    assert not any(result.ok for result in results)
    assert {result.exit_reason for result in results} <= {"memory", "crashed", "threw"}


def test_the_size_limit_counts_bytes_of_whole_json():
    ok, characters, escapes, items, after = run(
        "export default () => '\u00e9'.repeat(25_500)",
        "export default () => '\u00e9'.repeat(26_000)",
        "export default () => '\\u0000'.repeat(9_000)",
        "export default () => Array.from({length: 200_000}, (_, i) => i)",
        "export default () => 'fine'",
    )
    assert ok.ok and ok.output_bytes == 51_002 and after.value == "fine"
    for refused in (characters, escapes, items):
        assert refused.error_type == "ResultTooLarge" and "51200" in (refused.error or "").replace(",", "")


# ── imports ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_imports_that_are_off_send_nothing():
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/leak?secret=1"
    nested = f"'data:text/javascript,' + encodeURIComponent(`import '{url}'`)"
    sources = [
        'const fs = require("fs");\nexport default () => 1',
        'import _ from "npm:lodash"\nexport default () => 1',
        f'import x from "{url}"\nexport default () => 1',
        f"export default async () => await import('{url}')",
        f"export default async () => await import({nested})",
        f"export default async () => new Worker({nested}, {{type: 'module'}}) && 1",
        f"export default async () => (await fetch('{url}')).status",
    ]
    with listener:
        results = followed(sources)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert [result.ok for result in results] == [False] * 5 + [True, False]
    assert all(text in (results[1].error or "") for text in ("allow_package_imports", "npm:lodash"))


def test_a_module_that_does_not_load_costs_one_call():
    async def main() -> None:
        bad = [
            "export default () => {\n  const a = ;\n}",
            'import x from "./missing.ts"\nexport default () => 1',
            'import _ from "npm:left-pad"\nexport default () => 1',
            "throw new Error('at load')",
            "export default () => { throw new Error('at run') }",
            "export { nothing }",
            "\x00",
            "export default async function* () { yield 1 }",
        ]
        async with TypeScriptSandboxSession() as session, TypeScriptSandboxSession() as other:
            for source in bad:
                assert not (await session.run_module(source)).ok, source
                assert (await session.run_module(NEXT)).value == "next"
                assert (await other.run_module("export default () => 'same'")).value == "same"
            assert (await session.run_module("")).exit_reason in ("returned", "refused")

    anyio.run(main)


# ── values and output ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        ("new Map([['a', 1]])", "Map"),
        ("new Set([1, 2])", "Set"),
        ("new Date(0)", "Date"),
        ("undefined", None),
        ("() => 1", "function"),
        ("10n", "BigInt"),
        ("NaN", "NaN"),
        ("new Error('x')", "Error"),
        ("new Uint8Array([1, 2])", "typed array"),
        ("[undefined, , 3]", [None, None, 3]),
        ("{a: undefined, b: Symbol('s')}", "$.b"),
        ("Object.create({inherited: 1})", "plain object"),
        ("new (class Money { constructor() { this.cents = 5 } })()", "Money"),
    ],
)
def test_a_value_comes_whole_or_is_refused_by_name(expression: str, outcome: Any):
    (result,) = run(f"export default () => ({expression})")
    if isinstance(outcome, str):
        assert result.error_type == "NotJson" and outcome in (result.error or "")
    else:
        assert result.ok and result.value == outcome


def test_the_console_stays_out_of_the_hosts_streams():
    script = (
        "import anyio, sys\nfrom gloveport import TypeScriptSandboxSession\n"
        "async def main():\n    async with TypeScriptSandboxSession() as session:\n"
        "        result = await session.run_module(sys.argv[1])\n"
        "        assert (result.value, result.stdout, result.stderr) == ('value', '{\"id\": 1}\\nraw bytes\\n', 'err line\\n')\n"
        "anyio.run(main)\n"
    )
    code = (
        "console.log('{\"id\": 1}'); console.error('err line');\n"
        "Deno.stdout.writeSync(new TextEncoder().encode('raw bytes\\n'));\nexport default () => 'value'"
    )
    done = subprocess.run([sys.executable, "-c", script, code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_timers_and_rejections_of_one_module_do_no_harm_to_the_next():
    async def main() -> None:
        async with TypeScriptSandboxSession() as session:
            done = await session.run_module(
                "setInterval(() => {}, 5); setTimeout(() => { throw new Error('boom') }, 60);\n"
                "setTimeout(() => Promise.reject(new Error('late')), 80);\nexport default () => 'done'"
            )
            assert done.value == "done"
            await anyio.sleep(0.3)
            assert (await session.run_module(NEXT)).value == "next"
            value = await session.run_module("Promise.reject(new Error('early'));\nexport default () => 'value'")
            assert value.value == "value" and "early" in value.stderr
            ticking = "globalThis.n = 0; setInterval(() => { n++ }, 1);\nexport default () => 'ticking'"
            assert (await session.run_module(ticking)).value == "ticking"
            await anyio.sleep(0.3)
            assert (await session.run_module("export default () => globalThis.n")).value < 50, (
                "it ran between the calls"
            )

    anyio.run(main)


# ── the host program ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cancelled_call_ends_with_its_code():
    async def main() -> None:
        async with TypeScriptSandboxSession() as session:
            call = asyncio.create_task(session.run_module("export default () => { for (;;); }", timeout=60))
            await asyncio.sleep(0.5)
            worker = session._worker
            assert worker is not None
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.sleep(0.3)
            assert not worker.alive
            assert (await session.run_module(NEXT)).value == "next"

    asyncio.run(main())


def test_loops_and_threads_one_after_another():
    values = [run("1")[0].value for _ in range(3)]
    threads = [threading.Thread(target=lambda: values.append(run("1")[0].value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert values == [1] * 7


def test_a_forked_child_has_a_runtime_of_its_own():
    script = (
        "import anyio, os, sys\nfrom gloveport import TypeScriptSandboxSession\n"
        "async def main(text):\n    async with TypeScriptSandboxSession() as session:\n"
        "        print(await session.run_script(f\"'{text}'\" + ' + 1'), flush=True)\n"
        "anyio.run(main, 'parent')\npid = os.fork()\n"
        "if pid == 0:\n    anyio.run(main, 'child')\n    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\nanyio.run(main, 'again')\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["parent1", "child1", "again1"], done.stderr


def test_no_worker_outlives_a_host_that_was_killed():
    script = (
        "import anyio\nfrom gloveport import TypeScriptSandboxSession\n"
        "async def main():\n    async with TypeScriptSandboxSession() as session:\n"
        "        await session.run_module('1')\n        print('up', flush=True)\n"
        "        await session.run_module('for (;;);', timeout=60)\n"
        "anyio.run(main)\n"
    )
    host = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert host.stdout is not None and host.stdout.readline() == "up\n"
    time.sleep(0.3)
    from gloveport.bench.probes import descendants

    family = descendants(host.pid)
    assert family
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    host.stdout.close()
    deadline = time.monotonic() + 10
    while (left := [pid for pid in family if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []
