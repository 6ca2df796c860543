"""The self-test that runs inside a jailed process: which forbidden things are possible there?"""

from __future__ import annotations

from collections.abc import Collection

from gloveport.engines.jail.probes import PROBES, Surroundings

__all__ = ("CONNECTED", "EXECUTED", "SHARED", "possible")

SHARED: frozenset[str] = frozenset({"start a thread", "map shared memory"})
"""What a worker for many sessions may do besides."""

EXECUTED: frozenset[str] = frozenset(
    {
        "execve",  # of the one program; Landlock refuses every other file
        "start a thread",
        "map executable memory",
        "make memory executable",
        "make memory executable with a key",
        "socketpair",
        "prctl",
        "ask for a descriptor's signals: O_ASYNC",  # nobody can be made the owner
    }
)
"""What a process that is about to execute a trusted program with a just-in-time compiler may do besides."""

CONNECTED: frozenset[str] = EXECUTED | {"socket", "connect", "bind"}
"""With a network: what its namespace has, which is no device but its own loopback."""


def possible(surroundings: Surroundings, *, expected: Collection[str] = ()) -> list[str]:
    """Tries every forbidden thing but those in `expected`; names those that are possible. Takes about a millisecond.

    It changes this process where a thing is possible: end the process afterwards in that case.
    """
    return [probe.name for probe in PROBES if probe.name not in expected and probe.possible(surroundings)]
