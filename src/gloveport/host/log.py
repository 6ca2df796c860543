"""Telling a `CallLog`, and asking it what happened after a session was saved."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, cast

from ..calls import CallLog, LoggedCall
from ..core.commands import Note
from ..core.session import Session
from ..errors import CallOutcomeUnknownError, JournalError

__all__ = ("check_log", "note_at_once", "note_to", "raise_unknown", "take_in")


def check_log(log: Any) -> CallLog | None:
    """The option `call_log`. Raises `TypeError`."""
    if log is not None and not isinstance(log, CallLog):
        raise TypeError("`call_log` must have the methods of `gloveport.calls.CallLog`: started, answered and calls")
    return log


async def note_to(log: CallLog, note: Note) -> None:
    """Tell the log, and wait until it knows."""
    for begun in note.started:
        told = log.started(begun)
        if inspect.isawaitable(told):
            await told
    for info, ok, answer in note.answered:
        told = log.answered(info, ok, answer)
        if inspect.isawaitable(told):
            await told


def note_at_once(log: CallLog, note: Note, await_here: Callable[[Any], None]) -> None:
    """The same for blocking code."""
    for begun in note.started:
        told = log.started(begun)
        if inspect.isawaitable(told):
            await_here(told)
    for info, ok, answer in note.answered:
        told = log.answered(info, ok, answer)
        if inspect.isawaitable(told):
            await_here(told)


def take_in(core: Session, calls: Any) -> None:
    """What `CallLog.calls` gave."""
    if not isinstance(calls, Iterable):
        raise TypeError(f"`CallLog.calls` must give LoggedCall objects, not {type(calls).__name__}")
    given = list(cast("Iterable[Any]", calls))
    keys = {call.idempotency_key for call in given if isinstance(call, LoggedCall)}
    if len(keys) != len(given):
        raise JournalError("`CallLog.calls` must give LoggedCall objects, one for each key")
    core.take_log(given)


def raise_unknown(core: Session) -> None:
    """Raise `CallOutcomeUnknownError` for the first call whose outcome nobody knows."""
    run = core.run
    infos = [core.call_info(call) for call in run.open.values() if call.unknown] if run is not None else []
    found = [(info.name, info.call_id, info.idempotency_key) for info in infos]
    found += [(logged.name, logged.call_id, logged.idempotency_key) for logged in core.unmade]
    if not found:
        return
    name, call_id, key = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    raise CallOutcomeUnknownError(
        f"call {call_id} of `{name}`{more} was begun, and its process ended before it noted an answer: it may have happened or not. "
        'Load with on_unknown="ask" to answer it when the session comes to it, or with a function that finds out',
        tool=name,
        call_id=call_id,
        idempotency_key=key,
    )
