"""Guests of this process that wait for the next inline session: a new instance and its page faults cost half of a session's first run.

What waits is an instance in its first state, as after `Instance.reset`; the `Guest` around it is made anew, so that nobody who still
holds the last one reaches it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from .guest import Guest
from .memory import PAGE, Instance

if TYPE_CHECKING:
    from .module import GuestModule

__all__ = ("Spares",)

_MOST: Final = 4
_HOT_PAGES: Final = 256
"""Of a session's first run there are some 70; more would be those of what the first one computed."""
_NEAR: Final = 4 * PAGE
"""A page more costs less than a call more."""


class Spares:
    """Up to four. Any thread may take and give back."""

    def __init__(self, module: GuestModule) -> None:
        self.module = module
        self._waiting: list[Instance] = []
        self._hot: list[tuple[int, int]] | None = None
        """What every session writes to, as (offset, length), once it is known."""

    def take(self, memory_limit: int) -> Guest:
        """A fresh guest. Raises as `Guest` does."""
        try:
            instance = self._waiting.pop()
        except IndexError:
            instance = None
        return Guest(self.module, memory_limit=memory_limit, instance=instance)

    def give_back(self, guest: Guest) -> None:
        """Close a guest; what it was made of may wait for the next one."""
        instance = guest.release()
        if instance is None:
            return
        if len(self._waiting) >= _MOST or instance.size() != self.module.base_size:
            instance.close()
            return
        if self._hot is None:
            self._hot = self._written(instance)
        instance.reset(self.module)
        for offset, length in self._hot or ():
            instance.populate(offset, length)
        self._waiting.append(instance)

    def _written(self, instance: Instance) -> list[tuple[int, int]] | None:
        pages = instance.differences(self.module.base_address, 0, self.module.base_size)
        if len(pages) > _HOT_PAGES:
            return None
        ends = [0, *(i for i, (one, next_) in enumerate(pairwise(pages), 1) if next_ - one > _NEAR), len(pages)]
        return [(pages[first], pages[last - 1] + PAGE - pages[first]) for first, last in pairwise(ends) if last]
