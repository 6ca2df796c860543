"""crypto of the guest: seeded, limited, without keys."""

from __future__ import annotations

import re

from gloveport import AgentSandbox

CODE = "return [crypto.randomUUID(), [...crypto.getRandomValues(new Uint8Array(40))], Math.random()]"


def inline(**options):
    return AgentSandbox({}, isolation="inline", **options)


def test_uuids_are_version_4_and_differ():
    with inline() as session:
        ids = session.run("return Array.from({length: 200}, () => crypto.randomUUID())")
    assert len(set(ids)) == 200
    assert all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", i) for i in ids)


def test_the_seed_decides_and_other_sessions_differ():
    with inline(random_seed=7) as a, inline(random_seed=7) as b, inline(random_seed=8) as c:
        first = a.run(CODE)
        assert first == b.run(CODE)
        assert first != c.run(CODE)
        assert first != a.run(CODE)


def test_bytes_are_spread():
    with inline(random_seed=1) as session:
        code = "const n = new Array(256).fill(0); for (const x of crypto.getRandomValues(new Uint8Array(65536))) n[x]++; return n"
        counts = session.run(code)
    assert min(counts) > 150
    assert max(counts) < 370


def test_only_integers_and_at_most_65536_bytes():
    code = """
    const refused = [new Float64Array(1), new DataView(new ArrayBuffer(1)), [1], new Uint8Array(65537),
      new Uint32Array(16385)]
      .map(a => { try { crypto.getRandomValues(a); return 'filled' } catch (e) { return e.name } });
    const a = new Uint32Array(16384);
    return [refused, crypto.getRandomValues(a) === a, crypto.getRandomValues(new BigInt64Array(2)).length]
    """
    with inline() as session:
        assert session.run(code) == [["TypeMismatchError"] * 3 + ["QuotaExceededError"] * 2, True, 2]


def test_only_the_bytes_of_the_view_are_filled():
    code = """
    const b = new Uint8Array(64); crypto.getRandomValues(b.subarray(16, 32)); return [b.subarray(0, 16).every(x => !x),
      b.subarray(32).every(x => !x), b.subarray(16, 32).some(x => x)]
    """
    with inline() as session:
        assert session.run(code) == [True, True, True]


def test_there_is_no_key_material():
    with inline() as session:
        assert session.run("return ['subtle' in crypto, typeof CryptoKey, typeof crypto.randomUUID]") == [
            False,
            "undefined",
            "function",
        ]
