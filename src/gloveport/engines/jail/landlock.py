"""Landlock: a domain that a process puts itself into, without privileges and for good.

The domain handles every right of the running kernel's interface version (ABI) up to 7, and grants nothing but what the rules name:
no file outside of them, no TCP (ABI 4), no device `ioctl` (ABI 5), no abstract unix socket and no signal beyond the domain (ABI 6).
Signals include those that the kernel sends for `fcntl(F_SETOWN)`. Source: the kernel's `Documentation/userspace-api/landlock.rst`.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from gloveport.engines.jail import syscalls

__all__ = ("EXECUTE", "READ", "SCOPES_ABI", "WRITE", "Rule", "abi", "restrict")

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_REFER: Final = 1 << 13
_TRUNCATE: Final = 1 << 14
_IOCTL_DEV: Final = 1 << 15
_BIND_TCP: Final = 1 << 0
_CONNECT_TCP: Final = 1 << 1
_FOR_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

EXECUTE: Final = _EXECUTE | _READ_FILE
"""Reading and executing one file."""
READ: Final = _READ_FILE | _READ_DIR
"""Reading a file, or what is below a directory."""
WRITE: Final = (1 << 15) - 1 & ~_EXECUTE
"""Everything but executing and device `ioctl`, below a directory."""

SCOPES_ABI: Final = 6
"""The first ABI that confines signals and abstract unix sockets."""


class Rule(NamedTuple):
    """`rights` (of the constants above) below `path`, or on it when it is a file."""

    path: str
    rights: int


def abi() -> int:
    """The kernel's Landlock version; negative error number when there is none (`ENOSYS`: not built; `EOPNOTSUPP`: not enabled)."""
    return syscalls.attempt("landlock_create_ruleset", None, 0, 1)


def restrict(rules: Sequence[Rule] = (), *, connect: bool = False) -> int:
    """Enters a domain that grants only `rules`; gives the ABI. Needs no_new_privs. Raises `OSError`.

    `connect` leaves outgoing TCP alone; taking a TCP port is refused all the same.
    """
    version = abi()
    if version < 1:
        raise OSError(-version, f"landlock_create_ruleset: {os.strerror(-version)}")
    handled = _handled(version)
    size = 24 if version >= SCOPES_ABI else 16 if version >= 4 else 8
    attributes = struct.pack("QQQ", handled, _BIND_TCP if connect else _BIND_TCP | _CONNECT_TCP, 0b11)[:size]
    ruleset = syscalls.call("landlock_create_ruleset", ctypes.create_string_buffer(attributes, size), size, 0)
    try:
        for rule in rules:
            _add(ruleset, rule, handled)
        syscalls.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _handled(version: int) -> int:
    rights = _REFER - 1
    if version >= 2:
        rights |= _REFER
    if version >= 3:
        rights |= _TRUNCATE
    if version >= 5:
        rights |= _IOCTL_DEV
    return rights


def _add(ruleset: int, rule: Rule, handled: int) -> None:
    try:
        fd = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # a layer that would have made it is missing, or the jail's user cannot reach it; to grant less is safe
    try:
        rights = rule.rights & handled
        if not os.path.isdir(rule.path):
            rights &= _FOR_FILES
        attributes = struct.pack("=Qi", rights, fd)
        syscalls.call("landlock_add_rule", ruleset, 1, ctypes.create_string_buffer(attributes, len(attributes)), 0)
    finally:
        os.close(fd)
