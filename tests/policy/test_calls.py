"""Keys of calls, and a log that outlives the process."""

from __future__ import annotations

import asyncio
import contextvars
import json
import secrets

import pytest

from gloveport import (
    AgentSandbox,
    AsyncAgentSandbox,
    CallInfo,
    CallLog,
    CallOutcomeUnknownError,
    IdempotencyKey,
    JournalError,
    LoggedCall,
    SchemaTool,
    ToolCall,
    current_call,
)
from gloveport.testing import inline_sandbox
from gloveport.types import Done

KEY = secrets.token_bytes(32)


class Died(BaseException):
    """Stands for the end of the process: not an `Exception`, so nothing in between takes it for an answer."""


class Log:
    """A log in memory. `die` says where the process ends: before or after which note."""

    def __init__(self, slow=False):
        self.entries: dict[str, LoggedCall] = {}
        self.told = []
        self.die = None
        self.slow = slow

    def started(self, call):
        return self._note(("started", call.name), lambda: self._begin(call))

    def answered(self, call, ok, answer):
        return self._note(("answered", call.name), lambda: self._end(call, ok, answer))

    def calls(self, session_id, since):
        found = [c for key, c in self.entries.items() if key.startswith(session_id) and c.call_id >= since]
        return self._later(found) if self.slow else found

    def _begin(self, call):
        self.entries[call.idempotency_key] = LoggedCall(call.idempotency_key, call.call_id, call.name)

    def _end(self, call, ok, answer):
        self.entries[call.idempotency_key] = LoggedCall(call.idempotency_key, call.call_id, call.name, ok, answer)

    def _note(self, what, write):
        self.told.append(what)
        if self.die == ("before", *what):
            raise Died
        write()
        if self.die == ("after", *what):
            raise Died
        return self._later(None) if self.slow else None

    async def _later(self, value):
        await asyncio.sleep(0)
        return value


class Bank:
    """A service with effects."""

    def __init__(self):
        self.done = []

    def pay(self, to, key: IdempotencyKey):
        self.done.append((to, key))
        return f"receipt for {to}"

    async def look(self, what):
        return what.upper()

    def tools(self):
        return {"pay": self.pay, "look": self.look}


def load(blob, bank, log, **options):
    return AgentSandbox.load(blob, KEY, bank.tools(), isolation="inline", call_log=log, **options)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_parameter_gets_the_key_and_the_model_does_not_see_it(make_session):
    bank = Bank()
    session = make_session(bank.tools())
    session.run("await pay('ada'); await pay('ada'); await pay('bob')")
    keys = [key for _, key in bank.done]
    assert len(set(keys)) == 3
    assert all(key.startswith(f"{session.session_id}-{n}-") and len(key) <= 80 for n, key in enumerate(keys, 1))
    assert "key" not in session.typescript_stubs()
    assert "takes 1 argument" in session.execute("await pay('ada', 'my key')").error


def test_where_the_parameter_may_be():
    def last(x, y=1, *, key: IdempotencyKey):
        return [x, y, key]

    def unless(x, key: IdempotencyKey = IdempotencyKey("none")):
        return [x, key]

    with inline_sandbox({"last": last, "unless": unless}) as session:
        assert session.run("return await last(5)")[:2] == [5, 1]
        assert session.run("return await last(5, 6)")[:2] == [5, 6]
        assert session.run("return await unless(5)")[1] != "none"

    def first(key: IdempotencyKey, x): ...
    def middle(x, key: IdempotencyKey, *more): ...
    def only(key: IdempotencyKey, /): ...

    for wrong in (first, middle, only):
        with pytest.raises(ValueError, match="put it last"):
            inline_sandbox({"wrong": wrong})


def test_current_call():
    seen = []

    def sync(given):
        seen.append(current_call())

    async def other(given):
        await asyncio.sleep(0)
        seen.append(current_call())

    entry = {"description": "", "input_schema": {"type": "object"}}
    tools = [SchemaTool(name="sync", callable=sync, **entry), SchemaTool(name="other", callable=other, **entry)]
    with inline_sandbox(tools) as session:
        session.run("await sync({}); await Promise.all([other({}), sync({}), other({})])")
        step = session.start("await sync({})")
        session.call(step)
        assert current_call() is None
        assert sorted((c.call_id, c.name, c.run) for c in seen) == [
            (1, "sync", 1),
            (2, "other", 1),
            (3, "sync", 1),
            (4, "other", 1),
            (5, "sync", 2),
        ]
        assert seen[-1].idempotency_key == step.idempotency_key
        assert {c.session_id for c in seen} == {session.session_id}

    async def main():
        async with AsyncAgentSandbox(tools, isolation="inline") as session:
            await session.run("await sync({}); await Promise.all([other({}), sync({})])")
            step = await session.start("await other({})")
            await session.call(step)
            assert current_call() is None
            assert seen[-1].idempotency_key == step.idempotency_key

    seen.clear()
    asyncio.run(main())
    assert sorted(c.call_id for c in seen) == [1, 2, 3, 4]


