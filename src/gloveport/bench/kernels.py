"""Computing: the same pieces of code in a session and in Deno itself, which has no jail, no limits and no protocol in between."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from ..engines.toolbox.process import program

__all__ = ("KERNELS", "Bare", "in_function", "in_session")

KERNELS: Final = {
    "nbody": """
const body = (x, y, z, vx, vy, vz, m) => ({x, y, z, vx, vy, vz, m});
const all = [body(0, 0, 0, 0, 0, 0, 39.5), body(4.8, -1.2, -0.1, 0.6, 2.8, -0.02, 0.037), body(8.3, 4.1, -0.4, -1, 1.8, 0.008, 0.011),
  body(12.9, -15.1, -0.2, 1.1, 0.9, -0.01, 0.0017), body(15.4, -25.9, 0.18, 0.98, 0.6, -0.03, 0.002)];
for (let step = 0; step < 600000; step++) {
  for (let i = 0; i < 5; i++) {
    const p = all[i];
    for (let j = i + 1; j < 5; j++) {
      const q = all[j], dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, d = dx * dx + dy * dy + dz * dz, f = 0.001 / (d * Math.sqrt(d));
      p.vx -= dx * q.m * f; p.vy -= dy * q.m * f; p.vz -= dz * q.m * f;
      q.vx += dx * p.m * f; q.vy += dy * p.m * f; q.vz += dz * p.m * f;
    }
  }
  for (const p of all) { p.x += 0.001 * p.vx; p.y += 0.001 * p.vy; p.z += 0.001 * p.vz }
}
return all[0].x""",
    "hash": """
const w = new Uint32Array(64);
let a = 0x6a09e667, b = 0xbb67ae85, c = 0x3c6ef372, d = 0xa54ff53a;
for (let block = 0; block < 250000; block++) {
  for (let i = 0; i < 16; i++) w[i] = (block * 2654435761 + i * 40503) >>> 0;
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15], y = w[i - 2];
    const p = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3, q = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10;
    w[i] = w[i - 16] + w[i - 7] + p + q;
  }
  for (let i = 0; i < 64; i++) {
    const t = (d + w[i] + (a & b ^ ~a & c) + Math.imul(a, 0x9e3779b1)) | 0;
    d = c; c = b; b = a; a = (t + (t << 13 | t >>> 19)) | 0;
  }
}
return a >>> 0""",
    "group, sort, JSON": """
const row = (i) => ({id: i, city: 'c' + i * 7919 % 331, total: i * 104729 % 9973 / 7, tags: ['a', 'b' + i % 5]});
const rows = Array.from({length: 60000}, (_, i) => row(i)), sum = (of) => of.reduce((s, r) => s + r.total, 0);
const top = (of) => of.toSorted((p, q) => q.total - p.total).slice(0, 3);
const groups = Object.entries(Object.groupBy(rows, r => r.city)).map(([city, of]) => ({city, sum: sum(of), top: top(of)}));
groups.sort((p, q) => q.sum - p.sum || p.city.localeCompare(q.city));
const text = JSON.stringify([groups, rows]);
return JSON.parse(text)[0].length + text.length""",
    "text and regular expressions": """
let text = '';
for (let i = 0; i < 30000; i++) text += 'user' + i + '@example.com, some text 2024-01-' + i % 28 + ' and (555) 123-' + i + '; ';
const mails = text.match(/[\\w.]+@[\\w.]+\\.\\w+/g).length, dates = [...text.matchAll(/(\\d{4})-(\\d{2})-(\\d{1,2})/g)].length;
const words = new Map();
for (const word of text.split(/[^a-z]+/i)) words.set(word, (words.get(word) ?? 0) + 1);
return mails + dates + words.size + text.replace(/\\((\\d+)\\) (\\d+)-(\\d+)/g, '$1.$2.$3').length""",
}


def in_function(body: str) -> str:
    """The same where its variables are a function's own, and no others see them: those of a run's top level, later runs do."""
    return f"const work = () => {{{body}\n}}; return work()"


_BARE: Final = """
const AsyncFunction = (async () => {}).constructor, decoder = new TextDecoder();
let rest = '';
for await (const chunk of Deno.stdin.readable) {
  rest += decoder.decode(chunk, {stream: true});
  for (let end; (end = rest.indexOf('\\n')) >= 0; rest = rest.slice(end + 1))
    console.log(JSON.stringify(await new AsyncFunction(JSON.parse(rest.slice(0, end)))()));
}
"""


class Bare:
    """Deno by itself, which is given one function body after another."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gloveport-bench-")
        source = Path(self._folder.name, "bare.js")
        source.write_text(_BARE, "utf-8")
        self._process = subprocess.Popen(
            [str(program()), "run", "--quiet", "--no-prompt", "--no-config", str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "DENO_DIR": str(Path(self._folder.name, "deno")), "DENO_NO_UPDATE_CHECK": "1"},
        )

    def run(self, code: str) -> tuple[float, Any]:
        """Seconds, and what it gave."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        began = time.perf_counter()
        self._process.stdin.write(json.dumps(code).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        return time.perf_counter() - began, json.loads(line)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


def in_session(session: Any, code: str) -> tuple[float, Any]:
    """The same in a session."""
    began = time.perf_counter()
    value = session.run(code)
    return time.perf_counter() - began, value
