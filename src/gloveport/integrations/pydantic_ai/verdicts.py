"""Answers from outside the run to a call that a script waits at."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic_ai.exceptions import ModelRetry, ToolFailed, UserError
from pydantic_ai.messages import RetryFeedbackPart, ToolReturnPart
from pydantic_ai.tools import ToolApproved, ToolDenied

from ...errors import ToolError
from .ledger import Held
from .nested import NestedCalls

__all__ = ("Verdict",)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the application gave for a script's tool call id."""

    given: Any
    """`ToolApproved`, `ToolDenied`, or a result."""
    taken: bool = False
    """It was taken from the results of the run, for a script that was known to wait."""

    def check(self, call: Held) -> None:
        """Raise `UserError` unless this answers what the call asked for."""
        approval = isinstance(self.given, (ToolApproved, ToolDenied))
        if isinstance(self.given, ToolDenied) or approval == (call.kind == "approval"):
            return
        wanted = "an approval or a denial" if call.kind == "approval" else "a result, in `DeferredToolResults.calls`"
        raise UserError(
            f"The script waits at its call of `{call.tool}` for {wanted}, not for {type(self.given).__name__}."
        )

    async def value(self, calls: NestedCalls, call: Held, metadata: Any) -> Any:
        """The call's value; for an approval, by making the call. Raises what the guest is to see."""
        given = self.given
        if isinstance(given, ToolApproved):
            return await calls.approved(call, given.override_args, metadata)
        if isinstance(given, (ModelRetry, ToolFailed)):
            raise ToolError(given.message)
        if isinstance(given, (RetryFeedbackPart, ToolReturnPart)) or type(given).__name__ == "RetryPromptPart":
            raise ToolError(str(given.content))
        return calls.answer(given)
