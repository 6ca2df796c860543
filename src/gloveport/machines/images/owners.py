"""Whose the files of a layer are on the host."""

from __future__ import annotations

import dataclasses
import os

__all__ = ("Owners",)


@dataclasses.dataclass(frozen=True, slots=True)
class Owners:
    """How ids in a machine relate to those of the host: shifted by `base` (root), or all of them ours (an ordinary user)."""

    base: int | None
    """The host's id of the machine's id 0; `None`: every file belongs to the user that runs us."""
    count: int = 65536
    """How many ids a machine has. Files of others become those of its `nobody`."""

    @classmethod
    def here(cls, base: int) -> Owners:
        """Those of this process: shifted to `base` if it is root."""
        return cls(base if os.geteuid() == 0 else None)

    @property
    def key(self) -> str:
        """Short, for names of layers: trees of other owners are other layers."""
        return "own" if self.base is None else f"{self.base:x}"

    def outside(self, uid: int) -> int:
        """The host's id for one of the machine's; -1, which `chown` leaves alone, where there is no choice."""
        if self.base is None:
            return -1
        return self.base + (uid if 0 <= uid < self.count else 65534)

    def inside(self, uid: int) -> int:
        """The machine's id for one of the host's."""
        if self.base is None:
            return 0
        return uid - self.base if self.base <= uid < self.base + self.count else 65534
