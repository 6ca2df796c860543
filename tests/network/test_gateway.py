"""The gateway as a process: it dies with its host, is started again, and is nobody's but its host's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gloveport import NetworkRules
from gloveport.egress.gateway import Gateway
from gloveport.engines.jail.child import HelperProcess
from gloveport.engines.jail.command import spawn_jailed
from gloveport.errors import EngineUnavailableError, GloveportError

from .world import OPEN

SOURCE = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def gateway():
    made = Gateway(HelperProcess)
    yield made
    made.close()


def cat():
    return spawn_jailed(["/bin/cat"], stdio="socket", network=True)


def attached(gateway, rules=NetworkRules(allow=("open.test",))):
    process = cat()
    try:
        return gateway.attach(process.network, rules), process
    finally:
        process.network = None


def gone(pid):
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


STREAMING = """
const c = await Deno.connect({ hostname: "open.test", port: 9000 });
await c.write(new Uint8Array(1));
await c.read(new Uint8Array(1));
say("flows");
say(await c.read(new Uint8Array(1)).catch((e) => e.name));
say(await tried(() => text("http://open.test/")));
"""


def test_killed_in_the_middle_of_a_stream(guest, world):
    """Connections end, further ones fail, and there is another gateway for whoever attaches then."""
    made = guest(STREAMING, ["open.test:*"])
    assert made.line() == "flows"
    assert made.attachment.alive
    before = world.gateway.pid
    os.kill(before, signal.SIGKILL)
    assert made.line() in (None, "ConnectionReset")
    assert "error" in made.line()
    assert not made.attachment.alive
    assert made.attachment.decisions() == ()
    assert "fresh worker" in made.attachment.why("open.test", 80)
    with pytest.raises(EngineUnavailableError, match="network gateway"):
        made.attachment.set_rules(NetworkRules())
    world.reached()

    fresh = guest("say(await tried(() => text('http://open.test/')));", ["open.test"])
    assert world.gateway.pid != before
    assert fresh.line() == {"ok": OPEN}
    assert fresh.attachment.alive


def test_decisions_outlive_the_gateway(guest, world):
    made = guest("say(await tried(() => text('http://open.test/')));", ["open.test"])
    assert made.line() == {"ok": OPEN}
    assert [d.host for d in made.attachment.decisions()] == ["open.test"]
    os.kill(world.gateway.pid, signal.SIGKILL)
    assert [d.host for d in made.attachment.decisions()] == ["open.test"]


def test_closing_ends_connections(guest, world):
    made = guest(STREAMING, ["open.test:*"])
    assert made.line() == "flows"
    made.attachment.close()
    assert made.line() in (None, "ConnectionReset")
    assert "error" in made.line()
    made.attachment.close()
    assert not made.attachment.alive


HOST = """
import os, sys
from gloveport.egress.gateway import Gateway
from gloveport.engines.jail.child import HelperProcess
from gloveport import NetworkRules
g = Gateway(HelperProcess)
p = g.proxy(NetworkRules())
if sys.argv[1] == "fork":
    pid = os.fork()
    if pid == 0:
        import time
        time.sleep(30)
        os._exit(0)
    print(g.pid, pid, flush=True)
else:
    print(g.pid, 0, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["alone", "fork"])
def test_it_dies_with_its_host(how):
    """Also while a forked copy of the host holds all of its descriptors."""
    environment = {"PYTHONPATH": os.pathsep.join([SOURCE, *sys.path[1:]]), "PATH": os.environ["PATH"]}
    with subprocess.Popen(
        [sys.executable, "-c", HOST, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as host:
        pid, copy = map(int, host.stdout.readline().split())
        assert not gone_now(pid)
        host.kill()
        host.wait()
        try:
            assert gone(pid)
        finally:
            if copy:
                os.kill(copy, signal.SIGKILL)


def gone_now(pid):
    return not Path(f"/proc/{pid}").exists()


def test_a_forked_copy_starts_its_own(gateway):
    attachment, process = attached(gateway)
    first = gateway.pid
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            process.forget()
            said = {"alive": attachment.alive, "decisions": len(attachment.decisions())}
            attachment.close()
            proxy = gateway.proxy(NetworkRules())
            said["other"] = gateway.pid != first
            proxy.close()
            gateway.close()
            os.write(write, json.dumps(said).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        assert json.loads(said.read()) == {"alive": False, "decisions": 0, "other": True}
    os.waitpid(pid, 0)
    assert attachment.alive
    assert gateway.pid == first
    attachment.close()
    process.close()


def test_many_threads(gateway):
    proxies, failed = [], []

    def one():
        try:
            proxies.append(gateway.proxy(NetworkRules()))
        except GloveportError as error:
            failed.append(error)

    threads = [threading.Thread(target=one) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len({proxy.url for proxy in proxies}) == 16
    for proxy in proxies:
        proxy.close()


def test_nothing_is_left_behind(gateway):
    gateway.proxy(NetworkRules()).close()

    def count(pid="self"):
        return len(os.listdir(f"/proc/{pid}/fd"))

    attachment, process = attached(gateway)
    attachment.close()
    process.close()
    ours, theirs = count(), settled(lambda: count(gateway.pid))
    for _ in range(5):
        attachment, process = attached(gateway)
        attachment.close()
        process.close()
    assert count() == ours
    assert settled(lambda: count(gateway.pid)) == theirs


def settled(measure):
    last = measure()
    for _ in range(100):
        time.sleep(0.02)
        now = measure()
        if now == last:
            return now
        last = now
    return last


def test_it_holds_nothing_of_the_host(gateway):
    secret = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        gateway.proxy(NetworkRules()).close()
        settled(lambda: len(os.listdir(f"/proc/{gateway.pid}/fd")))
        held = {os.readlink(f"/proc/{gateway.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{gateway.pid}/fd")}
        assert "/etc/passwd" not in held
        assert b"PATH=" not in Path(f"/proc/{gateway.pid}/environ").read_bytes()
    finally:
        os.close(secret)


def test_rules_that_are_too_many(gateway):
    rules = NetworkRules(allow=tuple(f"host{n}.example.com" for n in range(4000)))
    with pytest.raises(ValueError, match="too many"):
        gateway.proxy(rules)


def test_a_gateway_that_does_not_start():
    gateway = Gateway(lambda _: HelperProcess("no_such_module"))
    with pytest.raises(EngineUnavailableError, match="did not start"):
        gateway.proxy(NetworkRules())
    gateway.close()


@pytest.mark.parametrize("sandbox", ["off", "auto"])
def test_no_network_without_a_namespace(sandbox, monkeypatch):
    """Never the host's own network. The control is every other test here."""
    from gloveport.engines.jail import command

    honest = command._start

    def start(process, order, *rest, **options):
        # What a machine without user namespaces comes to: tests/jail has one. Here the layers are left out.
        return honest(process, {**order, "sandbox": "off"}, *rest, **options)

    monkeypatch.setattr(command, "_start", start)
    with pytest.raises(EngineUnavailableError, match="network namespace"):
        spawn_jailed(["/bin/cat"], network=True, sandbox=sandbox, warn=False)
