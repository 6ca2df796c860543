"""The process that stays outside of a jail and ties its life to the host's."""

from __future__ import annotations

import os
import select
from typing import NoReturn

__all__ = ("keep",)


def keep(pid: int, host: int) -> NoReturn:
    """The life of the process that stays outside of the jail: ends the jail when the host (a pidfd) ends, and ends with the jail.

    Never returns. Nothing but these two events reaches it: it holds no other descriptor.
    """
    jail = os.pidfd_open(pid)
    low, high = sorted((jail, host))
    os.closerange(0, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, 65536)
    poll = select.poll()
    poll.register(jail, select.POLLIN)
    poll.register(host, select.POLLIN)
    if any(fd == host for fd, _ in poll.poll()):
        os.kill(pid, 9)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)
