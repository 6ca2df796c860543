"""Telling a listener what a session does. Without one it costs a look at `tell`."""

from __future__ import annotations

from collections.abc import Callable

from .. import events
from ..errors import PolicyError
from ..policy import Limits
from ..types import Done, Failed
from ..wire import messages as wire
from .commands import OpenCall
from .discovery import CatalogTools, ToolInfo
from .durable import DurableSession
from .outcome import clean, stream_name
from .run import Run
from .saved import Identity

__all__ = ("ObservedSession",)


class ObservedSession(DurableSession):
    """A session that knows its tools by name, and can be listened to."""

    def __init__(
        self,
        session_id: str,
        identity: Identity,
        limits: Limits,
        tools: dict[str, ToolInfo],
        catalog: CatalogTools | None,
    ) -> None:
        super().__init__(session_id, identity, limits, [tool.js_name for tool in tools.values()], catalog)
        self.tools = tools
        self.tell: Callable[..., None] | None = None
        """Told of what happens, if anyone listens: a kind of event, the run's number, and what else that kind has."""

    def tool(self, call_name: str) -> ToolInfo:
        """The tool of a call that was admitted."""
        return self.tools.get(call_name) or self.discovery.info(call_name)

    def tell_started(self, run: Run) -> None:
        """A run began."""
        if self.tell is not None:
            self.tell(events.RunStarted, run.number)

    def observe(self, message: wire.Message, line: str | None) -> None:
        """A message of the run under way was taken in; a console call as `line`, unless it was dropped."""
        run, tell = self.run, self.tell
        if run is None or tell is None:
            return
        if isinstance(message, wire.Log):
            if line is not None:
                tell(events.ConsoleOutput, run.number, stream_name(message.s), line)
        elif isinstance(message, wire.Tail):
            tell(events.ConsoleTruncated, run.number, stream_name(message.s), message.lines, message.bytes)
            tell(events.ConsoleOutput, run.number, stream_name(message.s), clean(message.m).removesuffix("\n"))
        elif isinstance(message, wire.Call):
            call_id = message.id + self.ids_lost
            if message.id in run.open:
                tell(events.CallStarted, run.number, call_id, self.tool(message.n).name)
            else:
                tell(events.CallEnded, run.number, call_id, clean(self.tool(message.n).name)[:200], False, True)

    def tell_refused(self, run: Run, call: OpenCall) -> None:
        """A call was refused after all."""
        if self.tell is not None:
            tool = clean(self.tool(call.name).name)[:200]
            self.tell(events.CallEnded, run.number, call.id + self.ids_lost, tool, False, True)

    def tell_policy_failed(self, run: Run, call: OpenCall, error: PolicyError) -> None:
        """The policy failed."""
        if self.tell is not None:
            self.tell(events.PolicyFailed, run.number, call.id + self.ids_lost, self.tool(call.name).name, error)

    def tell_answered(self, run: Run, call_id: int, tool: str, ok: bool) -> None:
        """A call was answered."""
        if self.tell is not None:
            self.tell(events.CallEnded, run.number, call_id + self.ids_lost, tool, ok)

    def tell_ended(self, run: Run, end: Done | Failed) -> None:
        """A run ended, or was rolled back."""
        if self.tell is not None:
            self.tell(events.RunEnded, run.number, end.status, end.error_type)
