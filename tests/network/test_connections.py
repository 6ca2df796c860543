"""What the rules allow works, for everything in Deno that connects; what they do not is refused with the reason."""

# ruff: noqa: E501  (JavaScript, a line for each case)

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gloveport import NetworkRules
from gloveport.egress.gateway.limits import GatewayLimits

from .world import OPEN, OTHER, SIX

BLOCKED = "blocked by policy: "
NODE = "const [net, http, https, tls] = [await import('node:net'), await import('node:http'), await import('node:https'), await import('node:tls')];"
APIS = {
    "fetch": "return await text('http://{host}/')",
    "fetch, other port": "return await text('http://{host}:8080/')",
    "connect": "return await raw('{host}', 9000, 'hello', 5)",
    "WebSocket": "return await new Promise((yes, no) => {{ const w = new WebSocket('ws://{host}/'); w.onmessage = (e) => {{ w.close(); yes(e.data); }}; w.onerror = no; }})",
    "node:http": NODE
    + "return await new Promise((yes, no) => http.get('http://{host}/', (r) => {{ r.resume(); r.on('end', () => yes(r.statusCode)); }}).on('error', no))",
    "node:net": NODE
    + "return await new Promise((yes, no) => {{ const s = net.connect(9000, '{host}', () => s.end('x')); s.on('data', (d) => yes(String(d))); s.on('error', no); }})",
    "fetch, TLS": "return await text('https://{host}/')",
    "connectTls": "const c = await Deno.connectTls({{ hostname: '{host}', port: 443 }}); await c.handshake(); c.close(); return 1",
    "node:https": NODE
    + "return await new Promise((yes, no) => https.get('https://{host}/', (r) => {{ r.resume(); r.on('end', () => yes(r.statusCode)); }}).on('error', no))",
    "node:tls": NODE
    + "return await new Promise((yes, no) => {{ const s = tls.connect({{ host: '{host}', port: 443, servername: '{host}' }}, () => {{ s.destroy(); yes(1); }}); s.on('error', no); }})",
}


@pytest.mark.parametrize("api", APIS)
def test_every_api_obeys(tried, world, api):
    if api in ("fetch, TLS", "connectTls", "node:https", "node:tls") and world.authority is None:
        pytest.skip("needs cryptography")
    outcome, guest = tried(APIS[api].format(host="open.test"), ["open.test:*"])
    assert "ok" in outcome, outcome
    assert {address for address, _ in world.reached()} == {OPEN}
    assert [(d.host, d.allowed, d.rule) for d in guest.attachment.decisions()] == [("open.test", True, "open.test:*")]

    outcome, guest = tried(APIS[api].format(host="other.test"), ["open.test:*"])
    assert BLOCKED in outcome["error"]
    assert "other.test" in outcome["error"]
    assert world.reached() == []
    assert {(d.host, d.allowed) for d in guest.attachment.decisions()} == {("other.test", False)}


