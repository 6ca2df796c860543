"""Scripts inside of durable workflows: one recorded operation each.

An engine records what an operation gave, and gives that again when it replays the workflow: neither the script nor its tools run then.
What the engine cannot know is what happened to an operation that it has no record of, because the process died in it. So the record of
the conversation says which script was begun, in the same write as everything else that it says, and what it ended with. A script that
was begun and did not end is never begun again.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal, cast

import pydantic_core
from pydantic import TypeAdapter
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.exceptions import (
    AgentRunError,
    ApprovalRequired,
    CallDeferred,
    ToolFailed,
    UsageLimitExceeded,
    UserError,
)
from pydantic_ai.messages import ToolReturn, UserContent
from pydantic_ai.tools import RunContext
from typing_extensions import TypedDict

from ...stores import MemoryStore, Store
from . import history
from .ledger import Conversation

__all__ = ("WAITS", "Attempt", "Outcome", "check_agent", "outcome_of", "raise_or_return", "recall")

_ENGINES: Final = frozenset({"DBOS"})
"""Those whose operations run in the process of the workflow, where the agent's tools are, and that the tests ran."""
_MAX_RUNS: Final = 256
_MAX_OUTCOME: Final = 512 * 1024
_content: Final = TypeAdapter[list[UserContent]](list[UserContent])

WAITS: Final = frozenset({"approval", "external", "question"})
Kind = Literal["returned", "failed", "approval", "external", "question", "ended"]


class Outcome(TypedDict):
    """How a script ended or where it waits, as data: what an engine records."""

    kind: Kind
    value: Any
    """Of the tool; the text of a failure or of what ends the run; the metadata of a deferral."""
    content: str
    """JSON of the user content."""
    metadata: Any
    error_type: str
    """Of what ends the run."""
    failures: int
    """Failed scripts in a row, with this one."""
    calls: int
    """What it added to the run's usage. The engine records that as well, if it comes to it."""


def check_agent(agent: AbstractAgent[Any, Any], store: Store) -> None:
    """Raise `UserError` if the agent is durable in a way in which scripts are not."""
    from pydantic_ai.durable_exec import BaseDurabilityCapability

    durability = cast("BaseDurabilityCapability[Any] | None", BaseDurabilityCapability.from_agent(agent))
    if durability is None:
        return
    if durability.engine_name not in _ENGINES:
        raise UserError(
            f"ToolScript does not work with {durability.engine_name}: scripts call the agent's tools in the process of the workflow. "
            "Use DBOSDurability, or an agent of its own without durability that a tool of this agent runs."
        )
    if isinstance(store, MemoryStore):
        raise UserError(
            "ToolScript: with a durable engine the sessions need a store that outlives the process, as the workflow does: "
            'give `store=` (a path, an SQLiteStore, a PostgresStore) and `key=`, for example "env:SESSION_KEY".'
        )


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A script of a durable run, by its place in the run: the same one when the engine runs the operation once more."""

    run: str
    place: str

    @classmethod
    def of(cls, ctx: RunContext[Any]) -> Attempt:
        """The attempt of a tool call. Providers may repeat a tool call id, but not in one step; a script that waited is called again
        under its id, perhaps in the same step, with the mark of its pause in the history."""
        run = hashlib.sha256((ctx.run_id or "").encode()).hexdigest()[:32]
        script = ctx.tool_call_id or ""
        return cls(run, "/".join([str(ctx.run_step), script, *sorted(history.marks_of(ctx, script))]))

    def begin(self, state: Conversation) -> None:
        """Note that it is begun. Scripts of a run go one after the other, so the last one of each run is enough."""
        runs = {run: place for run, place in state.attempts.items() if run != self.run}
        state.attempts = dict([*runs.items(), (self.run, self.place)][-_MAX_RUNS:])
        state.ended, state.outcome = "", b""

    def was_begun(self, state: Conversation) -> bool:
        """Whether a process began it. That process is dead, or this one has the script under way."""
        return state.attempts.get(self.run) == self.place

    def is_latest(self, state: Conversation) -> bool:
        """Whether no other run began one since."""
        return next(reversed(state.attempts), None) == self.run

    def end(self, state: Conversation, outcome: Outcome) -> None:
        """Note what it ended with."""
        state.ended = f"{self.run}/{self.place}"
        kept = pydantic_core.to_json(outcome)
        state.outcome = kept if len(kept) <= _MAX_OUTCOME else b""

    def outcome(self, state: Conversation) -> Outcome | None:
        """What it ended with, if that is known."""
        if state.ended != f"{self.run}/{self.place}":
            return None
        if not state.outcome:
            return _failed("The script ended, and its result is too large to have been kept. It was not run again.")
        return cast("Outcome", pydantic_core.from_json(state.outcome))


def _failed(text: str) -> Outcome:
    return Outcome(kind="failed", value=text, content="[]", metadata=None, error_type="", failures=0, calls=0)


def outcome_of(end: ToolReturn[Any] | Exception, failures: int, calls: int = 0) -> Outcome:
    """What a script ended with. Raises the exception if it is none that a script ends with."""
    outcome = _failed("")
    outcome["failures"], outcome["calls"] = failures, calls
    if isinstance(end, ToolReturn):
        outcome["kind"], outcome["value"], outcome["metadata"] = "returned", cast("Any", end.return_value), end.metadata
        content: Any = end.content or []
        outcome["content"] = _content.dump_json(content).decode()
    elif isinstance(end, ToolFailed):
        outcome["value"] = end.message
    elif isinstance(end, ApprovalRequired):
        outcome["kind"], outcome["value"] = "approval", end.metadata
    elif isinstance(end, CallDeferred):
        question = getattr(end, "kind", None) == "question"  # 2.62 has no `kind`
        outcome["kind"], outcome["value"] = ("question" if question else "external"), end.metadata
    elif isinstance(end, (AgentRunError, UserError)):
        outcome["kind"], outcome["value"], outcome["error_type"] = "ended", str(end), type(end).__name__
    else:
        raise end
    return outcome


def raise_or_return(outcome: Outcome) -> ToolReturn[Any]:
    """What `outcome_of` was given, once more."""
    kind, value = outcome["kind"], outcome["value"]
    if kind == "returned":
        content = _content.validate_json(outcome["content"])
        return ToolReturn(return_value=value, content=content or None, metadata=outcome["metadata"])
    if kind == "failed":
        raise ToolFailed(value)
    if kind == "ended":
        types = {"UserError": UserError, "UsageLimitExceeded": UsageLimitExceeded}
        raise types.get(outcome["error_type"], AgentRunError)(value)
    if kind == "approval":
        raise ApprovalRequired(value)
    deferred = CallDeferred(value)
    if kind == "question" and hasattr(deferred, "kind"):
        cast("Any", deferred).kind = "question"
    raise deferred


def recall(tool: str, begun: Sequence[str] | None) -> ToolFailed:
    """What the model is told of a script whose process died. `None`: what it had begun is not known any more."""
    counted = Counter(begun or ()).items()
    calls = ", ".join(f"`{name}`" + (f" ({count} times)" if count > 1 else "") for name, count in counted)
    known = "" if begun is None else f" It had begun these calls: {calls or 'none'}."
    return ToolFailed(
        f"The process ended while this script ran.{known} What came of its calls is not known, and nothing was repeated; "
        f"what the script declared is gone. Find out what was done before `{tool}` does it again."
    )
