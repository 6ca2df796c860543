"""The process that stays outside of a jail and ties its life to the host's."""

from __future__ import annotations

import os
import select
import signal
from typing import NoReturn

from gloveport.engines.jail import descriptors

__all__ = ("keep",)


def keep(pid: int, host: int) -> NoReturn:
    """The life of the process that stays outside of the jail: ends the jail when the host (a pidfd) ends, and ends with the jail.

    Never returns. Nothing but these two events reaches it: it holds no other descriptor, and what a service manager or a terminal
    sends to every process of a service is for the host, which may want to finish first.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    jail = os.pidfd_open(pid)
    descriptors.close_others((jail, host))
    poll = select.poll()
    poll.register(jail, select.POLLIN)
    poll.register(host, select.POLLIN)
    if any(fd == host for fd, _ in poll.poll()):
        os.kill(pid, 9)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)
