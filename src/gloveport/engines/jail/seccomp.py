"""Seccomp filters: a small assembler for classic BPF, and the calls that install a program.

A policy maps a system call to the conditions under which it is treated specially. Programs are linear: the kernel (5.11 and later)
remembers which calls are allowed whatever their arguments and does not run the program for them, so a search tree gains nothing.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from gloveport.engines.jail import syscalls

__all__ = ("ALWAYS", "Condition", "Policy", "allow_list", "deny_list", "install", "watch")

_ALLOW: Final = 0x7FFF_0000
_KILL_PROCESS: Final = 0x8000_0000
_ERRNO: Final = 0x0005_0000
_LOAD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_GREATER_EQUAL: Final = 0x35
_JUMP_SET: Final = 0x45
_RETURN: Final = 0x06
_USER_NOTIFICATION: Final = 0x7FC0_0000
_NEW_LISTENER: Final = 1 << 3
_NUMBER_OFFSET: Final = 0
_ARCH_OFFSET: Final = 4
_ARGUMENTS_OFFSET: Final = 16

Instruction = tuple[int, int, int, int]


class Condition(NamedTuple):
    """A test of the low 32 bits of one argument. (Every argument tested here is an `int` in the kernel, or a set of low bits.)"""

    argument: int
    test: Literal["in", "not_in", "none_of", "all_of", "not_all_of"]
    """`in` / `not_in`: equals one / none of `values`; `none_of`: no bit of `values[0]` is set; `all_of`: every bit of it is set;
    `not_all_of`: one of its bits is not set."""
    values: tuple[int, ...]


ALWAYS: Final[tuple[Condition, ...]] = ()
"""No condition."""

Policy = Mapping[str, tuple[Condition, ...]]


def allow_list(policy: Policy) -> bytes:
    """A program that allows the calls of `policy` when all their conditions hold, and refuses everything else.

    A refused call gives `EPERM`; `clone3` and calls newer than this table give `ENOSYS`, so that a C library falls back to the older call.
    """
    body: list[Instruction] = []
    for name, conditions in policy.items():
        body += _when(name, conditions, _ALLOW, otherwise=_ERRNO | errno.EPERM)
    return _assemble([*_preamble(), *_newer(), *body, (_RETURN, 0, 0, _ERRNO | errno.EPERM)])


def deny_list(policy: Policy) -> bytes:
    """A program that refuses the calls of `policy` unless they have conditions and all of these hold, and allows everything else.

    For programs whose set of calls is their own business and changes with their version.
    """
    body: list[Instruction] = []
    for name, conditions in policy.items():
        refusal = _ERRNO | errno.EPERM
        if conditions:
            body += _when(name, conditions, _ALLOW, otherwise=refusal)
        else:
            body += _when(name, (), refusal, otherwise=refusal)
    return _assemble([*_preamble(), *_newer(), *body, (_RETURN, 0, 0, _ALLOW)])


def install(program: bytes) -> None:
    """Puts `program` on this thread (and what it starts), for good. Needs no_new_privs. Raises `OSError`."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    syscalls.call("seccomp", 1, 0, ctypes.create_string_buffer(header, len(header)))


def watch(name: str) -> int:
    """A descriptor on which the kernel asks before each call of that name by this thread and what it starts: seccomp_unotify(2).

    Where the kernel or what surrounds this process does not allow that (a process has one such descriptor at most), -1.
    Once nobody holds the descriptor any more, the call gives `ENOSYS`. Filters installed later still refuse what they refuse.
    """
    n = syscalls.number(name)
    assert n is not None
    body: list[Instruction] = [(_JUMP_EQUAL, 0, 1, n), (_RETURN, 0, 0, _USER_NOTIFICATION), (_RETURN, 0, 0, _ALLOW)]
    program = _assemble([*_preamble(), *body])
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    return max(-1, syscalls.attempt("seccomp", 1, _NEW_LISTENER, ctypes.create_string_buffer(header, len(header))))


def _preamble() -> list[Instruction]:
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH_OFFSET),
        (_JUMP_EQUAL, 1, 0, syscalls.AUDIT_ARCH),
        (_RETURN, 0, 0, _KILL_PROCESS),  # 32-bit calls have other numbers: nothing of ours makes them
        (_LOAD, 0, 0, _NUMBER_OFFSET),
    ]
    if syscalls.MACHINE == "x86_64":
        program += [(_JUMP_GREATER_EQUAL, 0, 1, syscalls.X32_BIT), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    return program


def _newer() -> list[Instruction]:
    newest = syscalls.newest()
    absent = _ERRNO | errno.ENOSYS
    clone3 = syscalls.number("clone3")
    assert clone3 is not None
    return [
        # clone3 hides its flags behind a pointer, where no filter can see them.
        (_JUMP_EQUAL, 0, 1, clone3),
        (_RETURN, 0, 0, absent),
        (_JUMP_GREATER_EQUAL, 0, 1, newest + 1),
        (_RETURN, 0, 0, absent),
    ]


def _when(name: str, conditions: Iterable[Condition], action: int, *, otherwise: int) -> list[Instruction]:
    n = syscalls.number(name)
    if n is None:
        return []
    block: list[Instruction] = []
    for condition in conditions:
        block += _check(condition, otherwise)
    block.append((_RETURN, 0, 0, action))
    return [(_JUMP_EQUAL, 0, len(block), n), *block]


def _check(condition: Condition, otherwise: int) -> list[Instruction]:
    load: Instruction = (_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * condition.argument)
    refuse: Instruction = (_RETURN, 0, 0, otherwise)
    if condition.test == "in":
        count = len(condition.values)
        tests: list[Instruction] = [
            (_JUMP_EQUAL, count - i, 0, v & 0xFFFF_FFFF) for i, v in enumerate(condition.values)
        ]
        return [load, *tests, refuse]
    if condition.test == "not_in":
        return [load, *(i for v in condition.values for i in ((_JUMP_EQUAL, 0, 1, v & 0xFFFF_FFFF), refuse))]
    if condition.test == "none_of":
        return [load, (_JUMP_SET, 0, 1, condition.values[0]), refuse]
    bits = [bit for bit in (1 << i for i in range(32)) if condition.values[0] & bit]
    if condition.test == "all_of":
        return [load, *(i for bit in bits for i in ((_JUMP_SET, 1, 0, bit), refuse))]
    return [load, *((_JUMP_SET, 0, len(bits) - i, bit) for i, bit in enumerate(bits)), refuse]


def _assemble(program: list[Instruction]) -> bytes:
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)
