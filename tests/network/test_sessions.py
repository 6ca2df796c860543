"""`allow_network=` of a session: the model reads why, the application what was decided."""

# ruff: noqa: E501  (JavaScript, a line for each case)

from __future__ import annotations

import asyncio
import os
import signal
import time

import anyio
import pytest

from gloveport import NetworkRules
from gloveport.egress.gateway import connection_rules
from gloveport.errors import TypeScriptSandboxUnavailableError
from gloveport.host import gateway as home
from gloveport.host.modules import network
from gloveport.host.modules.session import TypeScriptSandboxSession

from .world import OPEN

BLOCKED = "blocked by policy: "


@pytest.fixture
def session(world, monkeypatch):
    """Sessions whose gateway is the world's."""
    monkeypatch.setattr(network, "gateway", lambda: world.gateway)
    world.reached()
    return TypeScriptSandboxSession


def test_a_module_that_fetches(session, world):
    async def main():
        async with session(allow_network=["open.test"]) as one:
            got = await one.run_module("export default async () => (await fetch('http://open.test/')).text()")
            assert (got.ok, got.value) == (True, OPEN)
            assert [(d.host, d.port, d.allowed, d.rule) for d in got.decisions] == [
                ("open.test", 80, True, "open.test")
            ]
            refused = await one.run_module("const a = 1;\nawait fetch('https://other.test/x?secret=1')")
            assert refused.error_type == "TypeError"
            assert refused.error.startswith(
                f"TypeError: {BLOCKED}https://other.test is not on the allow list. Do not try it another way."
            )
            assert (refused.line, refused.exit_reason) == (2, "threw")
            assert [(d.host, d.allowed) for d in refused.decisions] == [("other.test", False)]
            assert "secret" not in str(refused.decisions)
            nothing = await one.run_module("1 + 1")
            assert (nothing.value, nothing.decisions, nothing.state_lost) == (2, (), False)

    asyncio.run(main())
    assert {address for address, _ in world.reached()} == {OPEN}


def test_under_trio(session):
    pytest.importorskip("trio")

    async def main():
        one = session(allow_network=["open.test"])
        for _ in range(2):
            async with one:
                got = await one.run_module("(await (await fetch('http://open.test/')).text())")
                assert (got.value, len(got.decisions)) == (OPEN, 1)
        with anyio.move_on_after(0.01):
            await one.__aenter__()
        assert one._network._attachment is None or one.is_open
        await one.close()
        assert one._network._attachment is None

    anyio.run(main, backend="trio")


def test_a_failure_that_does_not_say_why_is_told_why(session):
    async def main():
        async with session(allow_network=["open.test"]) as one:
            result = await one.run_module(
                "try { await fetch('http://other.test/') } catch { throw new Error('no luck') }"
            )
            assert result.error.startswith("Error: no luck")
            assert f"{BLOCKED}http://other.test is not on the allow list" in result.error
            fine = await one.run_module("try { await fetch('http://other.test/') } catch { 'went on' }")
            assert fine.ok
            assert fine.error is None
            assert len(fine.decisions) == 1

    asyncio.run(main())


def test_without_it_there_is_no_network(session, world):
    async def main():
        async with session() as one:
            result = await one.run_module("await fetch('http://open.test/')")
            assert not result.ok
            assert result.decisions == ()

    asyncio.run(main())
    assert world.reached() == []


def test_a_fresh_worker_has_the_rules_too(session):
    code = "globalThis.n = (globalThis.n ?? 0) + 1; [(await (await fetch('http://open.test/')).text()), n]"

    async def main():
        async with session(allow_network=["open.test"]) as one:
            assert (await one.run_module(code)).value == [OPEN, 1]
            assert (await one.run_module(code)).value == [OPEN, 2]
            await one.reset()
            assert (await one.run_module(code)).value == [OPEN, 1]
            assert (await one.run_module("for (;;);", timeout=0.3)).exit_reason == "timeout"
            after = await one.run_module(code)
            assert (after.value, after.state_lost) == ([OPEN, 1], True), after
        async with one:
            assert (await one.run_module(code)).value == [OPEN, 1]

    asyncio.run(main())


def test_when_the_gateway_was_killed_the_next_call_has_a_fresh_worker(session, world):
    code = "(await (await fetch('http://open.test/')).text())"

    async def main():
        async with session(allow_network=["open.test"]) as one:
            assert (await one.run_module(code)).value == OPEN
            os.kill(world.gateway.pid, signal.SIGKILL)
            while one._network.alive:
                await asyncio.sleep(0.01)
            after = await one.run_module(code)
            assert (after.value, after.state_lost) == (OPEN, True)

    asyncio.run(main())


def test_sessions_do_not_mix(session):
    async def main():
        async with session(allow_network=["open.test"]) as one, session(allow_network=["other.test"]) as two:
            code = "const out = []; for (const h of ['open', 'other']) out.push(await fetch(`http://${h}.test/`).then((r) => r.status, (e) => e.message.slice(0, 17))); out"
            first, second = await asyncio.gather(one.run_module(code), two.run_module(code))
            assert first.value == [200, BLOCKED[:17]]
            assert second.value == [BLOCKED[:17], 200]
            assert [d.allowed for d in first.decisions] == [True, False]
            assert [d.allowed for d in second.decisions] == [False, True]

    asyncio.run(main())


