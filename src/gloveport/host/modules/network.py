"""The network of a session's worker."""

from __future__ import annotations

import dataclasses
import threading
from typing import Final

import anyio.to_thread

from ...egress.gateway import Attachment
from ...engines.deno.worker import DenoWorker
from ...errors import EngineUnavailableError
from ...policy import NetworkRules
from ..gateway import gateway
from .result import ModuleResult

__all__ = ("SessionNetwork",)

_TOLD: Final = 3


class SessionNetwork:
    """The rules of a session, and the attachment of the worker that it has now."""

    def __init__(self, rules: NetworkRules) -> None:
        self.rules = rules
        self._attachment: Attachment | None = None
        self._turn: object = None
        self._lock = threading.Lock()

    @property
    def alive(self) -> bool:
        """Whether the gateway still serves the worker."""
        return self._attachment is not None and self._attachment.alive

    async def attach(self, worker: DenoWorker) -> None:
        """Gives a worker, which nobody has used yet, its network; it takes the place of the last one."""
        sockets = worker.take_network()
        if sockets is None:
            raise EngineUnavailableError("the worker has no network")
        self.close()
        turn = self._turn = object()

        def serve() -> None:
            # It may come too late: whoever waits can be cancelled, and the thread goes on.
            attachment = gateway().attach(sockets, self.rules)
            with self._lock:
                wanted = self._turn is turn
                if wanted:
                    self._attachment = attachment
            if not wanted:
                attachment.close()

        await anyio.to_thread.run_sync(serve)

    def close(self) -> None:
        """Ends every connection. Idempotent."""
        with self._lock:
            self._turn = None
            attachment, self._attachment = self._attachment, None
        if attachment is not None:
            attachment.close()

    async def noted(self, result: ModuleResult) -> ModuleResult:
        """The result with what was decided about connections, which a failure repeats if it does not say so itself."""
        attachment = self._attachment
        if attachment is None:
            return result
        decisions = await anyio.to_thread.run_sync(attachment.new_decisions)
        error = result.error
        if error is not None:
            refused = dict.fromkeys(decision.reason for decision in decisions if not decision.allowed)
            unsaid = [reason for reason in refused if reason not in error][:_TOLD]
            error += "".join(f"\nblocked by policy: {reason}." for reason in unsaid)
        return dataclasses.replace(result, error=error, decisions=decisions)
