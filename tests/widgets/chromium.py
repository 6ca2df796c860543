# ruff: noqa: E501, because sources of widgets are long lines
"""A real browser for tests: Chromium's headless build from npm, kept in the user's cache directory, driven over its own protocol."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import pytest

PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
"""Built for machines without a desktop; its own libraries come along. (Debian's package needs 80 others.)"""
UNPACK = """
import { brotliDecompressSync } from "node:zlib";
const [from, to] = Deno.args;
for (const name of ["chromium", "al2023.tar"]) {
  Deno.writeFileSync(`${to}/${name}`, brotliDecompressSync(Deno.readFileSync(`${from}/bin/${name}.br`)));
}
"""
FLAGS = (
    "--headless=new --no-sandbox --no-first-run --disable-gpu --disable-dev-shm-usage --hide-scrollbars --mute-audio --no-zygote "
    "--disable-background-networking --disable-component-update --disable-default-apps --disable-extensions --disable-sync "
    "--disable-features=DialMediaRouteProvider,OptimizationHints --force-device-scale-factor=1 --remote-debugging-pipe"
)


def program() -> Path:
    """The browser; downloads it once. Skips the test where no registry can be reached."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gloveport-tests"
    home = base / f"chromium-{VERSION}"
    if not home.is_dir():
        base.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".chromium-", dir=base))
        try:
            _install(work)
            with contextlib.suppress(OSError):  # another one was first
                work.rename(home)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return home / "chromium"


def _install(home: Path) -> None:
    from gloveport.engines.toolbox.process import program as deno

    environment = {**os.environ, "DENO_DIR": str(home / "deno"), "DENO_NO_UPDATE_CHECK": "1"}
    environment.setdefault("DENO_TLS_CA_STORE", "mozilla,system")

    def run(*arguments: str) -> subprocess.CompletedProcess:
        command = [str(deno()), *arguments]
        return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=110)

    (home / "deno.json").write_text('{"nodeModulesDir": "none"}')
    fetched = run("cache", "--quiet", "--no-check", f"npm:{PACKAGE}@{VERSION}")
    if fetched.returncode:
        pytest.skip(f"no registry gives {PACKAGE}: {fetched.stderr[-200:]}")
    found = next((home / "deno" / "npm").glob(f"*/{PACKAGE}/{VERSION}"))
    (home / "unpack.ts").write_text(UNPACK)
    done = run(
        "run",
        "--quiet",
        "--no-lock",
        f"--allow-read={found}",
        f"--allow-write={home}",
        "unpack.ts",
        str(found),
        str(home),
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(home / "al2023.tar") as libraries:
        libraries.extractall(home / "libraries", filter="data")
    (home / "chromium").chmod(0o755)
    shutil.rmtree(home / "deno")
    (home / "al2023.tar").unlink()


class Chromium:
    """One browser and one page in it. Requests and answers are JSON, each ended by a zero byte, on descriptors 3 and 4."""

    def __init__(self) -> None:
        path = program()
        self.folder = tempfile.mkdtemp(prefix="gloveport-browser-")
        self._ids = itertools.count(1)
        self._buffer = b""
        self.events: list[dict] = []
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        libraries = next((path.parent / "libraries").rglob("libnss3.so")).parent
        flags = [*FLAGS.split(), f"--user-data-dir={self.folder}/profile", "--window-size=800,600", "about:blank"]
        # The shell puts the pipes where the browser looks for them.
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        with open(f"{self.folder}/stderr", "wb") as stderr:
            self._process = subprocess.Popen(
                ["bash", "-c", script, "browser", str(path), *flags],
                pass_fds=(theirs_in, theirs_out),
                env={"LD_LIBRARY_PATH": str(libraries), "HOME": self.folder, "PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        os.close(theirs_in)
        os.close(theirs_out)
        target = next(t for t in self._ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self._ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params):
        """The answer of the page to a command."""
        return self._ask(method, session=self._session, **params)

    def _ask(self, method: str, *, session: str | None = None, **params):
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next(20.0)
            if said.get("id") == number:
                assert "error" not in said, said
                return said["result"]

    def _next(self, timeout: float) -> dict:
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], timeout)[0]:
                raise TimeoutError
            data = os.read(self._in, 1 << 20)
            assert data, f"the browser ended: {Path(self.folder, 'stderr').read_text(errors='replace')[-2000:]}"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        said = json.loads(line)
        if "method" in said:
            self.events.append(said)
        return said

    def open(self, url: str) -> None:
        """Goes to a page and waits until it is loaded."""
        self.events.clear()
        self.ask("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next(20.0)

    def value(self, expression: str):
        """What an expression gives in the page; a promise is awaited. (The protocol's evaluation is not subject to the page's policy.)"""
        done = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def until(self, expression: str, seconds: float = 10.0):
        """Waits until an expression is true in the page."""
        end = time.monotonic() + seconds
        while not (value := self.value(f"Boolean({expression})")):
            assert time.monotonic() < end, (
                f"never true: {expression}; page: {self.value('document.body.innerHTML')[:500]}"
            )
            time.sleep(0.02)
        return value

    def click(self, selector: str) -> None:
        """A real click, by the mouse."""
        where = f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] }})()"
        x, y = self.value(where)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self) -> bytes:
        """The page as PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])

    def complaints(self) -> list[str]:
        """What the page logged as errors or warnings since it was opened: exceptions, and violations of its policy."""
        self.value("1")
        found = [e["params"]["exceptionDetails"] for e in self.events if e["method"] == "Runtime.exceptionThrown"]
        logged = [e["params"]["entry"]["text"] for e in self.events if e["method"] == "Log.entryAdded"]
        said = [
            e["params"]
            for e in self.events
            if e["method"] == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning")
        ]
        return [*map(json.dumps, found), *logged, *map(json.dumps, said)]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        shutil.rmtree(self.folder, ignore_errors=True)