def test_an_async_tool_keeps_its_callers_context_in_call():
    variable = contextvars.ContextVar("variable", default="unset")

    async def tool():
        return [variable.get(), current_call().call_id]

    with inline_sandbox({"tool": tool}) as session:
        variable.set("mine")
        assert session.call(session.start("await tool()")) == ["mine", 1]


def test_a_number_is_not_used_again_after_a_rollback():
    bank = Bank()
    with inline_sandbox(bank.tools(), timeout=0.2) as session:
        for _ in range(2):
            assert session.execute("await pay('ada'); while (true);").error_type == "RuntimeTimeout"
        session.run("await pay('ada')")
    assert len({key for _, key in bank.done}) == 3


def test_the_same_call_has_the_same_key_and_another_one_another():
    bank = Bank()
    with inline_sandbox(bank.tools()) as session:
        blob = session.dump(KEY)
        with session.fork() as branch:
            branch.run("await pay('ada')")
    for code in ("await pay('ada')", "await pay('ada')", "await pay('bob')"):
        with AgentSandbox.load(blob, KEY, bank.tools(), isolation="inline") as session:
            session.run(code)
    fork, first, again, other = [key for _, key in bank.done]
    assert first == again
    assert len({fork, first, other}) == 3
    assert first.rsplit("-", 1)[0] == other.rsplit("-", 1)[0]  # the number is the same: the dump was older


# ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("slow", [False, True])
def test_what_a_log_is_told(slow):
    log, bank = Log(slow), Bank()
    assert isinstance(log, CallLog)
    with inline_sandbox({**bank.tools(), "bad": lambda: 1 / 0}, call_log=log) as session:
        session.run("await pay('ada'); await bad().catch(() => 0); await look(1).catch(() => 0)")
        step = session.start("return await pay('bob')")
        session.resume(step, session.call(step))
        step = session.start("return await pay('eve')")
        session.resume(step, "paid by hand")  # no tool ran
    assert log.told == [(kind, name) for name in ("pay", "bad", "look", "pay") for kind in ("started", "answered")]
    answers = [(call.ok, json.loads(call.answer)) for call in log.entries.values()]
    assert answers[0] == (True, "receipt for ada")
    assert (answers[1][0], answers[1][1]["name"]) == (False, "ZeroDivisionError")
    assert answers[3] == (True, "receipt for bob")


def test_in_the_asyncio_class():
    async def main():
        log, bank = Log(slow=True), Bank()
        async with AsyncAgentSandbox(bank.tools(), isolation="inline", call_log=log) as session:
            await session.run("await Promise.all([pay('ada'), look('x')])")
            blob = await session.dump(KEY)
            step = await session.start("return await pay('bob')")
            await session.call(step)
        assert log.told.count(("started", "pay")) == log.told.count(("answered", "pay")) == 2
        session = await AsyncAgentSandbox.load(blob, KEY, bank.tools(), isolation="inline", call_log=log)
        async with session:
            step = await session.start("return await pay('bob')")
            assert await session.call(step) == "receipt for bob"
        assert [to for to, _ in bank.done] == ["ada", "bob"]

    asyncio.run(main())


def test_a_call_that_cannot_be_noted_is_not_made():
    class Broken(Log):
        def started(self, call):
            raise OSError("disk full")

    bank = Bank()
    with inline_sandbox(bank.tools(), call_log=Broken()) as session:
        with pytest.raises(OSError, match="disk full"):
            session.run("try { await pay('ada') } catch {}")
        step = session.start("await pay('ada')")
        with pytest.raises(OSError, match="disk full"):
            session.call(step)
        assert (bank.done, session.lost_runs) == ([], 1)


CODE = "const a = await pay('ada'); const b = await look('x'); const c = await pay('bob'); return [a, b, c]"
RESULT = ["receipt for ada", "X", "receipt for bob"]


def crash(die, *, blob_of="idle", slow=False):
    """A session that is saved, runs, and ends with its process. → its blob, bank and log"""
    log, bank = Log(slow), Bank()
    session = inline_sandbox(bank.tools(), call_log=log, max_tool_calls=10, tool_budgets={"pay": 4})
    blob = session.dump(KEY)
    log.die = die
    try:
        assert session.run(CODE) == RESULT
    except Died:
        pass
    session.close()
    log.die = None
    return blob, bank, log


@pytest.mark.parametrize("slow", [False, True])
def test_wherever_the_process_dies_no_call_is_repeated_unnoticed(slow):
    points = [
        (when, kind, name)
        for name in ("pay", "look")
        for kind in ("started", "answered")
        for when in ("before", "after")
    ]
    unknown = 0
    for die in [*points, None]:
        blob, bank, log = crash(die, slow=slow)
        begun = len(log.entries)
        in_doubt = [call for call in log.entries.values() if call.ok is None]
        if in_doubt:
            unknown += 1
            with pytest.raises(CallOutcomeUnknownError) as raised:
                load(blob, bank, log)
            error = raised.value
            assert (error.tool, error.idempotency_key) == (in_doubt[0].name, in_doubt[0].idempotency_key)
            assert error.call_id == in_doubt[0].call_id
        with load(blob, bank, log, on_unknown="ask") as session:
            assert session.calls_made == begun, die  # what was begun stays charged
            assert [c.idempotency_key for c in session.unknown_calls] == [c.idempotency_key for c in in_doubt]
            made = len(bank.done)
            step = session.start(CODE, ask=())
            if in_doubt:
                assert isinstance(step, ToolCall)
                assert step.unknown
                assert session.pending.unknown
                assert session.unknown_calls == (step,)
                with pytest.raises(CallOutcomeUnknownError, match="again=True"):
                    session.call(step)
                assert len(bank.done) == made
                value = {"pay": f"receipt for {step.args[0]}", "look": "X"}[step.name]
                step = session.resume(step, value)
            assert step == Done(RESULT), die
            assert session.calls_made == 3  # charged once, whether made before or now
            assert session.calls_remaining_by_tool == {"pay": 2}
        assert len(bank.done) == len(set(bank.done))
        assert len(bank.done) == 2 or in_doubt, die
    assert unknown >= 3


def test_the_control_without_a_log_they_are():
    blob, bank, log = crash(("before", "answered", "look"))
    with AgentSandbox.load(blob, KEY, bank.tools(), isolation="inline") as session:
        assert session.calls_made == 0
        session.run(CODE)
    assert [to for to, _ in bank.done] == ["ada", "ada", "bob"]


def test_where_nobody_can_be_asked_the_code_is_told():
    blob, bank, log = crash(("after", "started", "pay"))
    with load(blob, bank, log, on_unknown="ask") as session:
        result = session.execute("return await pay('ada')")
        assert (result.error_type, "was not repeated" in result.error) == ("CallOutcomeUnknownError", True)
        assert [call.name for call in session.unknown_calls] == ["pay"]
        assert (session.calls_made, bank.done) == (1, [])
        assert session.run("return await pay('ada')") == "receipt for ada"  # another call, with another number
        assert session.calls_made == 2


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_function_can_find_out(kind):
    blob, bank, log = crash(("before", "answered", "pay"))
    asked = []

    def find_out(step):
        asked.append(step)
        return next((f"receipt for {to}" for to, key in bank.done if key == step.idempotency_key), None)

    async def slowly(step):
        return find_out(step)

    with load(blob, bank, log, on_unknown=find_out if kind == "sync" else slowly) as session:
        assert session.run(CODE) == RESULT
        assert [(step.name, step.args, step.unknown) for step in asked] == [("pay", ("ada",), True)]
        assert [to for to, _ in bank.done] == ["ada", "bob"]
        assert session.unknown_calls == ()
    with load(blob, bank, log) as session:  # the log knows it now
        assert session.run(CODE) == RESULT


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_function_that_fails_is_an_error_of_the_call(kind):
    blob, bank, log = crash(("after", "started", "pay"))

    def find_out(step):
        raise CallOutcomeUnknownError("the bank does not know either")

    async def slowly(step):
        return find_out(step)

    with load(blob, bank, log, on_unknown=find_out if kind == "sync" else slowly) as session:
        result = session.execute("return await pay('ada')")
        assert result.error == "CallOutcomeUnknownError: the bank does not know either"
        assert bank.done == []


def test_other_code_is_another_call_and_what_was_made_stays_charged():
    blob, bank, log = crash(("after", "answered", "look"))
    with load(blob, bank, log) as session:
        assert session.calls_made == 2
        assert session.run("return await pay('eve')") == "receipt for eve"
        assert session.calls_made == 3
        second = session.dump(KEY)
    for again in (second, blob):  # and stays so, whichever dump is loaded
        with load(again, bank, log) as session:
            assert session.calls_made == 3
            assert session.calls_remaining_by_tool == {"pay": 2}


