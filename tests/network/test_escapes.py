"""Ways around the rules, as data: each is tried by hostile code in a jailed Deno, beside a control that the rules allow.

What an attack returns is its own affair; what counts is that no connection but the allowed ones reached the world. `OK` controls reach it.
"""

# ruff: noqa: E501  (JavaScript, a line for each case)

from __future__ import annotations

import dataclasses

import pytest

from gloveport import NetworkRules
from gloveport.egress.gateway.limits import GatewayLimits

from .conftest import Guest
from .world import OPEN

IMPATIENT = GatewayLimits(head_timeout=1.0)
ALLOWED = ("open.test:*", "https://open.test:4443")
TEXT = "return await text('http://open.test/')"


@dataclasses.dataclass(frozen=True)
class Case:
    attack: str
    control: str = TEXT
    rules: object = ALLOWED
    needs: str = ""
    """What the answer of the attack must have in it."""
    tls: bool = False


def fetching(url):
    return f"return await text({url!r})"


def dialing(host, port=80, said="GET / HTTP/1.1\\r\\nHost: open.test\\r\\n\\r\\n", wait="true"):
    return f"return await raw('{host}', {port}, \"{said}\", {wait})"


def request(head, port=80):
    return dialing("open.test", port, head, wait="1")


def hello(name, port=4443, host="open.test"):
    """TLS to `host`, asking for `name`."""
    return (
        f"const c = await Deno.connect({{ hostname: '{host}', port: {port} }});"
        f"const t = await Deno.startTls(c, {{ hostname: '{name}' }}); await t.handshake(); t.close(); return 1"
    )


UDP = """
const dgram = (await import("node:dgram")).createSocket("udp4");
return await new Promise((yes, no) => {
  dgram.on("error", no); dgram.on("message", (m) => yes(m.length));
  dgram.send(PACKET, PORT, "HOST", (e) => e && no(e));
  setTimeout(() => no(new Error("no answer")), 500);
});
"""
QUERY = "Uint8Array.from([1,2, 1,0, 0,1, 0,0, 0,0, 0,0, 4,111,112,101,110,4,116,101,115,116,0, 0,1, 0,1])"
WORKER = """
const source = `%s`;
return await new Promise((yes, no) => {
  const w = new Worker("data:application/javascript," + encodeURIComponent(source), { type: "module"%s });
  w.onmessage = (e) => { w.terminate(); e.data.error ? no(new Error(e.data.error)) : yes(e.data); };
  w.onerror = (e) => { e.preventDefault(); no(new Error(e.message)); };
});
"""
IN_WORKER = (
    "try { postMessage(await (await fetch('http://%s/')).text()) } catch (e) { postMessage({ error: e.message }) }"
)

