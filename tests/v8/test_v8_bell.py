"""The bell: workers that wait awake for the next request. A hint that is missing, late or wrong changes no answer."""

from __future__ import annotations

import glob
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from gloveport.engines.deno import bell as bells
from gloveport.engines.deno.bell import Bell
from gloveport.engines.deno.process import OFFLINE, Program, start
from gloveport.engines.toolbox.process import program
from gloveport.engines.v8.build import BUNDLE
from gloveport.engines.v8.pool import V8Pool, worker_program

from ..conftest import rest_v8_pools

MIB = 1 << 20


def hanging():
    """Of this process: others may be at work."""
    return glob.glob(f"{bells._folder.unused().parent}/*")


def last_words(worker):
    """What a worker of these tests says once it is told to."""
    worker.sock.send(b"!")
    said = b""
    while part := worker.sock.recv(1000):
        said += part
    return said.decode()


def test_it_counts_and_can_be_closed_at_any_time():
    bell = Bell()
    with open(bell.path, "rb") as file:
        seen = []
        for _ in range(258):
            bell.ring()
            file.seek(0)
            seen += file.read()
    assert seen == [*range(1, 256), 0, 1, 2]
    path = bell.path
    bell.take_down()
    assert not os.path.exists(path)
    for _ in range(2):
        bell.close()
    bell.ring()


def test_nobody_else_finds_it_and_nothing_of_it_stays(v8):
    before = set(hanging())
    session = v8({"t": lambda x: x})
    assert session.run("return await t(1)") == 1
    rest_v8_pools()
    assert set(hanging()) <= before  # opened by its worker, and gone
    folder = os.path.dirname(bells._folder.unused())
    assert folder.startswith("/dev/shm/gloveport-bells-") and os.stat(folder).st_mode & 0o777 in (0o700, 0o711)


@pytest.mark.parametrize("killed", [False, True])
def test_a_host_that_ends_leaves_no_directory(killed):
    code = """
        import os, signal, sys
        from gloveport.engines.deno.bell import Bell
        bell = Bell()
        print(os.path.dirname(bell.path), flush=True)
        if %r:
            os.kill(os.getpid(), signal.SIGKILL)
    """
    host = [sys.executable, "-c", textwrap.dedent(code % killed)]
    done = subprocess.run(host, capture_output=True, text=True, check=False)
    assert done.returncode == (-signal.SIGKILL if killed else 0), done.stderr
    folder = done.stdout.strip()
    assert os.path.exists(folder) == killed
    if killed:  # the next one of this user sweeps
        subprocess.run([sys.executable, "-c", textwrap.dedent(code % False)], capture_output=True, check=True)
        assert not os.path.exists(folder)


WRITES = """
Deno.stdout.writeSync(new Uint8Array([1, 0, 0, 0, 114]));
Deno.stdin.readSync(new Uint8Array(1));
const said = [];
for (const options of [{read: true}, {write: true}, {read: true, write: true}, {append: true}]) {
  try {
    const file = Deno.openSync("/bell", options);
    said.push("opened");
    if (options.write || options.append) file.writeSync(new Uint8Array([9]));
  } catch (error) {
    said.push(error.name);
  }
}
Deno.stdout.writeSync(new TextEncoder().encode(said.join()));
"""


def test_a_worker_that_breaks_out_of_its_realm_can_only_read_it(tmp_path):
    """With all of Deno's permissions: what holds is the jail."""
    source = tmp_path / "writes.js"
    source.write_text(WRITES)
    deno = str(program())
    argv = (deno, "run", *OFFLINE, "--allow-all", str(source))
    worker = start(
        Program("a test's worker", argv, 64 * MIB, readable=(deno, str(source)), bell=True), "require", warn=False
    )
    try:
        first, *others = last_words(worker).split(",")
        assert first == "opened"
        assert "opened" not in others and len(others) == 3
    finally:
        worker.close()


def test_answers_are_right_however_requests_come(v8):
    session = v8({"echo": lambda x: x})
    chance = random.Random(7)
    for i in range(600):  # at once, just before and just after a worker gives up looking, and when it sleeps
        assert session.run(f"return [{i}, await echo({i})]") == [i, i]
        end = time.perf_counter() + chance.choice((0, 0, 5e-5, 1.9e-4, 2.1e-4, 1e-3)) * chance.random() * 2
        while time.perf_counter() < end:
            pass


def test_a_bell_that_lies_changes_no_answer(v8):
    session = v8({"echo": lambda x: x})
    session.run("return 1")
    bell = session._driver.link._bell
    for i in range(50):
        for _ in range(i % 4):  # too often: what it waits for has come by already
            bell.ring()
        assert session.run(f"let s = 0; for (const k of [1, 2, 3]) s += await echo(k); return s + {i}") == 6 + i
    bell.ring = lambda: None  # never
    assert [session.run(f"return await echo({i})") for i in range(20)] == list(range(20))


def test_without_memory_to_share_there_is_none(monkeypatch):
    monkeypatch.setattr(bells._folder, "unused", lambda: (_ for _ in ()).throw(FileNotFoundError("/dev/shm")))
    pool = V8Pool(sandbox="require", max_memory=64 * MIB, spares=1)
    try:
        worker = pool.take()
        assert worker.alive and worker.bell is None
        worker.close()
    finally:
        pool.close()


def test_a_session_that_has_none_works(v8, monkeypatch):
    from gloveport.engines.v8 import link

    made = link.V8Link.__init__

    def without(self, worker, max_memory):
        made(self, worker, max_memory)
        self._bell = None

    monkeypatch.setattr(link.V8Link, "__init__", without)
    session = v8({"echo": lambda x: x})
    assert [session.run(f"return await echo({i})") for i in range(20)] == list(range(20))


ASKS = """
Deno.stdin.readSync(new Uint8Array(1));
const said = [Deno.permissions.querySync({name: "read", path: "/bell"}).state];
try { Deno.openSync("/bell"); said.push("opened"); } catch (error) { said.push(error.name); }
Deno.stdout.writeSync(new TextEncoder().encode(said.join()));
"""


def test_what_a_worker_may_read_is_given_up_before_the_first_request(tmp_path):
    """Of the worker's own program, with a look at its rights in the place of serving."""
    text = BUNDLE.read_text()
    bundle = tmp_path / "v8.js"
    asking, n = re.subn(r"await \w+\(\);\s*\Z", ASKS, text)
    assert n == 1
    bundle.write_text(asking)
    worker = start(worker_program(64 * MIB, bundle), "require", warn=False)
    try:
        assert last_words(worker) == "prompt,NotCapable"
        assert worker.bell is not None
    finally:
        worker.close()


def test_a_full_memory_disk_is_no_bell_and_no_fatal_signal(tmp_path):
    """In a mount namespace of its own, with a `/dev/shm` of 64 KiB that others have filled."""
    code = """
        from gloveport.engines.deno.bell import Bell
        bell = Bell.hung()
        assert bell is not None
        for _ in range(300): bell.ring()
        with open("/dev/shm/filler", "wb", 0) as file:
            try:
                while True: file.write(bytes(4096))
            except OSError:
                pass
        bell.ring()
        print(Bell.hung())
    """
    script = tmp_path / "full.py"
    script.write_text(textwrap.dedent(code))
    mounts = 'mount -t tmpfs -o size=64k none /dev/shm && exec "$@"'
    alone = ["unshare", "--mount", "--propagation", "private", *([] if os.getuid() == 0 else ["--map-root-user"])]
    done = subprocess.run(
        [*alone, "sh", "-c", mounts, "-", sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr
