"""Errors of tools, and of values on their way."""

from __future__ import annotations

from .base import GloveportError

__all__ = (
    "CallOutcomeUnknownError",
    "EgressDeniedError",
    "HttpFetchError",
    "HttpFetchTimeout",
    "McpServerError",
    "McpToolError",
    "PauseRequested",
    "PolicyError",
    "ToolArgumentError",
    "ToolBudgetError",
    "ToolDeniedError",
    "ToolError",
    "ToolNotDiscoveredError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "ValueCrossingError",
)


class ToolError(GloveportError):
    """Base of what tools and the host raise for the guest to catch."""

    code = "tool"
    shown: bool = False
    """The text was written for the model: the guest reads it in spite of `redact_host_errors`. Settable on class and instance."""


class ToolBudgetError(ToolError):
    """No call is left in a budget."""

    code = "tool_budget"


class ToolNotFoundError(ToolError, LookupError):
    """No tool has that name."""

    code = "tool_not_found"


class ToolNotDiscoveredError(ToolNotFoundError):
    """The catalog has the tool, but no answer to `search_tools` or `describe_tool` has named it in this session."""

    code = "tool_not_discovered"


class ToolArgumentError(ToolError, TypeError):
    """The arguments of a call do not fit the tool."""

    code = "tool_argument"


class ToolTimeoutError(ToolError, TimeoutError):
    """The tool did not answer within `tool_timeout`."""

    code = "tool_timeout"


class ToolDeniedError(ToolError, PermissionError):
    """The policy, or a person, refused the call. The text is the reason; the model reads it."""

    code = "tool_denied"
    shown = True


class PolicyError(ToolError):
    """The policy raised something (`__cause__`), took longer than `tool_timeout`, or gave what is no decision; the call was denied.

    Reported to the logger `gloveport`, by `session.events()`, and as `session.policy_error`; nothing of it reaches the guest.
    """

    code = "policy"


class EgressDeniedError(ToolError, PermissionError):
    """The network rules refuse a destination. Nothing was sent to it; the same request will be refused again."""

    code = "egress_denied"
    shown = True


class HttpFetchError(ToolError, ConnectionError):
    """A request that is allowed failed on its way, or its answer was refused. The text holds nothing that a server wrote."""

    code = "http_fetch"
    shown = True
    retryable = True


class HttpFetchTimeout(HttpFetchError, TimeoutError):
    """The request, redirects included, was not done within `timeout`. Whether the server carried it out is not known."""

    code = "http_fetch_timeout"


class McpToolError(ToolError):
    """An MCP tool answered with `isError`, or its server refused the call. The server wrote the text for the model, which reads it."""

    code = "mcp_tool"
    shown = True


class McpServerError(ToolError, ConnectionError):
    """An MCP server cannot be reached, went away during a call, or does not keep to the protocol."""

    code = "mcp_server"
    retryable = True
    shown = True


class CallOutcomeUnknownError(ToolError):
    """The call was begun, and the host ended before it noted an answer: nobody can tell whether it happened. It is not repeated."""

    code = "call_outcome_unknown"
    shown = True

    def __init__(self, message: str = "", *, tool: str = "", call_id: int = 0, idempotency_key: str = "") -> None:
        super().__init__(message)
        self.tool = tool
        """Its name, as it was given."""
        self.call_id = call_id
        self.idempotency_key = idempotency_key
        """What the tool was given, if it asked for a key."""


class PauseRequested(ToolError):
    """Raised by a tool in a run that was begun with `start(code, ask=…)`: pause at this call, and hand it out.

    Calls that are under way are answered first. In `run` and `execute`, which cannot pause, the guest gets it as an error.
    """

    code = "pause_requested"


class ValueCrossingError(GloveportError, TypeError):
    """A value has no counterpart on the other side; the text names where it is."""

    code = "value"
