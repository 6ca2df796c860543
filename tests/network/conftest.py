"""Jailed programs with a network, and a world that they can reach."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gloveport.egress.gateway import Gateway, connection_rules
from gloveport.egress.gateway.limits import DEFAULTS
from gloveport.engines.jail.child import HelperProcess
from gloveport.engines.jail.command import spawn_jailed
from gloveport.engines.toolbox.process import program

sys.path.insert(0, str(Path(__file__).parent))

EXPLAIN = Path(__file__).parents[2] / "guest" / "module" / "network.ts"
FLAGS = ("--no-prompt", "--no-remote", "--no-npm", "--cached-only", "--no-config", "--no-lock", "--quiet")
HARNESS = """
if (%s) (await import("file://%s")).explainNetwork();
globalThis.text = async (url, init) => await (await fetch(url, init)).text();
globalThis.raw = async (hostname, port, said, wait = true) => {
  const c = await Deno.connect({ hostname, port });
  try {
    await c.write(new TextEncoder().encode(said));
    let got = "";
    if (wait) for (const b = new Uint8Array(65536);;) {
      const n = await c.read(b);
      if (n === null) break;
      got += new TextDecoder().decode(b.subarray(0, n));
      if (wait !== true && got.length >= wait) break;
    }
    if (wait && !got) throw new Error("closed");
    return got;
  } finally { c.close(); }
};
globalThis.late = (ms) => new Promise((_, no) => setTimeout(() => no(new Error("nothing happened")), ms));
globalThis.tried = async (f) => {
  try { return { ok: await Promise.race([f(), late(15000)]) ?? null }; }
  catch (e) { return { error: `${e?.name}: ${e?.message}` }; }
};
globalThis.serve = async () => {
  const Body = Object.getPrototypeOf(async () => {}).constructor;
  let said = "";
  for await (const part of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
    const lines = (said + part).split("\\n");
    said = lines.pop();
    for (const line of lines) say(await tried(new Body(JSON.parse(line))));
  }
};
const say = (value) => console.log(JSON.stringify(value));
"""


@dataclasses.dataclass
class World:
    gateway: Gateway
    folder: Path
    authority: object
    seen: int = 0

    def reached(self):
        """(address, port) of every connection since this was last asked."""
        lines = (self.folder / "log").read_text().splitlines()
        new, self.seen = lines[self.seen :], len(lines)
        return [(line.split()[0], int(line.split()[1])) for line in new]


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A gateway in a network namespace of its own, where every address answers."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs to be root, also of a user namespace: unshare -Urn python -m pytest")
    folder = tmp_path_factory.mktemp("world")
    (folder / "log").touch()
    authority = None
    try:
        from ..egress.conftest import Authority

        authority = Authority(folder)
        authority.server_context("open.test", "other.test", "six.test", "wild.open.test")
        (folder / "authority.pem").write_text(authority._pem(authority._certificate))
    except ImportError:
        pass
    certificate = folder / "open.test1.pem"

    made = World(Gateway(lambda _: HelperProcess("world", [str(folder / "log"), str(certificate)])), folder, authority)
    yield made
    made.gateway.close()


class Guest:
    """A Deno with a network; what it prints are JSON lines."""

    def __init__(
        self,
        gateway,
        folder,
        code,
        rules,
        *,
        limits=DEFAULTS,
        permissions=("--allow-net",),
        authority=None,
        explain=True,
    ):
        main = folder / f"main{time.monotonic_ns()}.ts"
        main.write_text(HARNESS % ("true" if explain else "false", EXPLAIN) + code)
        environment = {"DENO_DIR": "/dev/null/none", "NO_COLOR": "1"}
        readable = [main, EXPLAIN]
        if authority is not None:
            environment["DENO_CERT"] = str(authority)
            readable.append(authority)
        argv = [str(program()), "run", *FLAGS, *permissions, str(main)]
        self.process = spawn_jailed(
            argv, readable=readable, stdio="socket", network=True, environment=environment, memory_bytes=4 << 30
        )
        self._text = b""
        try:
            self.attachment = gateway.attach(self.process.network, connection_rules(rules), limits)
            self.process.network = None
        except BaseException:
            self.process.close()
            raise

    def line(self):
        """The next thing that it says; `None` at its end."""
        while b"\n" not in self._text:
            more = os.read(self.process.stdout, 65536)
            if not more:
                return None
            self._text += more
        line, _, self._text = self._text.partition(b"\n")
        return json.loads(line)

    def say(self, text):
        os.write(self.process.stdin, text.encode() + b"\n")

    def tried(self, body):
        """What became of a function's body, in a program that does nothing but `await serve()`."""
        self.say(json.dumps(body))
        return self.line()

    def close(self):
        self.process.close()
        self.attachment.close()


@pytest.fixture
def guest(world, tmp_path):
    """Starts programs in the world."""
    started = []

    def start(code, rules, **options):
        options.setdefault("authority", world.folder / "authority.pem" if world.authority else None)
        made = Guest(world.gateway, tmp_path, code, rules, **options)
        started.append(made)
        return made

    world.reached()
    yield start
    for made in started:
        made.close()


@pytest.fixture
def tried(guest):
    """What became of some JavaScript expression or body: `{"ok": …}` or `{"error": …}`, and the guest."""

    def run(body, rules, **options):
        made = guest(f"say(await tried(async () => {{ {body} }}));", rules, **options)
        return made.line(), made

    return run
