"""Ready-made policies and their combinations, without a session."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport import policies
from gloveport.types import Allow, Ask, CallRequest, Deny


def request(name="tool", *args, **annotations):
    return CallRequest(name, args, 1, 1, "s", annotations, 0, None, "s-1-x")


def decide(policy, asked=None):
    given = policy(asked or request())
    return asyncio.run(_awaited(given)) if inspect.isawaitable(given) else policies.decision_of(given)


async def _awaited(given):
    return policies.decision_of(await given)


@pytest.mark.parametrize(
    ("given", "decision"),
    [
        ("allow", Allow()),
        ("deny", Deny()),
        ("ask", Ask()),
        (("allow", ""), Allow()),
        (("deny", "why"), Deny("why")),
        (("ask", "why"), Ask("why")),
        (Deny("x", end_run=True), Deny("x", True)),
    ],
)
def test_what_is_a_decision(given, decision):
    assert policies.decision_of(given) == decision


@pytest.mark.parametrize(
    "given",
    [True, False, None, 1, "Allow", "yes", "", ("allow",), ("allow", 1), ["allow", ""], Allow, object(), {}]
    + [Deny(3), Ask(None), ("deny", None), (["allow"], "")],  # type: ignore[arg-type]
)
def test_what_is_none(given):
    assert policies.decision_of(given) is None


RANK = {Deny: 0, Ask: 1, Allow: 2}
_given = st.sampled_from(["allow", "deny", "ask", ("deny", "no"), ("ask", "really?"), Deny("stop", True)])


def constant(given, slow):
    async def later(request):
        return given

    return later if slow else lambda request: given


@given(st.lists(st.tuples(_given, st.booleans()), min_size=1, max_size=5))
def test_all_of_is_the_strictest_and_any_of_the_mildest(parts):
    parted = [constant(given, slow) for given, slow in parts]
    ranks = [RANK[type(policies.decision_of(given))] for given, _ in parts]
    assert RANK[type(decide(policies.all_of(*parted)))] == min(ranks)
    assert RANK[type(decide(policies.any_of(*parted)))] == max(ranks)


def test_reasons_of_combinations():
    ask, ask2 = policies.ask_for("tool", reason="one"), policies.ask_for("tool", reason="two")
    assert decide(policies.all_of(ask, ask2)) == Ask("one; two")
    assert decide(policies.any_of(ask, ask2)) == Ask("one")
    no, never = constant(("deny", "no"), False), constant(Deny("never", end_run=True), True)
    assert decide(policies.all_of(no, never)) == Deny("no")
    assert decide(policies.any_of(never, no)) == Deny("never", end_run=False)
    assert decide(policies.any_of(never, never)) == Deny("never", end_run=True)


def test_after_a_denial_the_others_are_not_asked():
    asked = []
    spy = lambda request: asked.append(request) or "allow"  # noqa: E731
    assert isinstance(decide(policies.all_of(policies.deny_list("tool"), spy)), Deny)
    assert asked == []
    assert isinstance(decide(policies.all_of(policies.deny_list("other"), spy)), Allow)
    assert len(asked) == 1


@pytest.mark.parametrize("combine", [policies.all_of, policies.any_of])
def test_one_that_fails_makes_the_whole_fail(combine):
    """Also where another one would permit."""
    with pytest.raises(TypeError, match="instead of a decision"):
        decide(combine(constant(True, False), constant("allow", False)))
    with pytest.raises(TypeError, match="instead of a decision"):
        decide(combine(constant(None, True), constant("allow", False)))
    with pytest.raises(ZeroDivisionError):
        decide(combine(lambda request: 1 / 0, constant("allow", False)))


def test_read_only():
    policy = policies.read_only()
    assert decide(policy, request(readOnlyHint=True)) == Allow()
    assert decide(policy, request(readOnlyHint=True, destructiveHint=False)) == Allow()
    for other in ({}, {"readOnlyHint": False}, {"readOnlyHint": "true"}, {"readOnlyHint": 1}):
        assert decide(policy, request(**other)) == Deny("`tool` is not marked as only reading")
    assert isinstance(decide(policy, request(readOnlyHint=True, destructiveHint=True)), Deny)
    assert decide(policies.read_only("ask"), request()) == Ask("`tool` is not marked as only reading")
    assert decide(policies.read_only(Ask("sure?")), request()) == Ask("sure?")
    assert decide(policies.read_only(Deny(end_run=True)), request()).end_run


def test_lists_of_names():
    assert decide(policies.allow_list("tool", "x")) == Allow()
    assert decide(policies.allow_list("x")) == Deny("`tool` is not one of the tools that may be called")
    assert decide(policies.allow_list()) == Deny("`tool` is not one of the tools that may be called")
    assert decide(policies.allow_list("x", otherwise="ask")) == Ask("`tool` is not one of the tools that may be called")
    assert decide(policies.deny_list("tool", reason="r")) == Deny("r")
    assert decide(policies.deny_list("x")) == decide(policies.ask_for("x")) == decide(policies.allow_all()) == Allow()
    assert decide(policies.ask_for("tool", reason="r")) == Ask("r")


def test_mistakes_are_found_when_a_policy_is_made():
    with pytest.raises(TypeError, match="one by one"):
        policies.allow_list(["a"])
    with pytest.raises(TypeError, match="otherwise"):
        policies.allow_list("a", otherwise=False)
    with pytest.raises(TypeError, match="callable"):
        policies.all_of("deny")
    for combine in (policies.all_of, policies.any_of):
        with pytest.raises(ValueError, match="no policies"):
            combine()