@pytest.mark.parametrize(
    ("rules", "url", "reached"),
    [
        (True, "http://open.test/", OPEN),
        (True, "http://open.test:8080/", OPEN),
        (True, f"http://{OTHER}/", OTHER),
        (True, f"http://[{SIX}]/", SIX),
        (True, "http://six.test/", SIX),
        (True, "http://intranet.test/", None),
        (["open.test"], "http://open.test/", OPEN),
        (["open.test"], "http://open.test:8080/", None),
        (["open.test:8080"], "http://open.test:8080/", OPEN),
        (["http://open.test:8080"], "http://open.test:8080/", OPEN),
        (["https://open.test:8080"], "http://open.test:8080/", None),
        (["https://open.test"], "http://open.test/", None),
        (["*.open.test"], "http://wild.open.test/", OPEN),
        (["*.open.test"], "http://open.test/", None),
        (["10.0.0.5"], "http://10.0.0.5/", "10.0.0.5"),
        (["10.0.0.5"], "http://intranet.test/", None),
        (["127.0.0.1:8080"], "http://127.0.0.1:8080/", "127.0.0.1"),
        (["cidr:93.184.216.0/24"], f"http://{OTHER}/", OTHER),
        (["cidr:93.184.216.0/24"], "http://other.test/", None),
        (NetworkRules(allow=("intranet.test",), private=("10.0.0.0/8",)), "http://intranet.test/", "10.0.0.5"),
        (NetworkRules(allow=("localhost:8080",), private=("127.0.0.1",)), "http://localhost:8080/", "127.0.0.1"),
        (NetworkRules(allow=("*:*",), deny=("other.test",)), "http://open.test/", OPEN),
        (NetworkRules(allow=("*:*",), deny=("other.test",)), "http://other.test/", None),
        (NetworkRules(allow=("*:*",), deny=("http://other.test:8080",)), "http://other.test:8080/", None),
        (NetworkRules(allow=("*:*",), deny=(f"cidr:{OTHER}/32",)), "http://other.test/", None),
    ],
)
def test_rules(tried, world, rules, url, reached):
    outcome, guest = tried(f"return await text('{url}')", rules)
    if reached is None:
        assert BLOCKED in outcome["error"]
        assert world.reached() == []
        assert guest.attachment.decisions()[-1].allowed is False
    else:
        assert outcome == {"ok": reached}
        assert world.reached()[0][0] == reached


def test_a_name_that_does_not_exist(tried, world):
    outcome, _ = tried("return await text('http://nowhere.test/')", True)
    assert "nowhere.test cannot be resolved" in outcome["error"]
    assert world.reached() == []


def test_nobody_answers(tried):
    outcome, _ = tried("return await text('http://open.test:7777/')", True)
    assert "cannot connect to open.test, port 7777" in outcome["error"]


def test_a_megabyte_both_ways_and_half_closing(tried):
    body = """
    const c = await Deno.connect({ hostname: "open.test", port: 9000 });
    const size = 4 << 20;
    const sent = (async () => {
      for (let n = 0; n < size;) n += await c.write(new Uint8Array(Math.min(65536, size - n)));
      await c.closeWrite();
    })();
    let got = 0, last;
    for (const b = new Uint8Array(65536);;) {
      const n = await c.read(b);
      if (n === null) break;
      got += n;
      last = new TextDecoder().decode(b.subarray(Math.max(0, n - 3), n));
    }
    await sent;
    return [got - size, last];
    """
    assert tried(body, ["open.test:9000"])[0] == {"ok": [3, "bye"]}


