"""What programs ask of the daemon: one JSON object for each packet, and one back.

A packet that brings descriptors is a supervisor's: the plan of its box, the socket of the attachment, and then the sockets of the box.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from ...evaluator import Decision

__all__ = ("MAX_DESCRIPTORS", "SOCKET", "Command", "Said")

SOCKET: Final = "gateway.sock"
LOCK: Final = "gateway.lock"
MAX_DESCRIPTORS: Final = 200
VERSION: Final = 1


class Command(msgspec.Struct, omit_defaults=True):
    """`load`: read the box's plan (again). `close`: it is gone. `end`: the gateway ends when it has answered."""

    do: Literal["status", "load", "why", "decisions", "close", "end"]
    box: str = ""
    host: str = ""
    port: int = 0
    since: int = 0


class Said(msgspec.Struct, omit_defaults=True):
    """The answer to a command, and to the packet of a supervisor."""

    error: str = ""
    version: int = VERSION
    pid: int = 0
    boxes: list[str] = []
    known: bool = False
    """Whether the box is served now."""
    why: str = ""
    count: int = 0
    decisions: list[Decision] = []
