"""Key rings: rotation, encryption, and what an attacker may try with blobs and keys that were meant for something else."""

from __future__ import annotations

import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport import AgentSandbox, JournalError, KeyRing, SealError
from gloveport.core.seal import seal, unseal

K1, K2, PLAIN = b"1" * 32, b"2" * 32, b"plain key 012345"
SECRET = b"the secret word is xylophone"


def ring(**options):
    return KeyRing({"2026": K1}, **options)


@pytest.mark.parametrize("encrypt", [False, True])
@given(payload=st.binary(max_size=300), data=st.binary(max_size=50))
def test_what_is_sealed_opens_again_and_only_with_its_data(encrypt, payload, data):
    keys = ring(encrypt=encrypt)
    blob = seal(payload, keys, data)
    assert unseal(blob, keys, data) == payload
    with pytest.raises(SealError):
        unseal(blob, keys, data + b"\0")


@pytest.mark.parametrize("encrypt", [False, True])
def test_any_change_is_found(encrypt):
    keys = KeyRing({"2026": K1, "2027": K1}, primary="2026", encrypt=encrypt)
    blob = seal(b"payload", keys, b"d")
    for position in range(len(blob)):
        for bit in (1, 128):
            changed = bytearray(blob)
            changed[position] ^= bit
            with pytest.raises(SealError):
                unseal(bytes(changed), keys, b"d")
    for length in range(len(blob)):
        with pytest.raises(SealError):
            unseal(blob[:length], keys, b"d")
    with pytest.raises(SealError):
        unseal(blob + b"\0", keys, b"d")


def test_rotation_old_keys_open_and_the_primary_seals():
    old = KeyRing({"a": K1})
    both = KeyRing({"a": K1, "b": K2}, primary="b")
    new = KeyRing({"b": K2})
    blob = seal(SECRET, old)
    assert unseal(blob, both) == SECRET
    with pytest.raises(SealError, match="'a', which is not in this KeyRing"):
        unseal(blob, new)
    assert unseal(seal(SECRET, both), new) == SECRET
    assert both.primary == "b"


def test_encryption_hides_what_signing_shows():
    assert SECRET in seal(SECRET, ring())
    keys = ring(encrypt=True)
    one, two = seal(SECRET, keys), seal(SECRET, keys)
    assert SECRET not in one
    assert one != two, "the same twice must not look the same"


def test_no_downgrade_from_encrypted_to_signed():
    signed = seal(SECRET, ring())
    with pytest.raises(SealError, match="only signed"):
        unseal(signed, ring(encrypt=True))
    assert unseal(signed, ring(encrypt=True, accept_signed=True)) == SECRET, "the control"
    encrypted = seal(SECRET, ring(encrypt=True))
    assert unseal(encrypted, ring()) == SECRET
    relabelled = encrypted[:5] + b"\x01" + encrypted[6:]
    for keys in (ring(), ring(encrypt=True), ring(encrypt=True, accept_signed=True)):
        with pytest.raises(SealError):
            unseal(relabelled, keys)


def test_no_key_does_the_work_of_another():
    """One secret under two names, for two algorithms and as a plain key: none opens what another sealed."""
    same = KeyRing({"a": K1, "b": K1}, primary="a")
    blob = seal(SECRET, same)
    assert unseal(blob, same) == SECRET
    renamed = blob.replace(b"\x01a", b"\x01b", 1)
    with pytest.raises(SealError, match="not authentic"):
        unseal(renamed, same)
    plain = seal(SECRET, K1)
    tag, payload = plain[6:38], plain[38:]
    assert unseal(plain, K1) == SECRET
    for keys in (same, KeyRing({"a": K1}, encrypt=True, accept_signed=True)):
        with pytest.raises(SealError):
            unseal(b"GLVS\x02\x01\x01a" + tag + payload, keys)
        with pytest.raises(SealError, match="plain key"):
            unseal(plain, keys)
    with pytest.raises(SealError, match="KeyRing"):
        unseal(blob, K1)


def test_a_plain_key_moves_into_a_ring():
    blob = seal(SECRET, PLAIN)
    keys = KeyRing({"new": K1}, encrypt=True, unnamed=PLAIN)
    assert unseal(blob, keys) == SECRET
    with pytest.raises(SealError):
        unseal(blob, KeyRing({"new": K1}, unnamed=K2))


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"GLVS",
        b"GLVS\x02",
        b"GLVS\x02\x01\x40a",
        b"GLVS\x03\x01\x01a" + bytes(60),
        b"GLVS\x02\x07\x042026" + bytes(60),
    ],
)
def test_what_is_no_blob_is_refused(blob):
    for keys in (ring(), ring(encrypt=True, accept_signed=True, unnamed=PLAIN)):
        with pytest.raises(SealError):
            unseal(blob, keys)


@pytest.mark.parametrize(
    ("keys", "options", "text"),
    [
        ({}, {}, "primary"),
        ({"a": K1, "b": K2}, {}, "primary"),
        ({"a": K1}, {"primary": "b"}, "not among"),
        ({"a b": K1}, {}, "name of a key"),
        ({"": K1}, {}, "name of a key"),
        ({"x" * 65: K1}, {}, "name of a key"),
        ({"a": b"short"}, {}, "16 bytes"),
        ({"a": K1}, {"unnamed": b"short"}, "16 bytes"),
    ],
)
def test_a_bad_ring_is_refused(keys, options, text):
    with pytest.raises(ValueError, match=text):
        KeyRing(keys, **options)
    with pytest.raises(TypeError, match="bytes or a KeyRing"):
        KeyRing({"a": "text" * 8})


def test_keys_do_not_leak():
    keys = KeyRing({"a": K1}, unnamed=PLAIN)
    assert "1111" not in repr(keys)
    assert "plain" not in repr(keys)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(keys)


def test_without_the_library_encryption_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ImportError, match=r"gloveport\[encryption\]"):
        ring(encrypt=True)
    ring()


@pytest.mark.parametrize("encrypt", [False, True])
def test_sessions_take_a_ring(encrypt):
    keys = ring(encrypt=encrypt)
    with AgentSandbox({"ask": lambda q: q}, isolation="inline") as session:
        session.start("const secret = 'xylophone'; return await ask(secret)")
        blob = session.dump(keys, associated_data=b"tenant")
    with AgentSandbox.load(blob, keys, {"ask": lambda q: q}, isolation="inline", associated_data=b"tenant") as copy:
        assert copy.pending.args == ("xylophone",)
    with pytest.raises(SealError):
        AgentSandbox.load(blob, keys, {"ask": lambda q: q}, isolation="inline")
    with pytest.raises(JournalError):
        AgentSandbox.load(blob, K1, {"ask": lambda q: q}, isolation="inline", associated_data=b"tenant")