def test_a_reader_that_stops_stops_the_server(guest, world):
    """Back-pressure: what nobody reads is not piled up in the gateway."""
    made = guest(
        """
        const r = await fetch("http://open.test/bytes/2000000000");
        say(r.status);
        await late(1e9);
        """,
        ["open.test"],
    )
    assert made.line() == 200

    def memory():
        status = Path(f"/proc/{world.gateway.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    before = memory()
    time.sleep(0.5)
    assert memory() - before < 20_000


def test_a_resolver_of_its_own_gets_standing_addresses(tried):
    body = """
    const ask = (name, kind, options) => Deno.resolveDns(name, kind, options).catch((e) => e.name);
    const first = await ask("a.example.com", "A");
    return [first, await ask("A.Example.com.", "A"), await ask("a.example.com", "AAAA"), await ask("b.example.com", "A", { nameServer: { ipAddr: "8.8.8.8" } }),
      await ask("a.example.com", "MX")];
    """
    outcome, guest = tried(body, ["open.test"])
    assert outcome == {"ok": [["198.18.0.1"], ["198.18.0.1"], "NotFound", ["198.18.0.2"], "NotFound"]}
    assert guest.attachment.decisions() == ()


def test_rules_are_replaced(guest):
    made = guest(
        """
        for await (const _ of Deno.stdin.readable) say(await tried(() => text("http://open.test:8080/")));
        """,
        ["other.test"],
    )
    made.say("go")
    assert BLOCKED in made.line()["error"]
    made.attachment.set_rules(NetworkRules(allow=("open.test:8080",)))
    made.say("go")
    assert made.line() == {"ok": OPEN}
    assert [d.allowed for d in made.attachment.new_decisions()] == [False, True]
    made.attachment.set_rules(NetworkRules(allow=("other.test",)))
    made.say("go")
    # The connection that is open stays; a new one is refused.
    assert made.line() == {"ok": OPEN}
    assert made.attachment.new_decisions() == ()


def test_two_jails_do_not_mix(guest, world):
    code = "say(await tried(() => text('http://open.test/'))); say(await tried(() => text('http://other.test/')));"
    one, two = guest(code, ["open.test"]), guest(code, ["other.test"])
    assert one.line() == {"ok": OPEN}
    assert BLOCKED in one.line()["error"]
    assert BLOCKED in two.line()["error"]
    assert two.line() == {"ok": OTHER}
    assert [d.host for d in one.attachment.decisions() if d.allowed] == ["open.test"]
    assert [d.host for d in two.attachment.decisions() if d.allowed] == ["other.test"]


# ── limits, each with a control ──────────────────────────────────────────────────────────────────────────────────────

MANY = """
const open = [];
for (let i = 0; i < 6; i++) {
  const c = await Deno.connect({ hostname: "open.test", port: 9000 }).catch(() => null);
  if (!c) continue;
  open.push(c);
  await c.write(new Uint8Array(1)).catch(() => 0);
}
let alive = 0;
for (const c of open) alive += await c.read(new Uint8Array(1)).catch(() => 0) ?? 0;
return alive;
"""


@pytest.mark.parametrize(("most", "alive"), [(4, 4), (6, 6)])
def test_connections_at_a_time(tried, most, alive):
    outcome, guest = tried(MANY, ["open.test:9000"], limits=GatewayLimits(connections=most))
    assert outcome == {"ok": alive}
    assert len([d for d in guest.attachment.decisions() if not d.allowed]) == 6 - alive


@pytest.mark.parametrize(("most", "whole"), [(1 << 20, False), (1 << 23, True)])
def test_bytes(tried, most, whole):
    body = "const r = await fetch('http://open.test/bytes/3000000'); return (await r.arrayBuffer()).byteLength"
    outcome, _ = tried(body, ["open.test"], limits=GatewayLimits(transferred_bytes=most))
    assert (outcome == {"ok": 3_000_000}) is whole


@pytest.mark.parametrize(("seconds", "ended"), [(0.2, True), (600.0, False)])
def test_a_connection_without_a_byte(tried, seconds, ended):
    body = """
    const c = await Deno.connect({ hostname: "open.test", port: 9000 });
    return await Promise.race([c.read(new Uint8Array(1)).then(() => "ended", () => "ended"), new Promise((done) => setTimeout(done, 1500, "open"))]);
    """
    outcome, _ = tried(body, ["open.test:9000"], limits=GatewayLimits(idle_timeout=seconds))
    assert outcome == {"ok": "ended" if ended else "open"}


@pytest.mark.parametrize(("seconds", "refused"), [(0.2, True), (600.0, False)])
def test_a_request_that_comes_a_byte_at_a_time(tried, world, seconds, refused):
    body = """
    const c = await Deno.connect({ hostname: "open.test", port: 80 });
    for (const byte of "GET / HTTP/1.1\\r\\nHost: open.test\\r\\n\\r\\n") {
      await c.write(new TextEncoder().encode(byte));
      await new Promise((done) => setTimeout(done, 30));
    }
    return await c.read(new Uint8Array(100)) > 0;
    """
    outcome, guest = tried(body, ["open.test"], limits=GatewayLimits(head_timeout=seconds))
    if refused:
        assert outcome != {"ok": True}
        assert "did not say in time" in guest.attachment.decisions()[-1].reason
        assert world.reached() == []
    else:
        assert outcome == {"ok": True}


@pytest.mark.parametrize("most", [5, 50])
def test_names(tried, most):
    body = """
    let found = 0;
    for (let i = 0; i < 10; i++) found += await Deno.resolveDns(`n${i}.test`, "A").then(() => 1, () => 0);
    return found;
    """
    assert tried(body, ["open.test"], limits=GatewayLimits(names=most))[0] == {"ok": min(most, 10)}
