"""Signals without `kill`, and calls through another ABI: what a deny-list by name forgets."""

from __future__ import annotations

import json

import pytest
from jail_people import Person, people

from gloveport.engines.jail import filters, landlock, seccomp, syscalls


@pytest.mark.parametrize("hardening", ["none", "seccomp", "landlock"])
@pytest.mark.parametrize("person", people("root", "ordinary"), indirect=True)
def test_a_sibling_cannot_be_killed_as_the_owner_of_a_descriptor(person: Person, hardening: str) -> None:
    if hardening == "landlock" and landlock.abi() < landlock.SCOPES_ABI:
        pytest.skip("this kernel's Landlock does not confine signals")
    killed = person.run("jail/jail_owner_signal.py", json.dumps({"hardening": hardening}))["killed"]
    assert killed is (hardening == "none")


@pytest.mark.skipif(syscalls.MACHINE != "x86_64", reason="x32 belongs to x86-64")
def test_the_x32_abi_is_refused_before_any_rule() -> None:
    for program in (filters.worker(), filters.executed()):
        assert _run(program, number=syscalls.X32_BIT | 39) == 0x0005_0000 | 38
    assert _run(filters.worker(), number=39) == 0x7FFF_0000


def test_a_foreign_architecture_ends_the_process() -> None:
    other = next(value for name, value in syscalls.ARCHITECTURES.items() if name != syscalls.MACHINE)
    for program in (filters.worker(), filters.shared_worker(), filters.zygote(), filters.executed()):
        assert _run(program, number=0, arch=other) == 0x8000_0000


def test_unknown_and_newer_calls() -> None:
    assert _run(filters.worker(), number=5000) == 0x0005_0000 | 38
    clone3 = syscalls.number("clone3")
    assert clone3 is not None
    for program in (filters.worker(), filters.shared_worker(), filters.executed()):
        assert _run(program, number=clone3) == 0x0005_0000 | 38


@pytest.mark.parametrize(
    ("name", "arguments", "worker", "shared", "executed"),
    [
        ("mmap", (0, 4096, 3, 0x22), True, True, True),
        ("mmap", (0, 4096, 3, 0x21), False, True, False),
        ("mmap", (0, 4096, 3, 0x01), False, True, True),
        ("mmap", (0, 4096, 3, 0x23), False, True, False),
        ("prctl", (1, 0), False, False, False),
        ("prctl", (15, 0), False, False, True),
        ("memfd_create", (), False, False, False),
        ("inotify_init", (), False, False, False),
        ("io_setup", (), False, False, False),
        ("accept", (), False, False, False),
        ("mmap", (0, 4096, 7, 0x22), False, False, True),
        ("mprotect", (0, 4096, 3), True, True, True),
        ("mprotect", (0, 4096, 5), False, False, True),
        ("fcntl", (0, 1), True, True, True),
        ("fcntl", (0, 8), False, False, False),
        ("fcntl", (0, 10), False, False, False),
        ("fcntl", (0, 15), False, False, False),
        ("ioctl", (0, 0x5421), True, True, True),
        ("ioctl", (0, 0x8901), False, False, False),
        ("prlimit64", (0,), True, True, True),
        ("prlimit64", (1,), False, False, False),
        ("clone", (0x003D_0F00,), False, True, True),
        ("clone", (17,), False, False, False),
        ("clone", (0x003D_0F00 | 0x1000_0000,), False, False, False),
        ("recvmsg", (), False, True, True),
        ("socketpair", (1,), False, False, True),
        ("socketpair", (2,), False, False, False),
        ("tgkill", (1,), False, False, True),
        ("tgkill", (2,), False, False, False),
        ("execve", (), False, False, True),
        ("execveat", (), False, False, False),
        ("openat", (), False, False, True),
    ],
)
def test_rules(name: str, arguments: tuple[int, ...], worker: bool, shared: bool, executed: bool) -> None:
    n = syscalls.number(name)
    assert n is not None
    for program, allowed in (
        (filters.worker(), worker),
        (filters.shared_worker(), shared),
        (filters.executed(), executed),
    ):
        assert (_run(program, n, *arguments) == 0x7FFF_0000) is allowed


def test_a_filter_needs_no_new_privileges_or_fails_loudly() -> None:
    assert seccomp.allow_list({"read": ()}) != seccomp.allow_list({"write": ()})
    with pytest.raises(KeyError):
        seccomp.allow_list({"no_such_call": ()})


def _run(program: bytes, number: int, *arguments: int, arch: int | None = None) -> int:
    """A machine for the few instructions that our filters use, apart from the kernel's."""
    import struct

    words = struct.pack(
        "=iIQ6Q", number, syscalls.AUDIT_ARCH if arch is None else arch, 0, *arguments, *([0] * (6 - len(arguments)))
    )
    code = [struct.unpack_from("HBBI", program, i) for i in range(0, len(program), 8)]
    at, value = 0, 0
    while True:
        operation, yes, no, k = code[at]
        at += 1
        if operation == 0x20:
            (value,) = struct.unpack_from("I", words, k)
        elif operation == 0x06:
            return k
        else:
            holds = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[operation]
            at += yes if holds else no