def test_the_budget_that_was_spent_is_spent():
    """By calls of runs that no dump knows of."""
    log, bank = Log(), Bank()
    with inline_sandbox(bank.tools(), call_log=log, tool_budgets={"pay": 3}) as session:
        blob = session.dump(KEY)
        session.run("for (const to of ['a', 'b', 'c']) await pay(to)")
    for _ in range(3):
        with load(blob, bank, log) as session:
            assert session.run("return await pay('d').catch(e => e.name)") == "ToolBudgetError"
            assert (
                session.run("return await pay('a').catch(e => e.name)") == "ToolBudgetError"
            )  # it has another number now
            blob = session.dump(KEY)
    assert len(bank.done) == 3


def paused_crash(die):
    """A session that is saved at a call which is then begun by `call`."""
    log, bank = Log(), Bank()
    session = inline_sandbox(bank.tools(), call_log=log, max_tool_calls=10)
    step = session.start("const a = await pay('ada'); return [a, await pay('bob')]")
    blob = session.dump(KEY)
    log.die = die
    try:
        session.call(step)
    except Died:
        pass
    session.close()
    log.die = None
    return blob, bank, log


def test_a_pending_call_that_was_begun_is_unknown():
    blob, bank, log = paused_crash(("before", "answered", "pay"))
    assert len(bank.done) == 1
    with pytest.raises(CallOutcomeUnknownError, match="pay"):
        load(blob, bank, log)
    with load(blob, bank, log, on_unknown="ask") as session:
        assert session.pending.unknown
        assert session.unknown_calls == (session.pending,)
        again = session.dump(KEY)
        with pytest.raises(CallOutcomeUnknownError, match="again=True"):
            session.call(session.pending)
        with pytest.raises(CallOutcomeUnknownError):  # whatever the step says of itself
            session.call(ToolCall("pay", ("ada",), session.pending.call_id))
        step = session.resume(session.pending, "looked up")
        assert (step.args, step.unknown, session.calls_made) == (("bob",), False, 2)
        assert session.call(step) == "receipt for bob"
    with pytest.raises(CallOutcomeUnknownError):  # a dump keeps it in mind, also without the log
        AgentSandbox.load(again, KEY, bank.tools(), isolation="inline")
    blob, bank, log = paused_crash(("before", "answered", "pay"))
    with load(blob, bank, log, on_unknown="ask") as session:
        assert session.call(session.pending, again=True) == "receipt for ada"
        assert len(bank.done) == 2
    blob, bank, log = paused_crash(("before", "answered", "pay"))
    with load(blob, bank, log, on_unknown=lambda step: "found out") as session:
        assert session.call(session.pending) == "found out"
        assert len(bank.done) == 1


def test_a_pending_call_that_was_answered_is_not_made_again():
    blob, bank, log = paused_crash(None)
    with load(blob, bank, log) as session:
        assert not session.pending.unknown
        assert session.call(session.pending) == "receipt for ada"
        assert len(bank.done) == 1
        assert session.resume(session.pending, "receipt for ada").args == ("bob",)


def test_a_log_that_talks_nonsense_is_refused():
    blob, bank, _ = paused_crash(None)
    one = LoggedCall("k", 99, "pay")
    for nonsense in (5, ["x"], [one, one], [{"call_id": 1}]):
        log = Log()
        log.calls = lambda session_id, since, nonsense=nonsense: nonsense
        with pytest.raises((JournalError, TypeError), match="LoggedCall"):
            load(blob, bank, log)
    with pytest.raises(ValueError, match="on_unknown"):
        load(blob, bank, Log(), on_unknown="ignore")


def test_calls_that_the_policy_allowed_before_are_not_asked_about_again():
    log, bank = Log(), Bank()
    asked = []

    def policy(request):
        asked.append(request.args)
        return "allow"

    with inline_sandbox(bank.tools(), call_log=log, policy=policy) as session:
        blob = session.dump(KEY)
        session.run("await pay('ada')")
    with load(blob, bank, log, policy=policy) as session:
        assert session.run("return [await pay('ada'), await pay('bob')]") == ["receipt for ada", "receipt for bob"]
    assert asked == [("ada",), ("bob",)]
    assert len(bank.done) == 2


def test_a_call_shows_what_it_is():
    info = CallInfo("pay", 3, "s", 1, b'["ada"]')
    assert repr(info) == f"CallInfo(name='pay', call_id=3, idempotency_key='{info.idempotency_key}')"
    assert info.idempotency_key == CallInfo("pay", 3, "s", 2, b'["ada"]').idempotency_key
    for other in (
        CallInfo("pay", 3, "s", 1, b'["bob"]'),
        CallInfo("pa", 3, "s", 1, b'y["ada"]'),
        CallInfo("pay", 4, "s", 1, b'["ada"]'),
    ):
        assert other.idempotency_key != info.idempotency_key
