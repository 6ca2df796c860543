"""`gloveport bench network`: what the way through the gateway costs, beside programs that go directly to the same server.

For modules (a Deno without a jail is beside them), and for machines (`network_boxes`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import tempfile
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Final

from ..engines.deno.process import ENVIRONMENT, OFFLINE
from ..engines.toolbox.process import program
from ..host.modules.session import TypeScriptSandboxSession
from .network_boxes import measure_boxes
from .report import Row, median_of

__all__ = ("BARS", "measure")

BARS: Final[Mapping[str, float]] = {"request": 3.0, "request on a new connection": 5.0, "megabyte": 3.0}
"""Through the gateway divided by directly, at most."""

_SERVER: Final = """
const block = new Uint8Array(1 << 16);
Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: ({ port }) => console.log(port) }, (request) => {
  let left = Number(new URL(request.url).pathname.slice(1));
  if (!left) return new Response("here you are");
  return new Response(new ReadableStream({
    pull(out) { if (left-- > 0) out.enqueue(block); else out.close(); },
  }));
});
"""
_CLIENT: Final = """
for await (const line of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  console.log(await new (Object.getPrototypeOf(async function () {}).constructor)(JSON.parse(line))());
}
"""


def _requests(url: str, count: int, options: str) -> str:
    return (
        f"await (await fetch('{url}', {options})).text(); const began = performance.now();"
        f"for (let i = 0; i < {count}; i++) await (await fetch('{url}', {options})).text();"
        f"return (performance.now() - began) / {count} / 1000"
    )


def _download(url: str, megabytes: int) -> str:
    return (
        f"const began = performance.now(); const body = (await fetch('{url}{megabytes * 16}')).body; let bytes = 0;"
        "for await (const part of body) bytes += part.length;"
        f"if (bytes !== {megabytes} * 1048576) throw new Error('it is not whole');"
        f"return (performance.now() - began) / {megabytes} / 1000"
    )


def measure(*, quick: bool) -> list[Row]:
    """All rows: seconds for each request, and for each megabyte, as the program itself sees them."""
    samples = 3 if quick else 11
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        server = stack.enter_context(_deno(Path(folder) / "server.js", _SERVER))
        url = f"http://127.0.0.1:{int(_line(server))}/"
        direct = stack.enter_context(_deno(Path(folder) / "client.js", _CLIENT))
        through = stack.enter_context(_session(url))
        codes = {
            "request": _requests(url, 200, "{}"),
            "request on a new connection": _requests(url, 100, "{ headers: { connection: 'close' } }"),
            "megabyte": _download(url, 128),
        }
        rows = [_row(name, samples, code, through, direct) for name, code in codes.items()]
    return [*rows, *measure_boxes(quick=quick)]


@contextlib.contextmanager
def _deno(file: Path, code: str) -> Generator[subprocess.Popen[str]]:
    file.write_text(code)
    command = [str(program()), "run", *OFFLINE, "--allow-net", str(file)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=dict(ENVIRONMENT),
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def _session(url: str) -> Generator[Callable[[str], float]]:
    session = TypeScriptSandboxSession(allow_network=[url.removeprefix("http://").rstrip("/")])
    with asyncio.Runner() as runner:
        runner.run(session.__aenter__())
        try:
            yield lambda code: float(
                runner.run(session.run_script(f"export default async () => {{ {code} }}", timeout=120))
            )
        finally:
            runner.run(session.close())


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _row(name: str, samples: int, code: str, through: Callable[[str], float], direct: subprocess.Popen[str]) -> Row:
    def directly() -> float:
        assert direct.stdin is not None
        direct.stdin.write(json.dumps(code) + "\n")
        direct.stdin.flush()
        return float(_line(direct))

    ours, other = median_of(samples, lambda: through(code), directly)
    ratio, bar = ours / other, BARS[name]
    return Row(name=name, ours=ours, unit="s", peer="directly", peer_value=other, ratio=ratio, bar=bar, ok=ratio <= bar)