CASES = {
    # addresses that are not public
    "loopback": Case(fetching("http://127.0.0.1/"), rules=True),
    "loopback, another one": Case(fetching("http://127.8.9.10:8080/"), rules=True),
    "a private address": Case(fetching("http://10.0.0.5/"), rules=True),
    "a link-local address": Case(fetching("http://169.254.1.1/"), rules=True),
    "the metadata address": Case(fetching("http://169.254.169.254/latest/meta-data/"), rules=True),
    "Azure's metadata address": Case(fetching("http://168.63.129.16/"), rules=True),
    "0.0.0.0": Case(fetching("http://0.0.0.0/"), rules=True),
    "0.0.0.0 by connect": Case(dialing("0.0.0.0"), rules=True),
    "IPv6 loopback": Case(fetching("http://[::1]/"), rules=True),
    "a unique local address": Case(fetching("http://[fd00::5]/"), rules=True),
    "an IPv4-mapped address": Case(fetching("http://[::ffff:10.0.0.5]/"), rules=True),
    "an IPv4-mapped address by connect": Case(dialing("::ffff:169.254.169.254"), rules=True),
    "an IPv4-compatible address": Case(fetching("http://[::10.0.0.5]/"), rules=True),
    "NAT64": Case(fetching("http://[64:ff9b::a00:5]/"), rules=True),
    "6to4": Case(fetching("http://[2002:a00:5::1]/"), rules=True),
    "a link-local IPv6 address": Case(dialing("fe80::1"), rules=True),
    "a decimal host": Case(fetching("http://2130706433/"), rules=True),
    "a hexadecimal host": Case(fetching("http://0x7f000001/"), rules=True),
    "an octal host": Case(fetching("http://0177.0.0.1/"), rules=True),
    "a short host": Case(fetching("http://127.1/"), rules=True),
    "a private address behind a range": Case(fetching("http://10.0.0.5/"), rules=("open.test", "cidr:93.184.0.0/16")),
    # names that lead there
    "localhost": Case(fetching("http://localhost/"), rules=True),
    "localhost with a dot": Case(fetching("http://localhost./"), rules=True),
    "a name of loopback": Case(fetching("http://loop.test/"), rules=True),
    "a name of 0.0.0.0": Case(fetching("http://zero.test/"), rules=True),
    "a name inside": Case(fetching("http://intranet.test/"), rules=True),
    "a name of the metadata address": Case(fetching("http://meta.test/"), rules=True),
    "the metadata name": Case(
        fetching("http://metadata.google.internal/"), rules=NetworkRules(allow=("*:*",), private=("169.254.0.0/16",))
    ),
    "a name with a good and a bad address": Case(fetching("http://mixed.test/"), rules=True),
    "a name with a mapped address": Case(fetching("http://mapped.test/"), rules=True),
    "a name with a compatible address": Case(fetching("http://compatible.test/"), rules=True),
    "a name with a NAT64 address": Case(fetching("http://nat64.test/"), rules=True),
    "a name with a local IPv6 address": Case(fetching("http://ula.test/"), rules=True),
    "a name that changes its address": Case(
        "const out = []; for (let i = 0; i < 6; i++) out.push(await tried(() => text('http://rebinding.test/', { headers: { connection: 'close' } }))); return out",
        rules=True,
        needs="blocked by policy",
    ),
    # names that are not allowed
    "another host": Case(fetching("http://other.test/")),
    "another port": Case(fetching("http://open.test:8080/"), rules=("open.test",)),
    "a user name that looks like the host": Case(fetching("http://open.test@other.test/")),
    "a name that begins like an allowed one": Case(fetching("http://open.test.other.test/")),
    "a name that ends like an allowed one": Case(
        fetching("http://wildopen.test/"), fetching("http://wild.open.test/"), rules=("*.open.test",)
    ),
    "a redirect to a private address": Case(fetching("http://open.test/to?http://10.0.0.5/")),
    "a redirect to another host": Case(fetching("http://open.test/to?http://other.test/")),
    "a redirect to another port": Case(fetching("http://open.test/to?http://open.test:8080/"), rules=("open.test",)),
    "a redirect to a file": Case(fetching("http://open.test/to?file:///etc/passwd")),
    "a WebSocket to a private address": Case(
        "return await new Promise((yes, no) => { const w = new WebSocket('ws://10.0.0.5/'); w.onopen = yes; w.onerror = no })",
        "return await new Promise((yes, no) => { const w = new WebSocket('ws://open.test/'); w.onopen = () => yes(1); w.onerror = no })",
        rules=True,
    ),
    # the address of an allowed host, without its name
    "the address that a name has": Case(fetching(f"http://{OPEN}/")),
    "a standing address that is nobody's": Case(fetching("http://198.18.77.77/"), rules=True),
    "the standing address of a refused name": Case(
        "const [a] = await Deno.resolveDns('other.test', 'A'); return await raw(a, 80, 'GET / HTTP/1.1\\r\\nHost: open.test\\r\\n\\r\\n')",
        "const [a] = await Deno.resolveDns('open.test', 'A'); return await raw(a, 80, 'GET / HTTP/1.1\\r\\nHost: open.test\\r\\n\\r\\n', 1)",
    ),
    # another name on an allowed connection
    "another Host": Case(
        request("GET / HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n"),
        request("GET / HTTP/1.1\\r\\nHost: open.test\\r\\n\\r\\n"),
    ),
    "two Hosts": Case(request("GET / HTTP/1.1\\r\\nHost: open.test\\r\\nHost: other.test\\r\\n\\r\\n")),
    "no Host": Case(request("GET / HTTP/1.0\\r\\n\\r\\n")),
    "a folded Host": Case(request("GET / HTTP/1.1\\r\\nHost: open.test\\r\\n other.test\\r\\n\\r\\n")),
    "a Host behind a bare line feed": Case(request("GET / HTTP/1.1\\nHost: open.test\\n\\n")),
    "a Host with a space before its colon": Case(request("GET / HTTP/1.1\\r\\nHost : open.test\\r\\n\\r\\n")),
    "another host in the request line": Case(
        request("GET http://other.test/ HTTP/1.1\\r\\nHost: open.test\\r\\n\\r\\n")
    ),
    "another port in Host": Case(request("GET / HTTP/1.1\\r\\nHost: open.test:8080\\r\\n\\r\\n")),
    "a proxy request": Case(request("CONNECT other.test:443 HTTP/1.1\\r\\nHost: open.test\\r\\n\\r\\n")),
    "HTTP/2 without TLS": Case(request("PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n")),
    "another protocol on the port of HTTP": Case(request("SSH-2.0-x\\r\\n\\r\\n")),
    "TLS on the port of HTTP": Case(hello("open.test", 80), tls=True),
    "another server name": Case(hello("other.test"), hello("open.test"), rules=("https://open.test:4443",), tls=True),
    "no server name": Case(hello("93.184.216.34"), hello("open.test"), rules=("https://open.test:4443",), tls=True),
    "no TLS where the rule says https": Case(
        request("GET / HTTP/1.1\\r\\nHost: open.test:4443\\r\\n\\r\\n", 4443),
        hello("open.test"),
        rules=("https://open.test:4443",),
        tls=True,
    ),
    # past the sockets
    "UDP": Case(
        UDP.replace("PACKET", QUERY).replace("HOST", OPEN).replace("PORT", "9000"),
        UDP.replace("PACKET", QUERY).replace("HOST", "8.8.8.8").replace("PORT", "53"),
        rules=True,
    ),
    "UDP of Deno": Case("return Deno.listenDatagram({ port: 0, transport: 'udp' }).addr.port"),
    "listening": Case("return Deno.listen({ port: 8099, hostname: '127.0.0.1' }).addr.port", rules=True),
    "listening of node": Case(
        "const net = await import('node:net'); return await new Promise((yes, no) => net.createServer().on('error', no).listen(8099, () => yes(1)))"
    ),
    "a unix socket": Case("return (await Deno.connect({ transport: 'unix', path: '/run/docker.sock' })).localAddr"),
    "an abstract unix socket": Case(
        "const net = await import('node:net'); return await new Promise((yes, no) => net.connect('\\0x').on('connect', () => yes(1)).on('error', no))"
    ),
    "vsock": Case("return (await Deno.connect({ transport: 'vsock', cid: 2, port: 22 })).localAddr"),
    "a file": Case("return await text('file:///etc/resolv.conf')"),
    "importing a file": Case("return await import('file:///etc/passwd')"),
    "importing from the network": Case("return await import('http://open.test/x.js')"),
    "importing a package": Case("return await import('npm:left-pad')"),
    "data: and blob: are no way out": Case(
        "const b = URL.createObjectURL(new Blob(['export default await (await fetch(\"http://other.test/\")).text()'], { type: 'application/javascript' })); return (await import(b)).default",
        "return await (await fetch('data:text/plain,x')).text() && await text('http://open.test/')",
    ),
    "a worker": Case(WORKER % (IN_WORKER % "other.test", ""), WORKER % (IN_WORKER % "open.test", "")),
    "a worker with more permissions": Case(
        WORKER % (IN_WORKER % "other.test", ", deno: { permissions: 'inherit' }"),
    ),
    "asking for permissions": Case(
        "const s = await Deno.permissions.request({ name: 'run' }); if (s.state !== 'granted') throw new Error(s.state); return 1"
    ),
    "a proxy for fetch": Case(
        "const client = Deno.createHttpClient({ proxy: { url: 'http://10.0.0.5:8080' } }); return await (await fetch('http://open.test/', { client })).text()",
        rules=True,
    ),
    "a SOCKS proxy for fetch": Case(
        "const client = Deno.createHttpClient({ proxy: { url: 'socks5://127.0.0.1:9000' } }); return await (await fetch('http://open.test/', { client })).text()",
        rules=True,
    ),
    # names and packets that are none
    "a long name": Case(fetching(f"http://{'.'.join(['a' * 63] * 4)}.test/"), rules=True),
    "a name with a wild character": Case(dialing("op_en..test"), rules=True),
    "a broken DNS packet": Case(
        UDP.replace("PACKET", "Uint8Array.from([1,2, 1,0, 0,1, 0,0, 0,0, 0,0, 192,12, 0,1, 0,1])")
        .replace("HOST", "127.0.0.1")
        .replace("PORT", "53")
        .replace("yes(m.length)", "m.length === 12 ? no(new Error('format')) : yes(m.length)"),
        UDP.replace("PACKET", QUERY).replace("HOST", "127.0.0.1").replace("PORT", "53"),
    ),
    "a DNS packet without a header": Case(
        UDP.replace("PACKET", "Uint8Array.from([1])").replace("HOST", "127.0.0.1").replace("PORT", "53")
    ),
    "changing an address while the kernel looks": Case(
        # What is passed to `connect` cannot be raced from JavaScript; what goes on listening can be reached without being asked for.
        "const c = await Deno.connect({ hostname: 'open.test', port: 8080 }); c.close(); return await raw('10.0.0.5', 8080, 'GET / HTTP/1.1\\r\\nHost: open.test\\r\\n\\r\\n')",
    ),
}


