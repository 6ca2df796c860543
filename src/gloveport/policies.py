"""Policies, and how to put them together.

A policy is any function that takes a `CallRequest` and gives a decision: `Allow()`, `Deny(reason)` or `Ask(reason)`, or the same as
`"allow"`, `"deny"`, `"ask"` or `("deny", reason)`. It may be a coroutine function. Those here decide by the tool's name and annotations
and take a few microseconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from .types import Allow, Ask, CallRequest, Decision, Deny, Policy

__all__ = ("all_of", "allow_all", "allow_list", "any_of", "ask_for", "decision_of", "deny_list", "read_only")

_PLAIN: Final[dict[str, Callable[..., Allow | Deny | Ask]]] = {"allow": Allow, "deny": Deny, "ask": Ask}


def decision_of(given: Any) -> Allow | Deny | Ask | None:
    """What a policy gave as a decision; `None` for what is none. Nothing is guessed: `True` is no permission."""
    if isinstance(given, (Deny, Ask)):
        return given if isinstance(given.reason, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if isinstance(given, Allow):
        return given
    if isinstance(given, str):
        return _PLAIN[given]() if given in _PLAIN else None
    if isinstance(given, tuple) and len(cast("tuple[Any, ...]", given)) == 2:
        kind, reason = cast("tuple[Any, Any]", given)
        if isinstance(kind, str) and isinstance(reason, str) and kind in _PLAIN:
            return Allow() if kind == "allow" else _PLAIN[kind](reason)
    return None


def _decision(given: Any) -> Allow | Deny | Ask:
    decision = decision_of(given)
    if decision is None:
        raise TypeError(f"a policy gave {type(given).__name__} instead of a decision")
    return decision


def _checked(option: str, given: Decision) -> Allow | Deny | Ask:
    decision = decision_of(given)
    if decision is None:
        raise TypeError(f"`{option}` must be a decision, such as 'deny' or Ask('why'), not {given!r}")
    return decision


def _policies(policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
    for policy in policies:
        if not callable(policy):
            raise TypeError(f"a policy must be callable, not {policy!r}")
    if not policies:
        raise ValueError("no policies were given")
    return policies


def all_of(*policies: Policy) -> Policy:
    """Every one of them decides, the strictest counts: a denial before a question, a question before a permission.

    They are asked in order; after a denial the others are not. Reasons of several questions are put together.
    """
    policies = _policies(policies)

    def combine(decisions: list[Allow | Deny | Ask]) -> Allow | Deny | Ask | None:
        last = decisions[-1]
        if isinstance(last, Deny):
            return last
        if len(decisions) < len(policies):
            return None
        asks = [decision.reason for decision in decisions if isinstance(decision, Ask)]
        return Ask("; ".join(reason for reason in asks if reason)) if asks else Allow()

    return _Combined(policies, combine)


def any_of(*policies: Policy) -> Policy:
    """Every one of them may permit, the mildest counts: a permission before a question, a question before a denial.

    They are asked in order; after a permission the others are not. One that fails makes the whole fail, which is a denial. A denial has the
    first one's reason, and ends the run only if all of them do.
    """
    policies = _policies(policies)

    def combine(decisions: list[Allow | Deny | Ask]) -> Allow | Deny | Ask | None:
        if isinstance(decisions[-1], Allow):
            return decisions[-1]
        if len(decisions) < len(policies):
            return None
        for decision in decisions:
            if isinstance(decision, Ask):
                return decision
        denials = [decision for decision in decisions if isinstance(decision, Deny)]
        return Deny(denials[0].reason, all(denial.end_run for denial in denials))

    return _Combined(policies, combine)


class _Combined:
    """Asks policies in order until they have made up their mind; awaits only where one of them has to be awaited."""

    def __init__(
        self,
        policies: tuple[Policy, ...],
        combine: Callable[[list[Allow | Deny | Ask]], Allow | Deny | Ask | None],
    ) -> None:
        self._policies = policies
        self._combine = combine

    def __call__(self, request: CallRequest) -> Any:
        decisions: list[Allow | Deny | Ask] = []
        rest = iter(self._policies)
        for policy in rest:
            given = policy(request)
            if inspect.isawaitable(given):
                return self._go_on(request, decisions, given, rest)
            decisions.append(_decision(given))
            decided = self._combine(decisions)
            if decided is not None:
                return decided
        raise AssertionError("unreachable")  # pragma: no cover

    async def _go_on(
        self, request: CallRequest, decisions: list[Allow | Deny | Ask], given: Any, rest: Iterator[Policy]
    ) -> Allow | Deny | Ask:
        while True:
            if inspect.isawaitable(given):
                given = await given
            decisions.append(_decision(given))
            decided = self._combine(decisions)
            if decided is not None:
                return decided
            given = next(rest)(request)


def allow_all() -> Policy:
    """Every call is allowed. For a session that was stored with a policy and is to go on without."""
    return lambda request: Allow()


def read_only(otherwise: Decision = "deny") -> Policy:
    """Allow tools whose annotations say that they only read (MCP's `readOnlyHint`, and not `destructiveHint`); else `otherwise`.

    Annotations are what the tool's author says: take them from servers that you trust. Python functions have none; `SchemaTool` takes them.
    """
    other = _with_reason(_checked("otherwise", otherwise), "`{name}` is not marked as only reading")

    def policy(request: CallRequest) -> Allow | Deny | Ask:
        marked = request.annotations.get("readOnlyHint") is True
        return Allow() if marked and request.annotations.get("destructiveHint") is not True else other(request)

    return policy


def allow_list(*names: str, otherwise: Decision = "deny") -> Policy:
    """Allow the tools of these names (as they were given); else `otherwise`.

    A catalog's `search_tools` and `describe_tool` have to be named as others do.
    """
    allowed = _names(names)
    other = _with_reason(_checked("otherwise", otherwise), "`{name}` is not one of the tools that may be called")
    return lambda request: Allow() if request.name in allowed else other(request)


def deny_list(*names: str, reason: str = "") -> Policy:
    """Deny the tools of these names, allow all others."""
    denied, decision = _names(names), Deny(reason)
    return lambda request: decision if request.name in denied else Allow()


def ask_for(*names: str, reason: str = "") -> Policy:
    """Ask for the tools of these names, allow all others."""
    asked, decision = _names(names), Ask(reason)
    return lambda request: decision if request.name in asked else Allow()


def _names(names: tuple[str, ...]) -> frozenset[str]:
    for name in names:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"give the names of tools one by one, as strings, not {name!r}")
    return frozenset(names)


def _with_reason(decision: Allow | Deny | Ask, text: str) -> Callable[[CallRequest], Allow | Deny | Ask]:
    if isinstance(decision, Deny) and not decision.reason:
        return lambda request: Deny(text.format(name=request.name), decision.end_run)
    if isinstance(decision, Ask) and not decision.reason:
        return lambda request: Ask(text.format(name=request.name))
    return lambda request: decision