def test_a_start_that_is_cancelled_leaves_nothing(session, world, monkeypatch):
    def count():
        return len(os.listdir(f"/proc/{world.gateway.pid}/fd"))

    async def main():
        async with session(allow_network=["open.test"]):
            pass
        before = count()

        class Slow:
            def attach(self, *arguments):
                time.sleep(0.5)
                return world.gateway.attach(*arguments)

        monkeypatch.setattr(network, "gateway", Slow)
        one = session(allow_network=["open.test"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await one.__aenter__()
        assert not one.is_open
        await asyncio.sleep(0.5)
        assert one._network._attachment is None
        for _ in range(100):
            if count() <= before:
                break
            await asyncio.sleep(0.02)
        assert count() <= before

    asyncio.run(main())


@pytest.mark.parametrize("sandbox", ["off"])
def test_without_a_jail_there_is_no_network(sandbox):
    async def main():
        with pytest.raises(TypeScriptSandboxUnavailableError, match="network"):
            async with TypeScriptSandboxSession(allow_network=True, sandbox=sandbox):
                pass
        async with TypeScriptSandboxSession(sandbox=sandbox) as control:
            assert (await control.run_module("1")).value == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("rules", "error", "said"),
    [
        (["api.example.com/v1"], ValueError, "the path of the network rule 'api.example.com/v1' cannot be enforced"),
        (["POST api.example.com"], ValueError, "the methods of the network rule"),
        (NetworkRules(deny=("api.example.com/v1",)), ValueError, "cannot be enforced"),
        (["10.0.0.0/8"], ValueError, "for addresses write `cidr:"),
        ("api.example.com", TypeError, r"write \['api.example.com'\]"),
        ([1], TypeError, "allow_network"),
        (1, TypeError, "allow_network"),
    ],
)
def test_rules_that_cannot_be(rules, error, said):
    with pytest.raises(error, match=said):
        TypeScriptSandboxSession(allow_network=rules)


def test_what_allow_network_means():
    assert connection_rules(False) is None
    assert str(connection_rules(True).allow[0]) == "*:*"
    assert connection_rules(["a.test:*"]) == NetworkRules(allow=("a.test:*",))
    assert connection_rules([]) == NetworkRules()
    rules = NetworkRules(allow=("a.test",), deny=("b.test",), private=("10.0.0.0/8",))
    assert connection_rules(rules) is rules
    assert home.gateway() is home.gateway()


def test_extra_authorities(session, world, monkeypatch):
    """SSL_CERT_FILE, also where only root may read it; without it the test's authority is unknown."""
    if world.authority is None:
        pytest.skip("needs cryptography")
    code = "(await (await fetch('https://open.test/')).text())"
    file = world.folder / "authority.pem"
    file.chmod(0o600)

    async def main(expected):
        async with session(allow_network=["open.test"]) as one:
            result = await one.run_module(code)
            assert (result.value == OPEN) is expected, result.error

    try:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        asyncio.run(main(False))
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        asyncio.run(main(True))
        monkeypatch.setenv("SSL_CERT_FILE", str(file) + "x")
        with pytest.raises(ValueError, match="SSL_CERT_FILE"):
            session(allow_network=True)
        session()
    finally:
        file.chmod(0o644)


ATTACKS = {
    "a redirect": "await (await fetch('http://open.test/to?http://10.0.0.5/')).text()",
    "an import": "await import('http://other.test/x.js')",
    "an import by data": "await import('data:text/javascript,export default await (await fetch(\"http://other.test/\")).text()')",
    "a package": "await import('npm:left-pad')",
    "more permissions": "if ((await Deno.permissions.request({ name: 'run' })).state !== 'granted') throw new Error('no'); 1",
    "revoking and asking": "await Deno.permissions.revoke({ name: 'net' }); await fetch('http://open.test/')",
    "a file": "await (await fetch('file:///etc/resolv.conf')).text()",
    "the resolver's file": "await Deno.readTextFile('/etc/resolv.conf')",
    "the original fetch": "await (await new (Object.getPrototypeOf(async () => {}).constructor)('return fetch(\"http://10.0.0.5/\")')()).text()",
    "a program": "await new Deno.Command('/bin/true').output()",
    "listening": "Deno.listen({ port: 8077 }).addr.port",
}


def test_attacks_in_a_session(session, world):
    async def main():
        async with session(allow_network=["open.test"]) as one:
            for name, code in ATTACKS.items():
                result = await one.run_module(code)
                assert not result.ok, (name, result)
                if name == "revoking and asking":
                    await one.reset()
                control = await one.run_module("(await (await fetch('http://open.test/')).text())")
                assert control.value == OPEN, name

    asyncio.run(main())
    assert {address for address, _ in world.reached()} == {OPEN}


def test_the_permissions_of_a_runtime(session, world):
    from gloveport import Runtime, RuntimePermissions

    async def main():
        runtime = Runtime(permissions=RuntimePermissions(allow_net=NetworkRules(allow=("open.test",))))
        async with session(runtime=runtime) as one:
            assert (await one.run_module("(await (await fetch('http://open.test/')).text())")).value == OPEN
            assert BLOCKED in (await one.run_module("await fetch('http://other.test/')")).error
        with pytest.raises(ValueError, match="beside `runtime`"):
            session(runtime=runtime, allow_network=True)
        with pytest.raises(TypeScriptSandboxUnavailableError, match="has its own there"):
            async with session(
                runtime=Runtime(permissions=RuntimePermissions(allow_net=NetworkRules(), allow_read=("/etc",)))
            ):
                pass

    asyncio.run(main())