@pytest.fixture(scope="module")
def guests(world, tmp_path_factory):
    """One program for each set of rules: `guests(rules)`."""
    started = {}

    def found(rules):
        if str(rules) not in started:
            # A worker needs the permission to make one, which sessions do not have; here it has it.
            permissions = ("--allow-net", "--unstable-worker-options", "--unstable-vsock")
            authority = world.folder / "authority.pem" if world.authority else None
            options = {"permissions": permissions, "limits": IMPATIENT, "authority": authority}
            started[str(rules)] = Guest(
                world.gateway, tmp_path_factory.mktemp("guest"), "await serve();", rules, **options
            )
        return started[str(rules)]

    yield found
    for guest in started.values():
        guest.close()


@pytest.mark.parametrize("name", CASES)
def test_no_way_around(guests, world, name):
    case = CASES[name]
    if case.tls and world.authority is None:
        pytest.skip("needs cryptography")
    guest = guests(case.rules)
    world.reached()
    outcome = guest.tried(case.attack)
    reached = world.reached()
    assert {address for address, _ in reached} <= {OPEN}, (outcome, reached)
    if case.needs:
        assert case.needs in str(outcome)
    else:
        assert "error" in outcome
        assert "nothing happened" not in outcome["error"]
    assert "ok" in guest.tried(case.control)


def test_there_are_enough():
    assert len(CASES) >= 25
