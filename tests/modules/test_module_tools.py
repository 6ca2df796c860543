"""Tools of the host in a module."""

from __future__ import annotations

import datetime as dt
import threading
import time

import anyio
import pytest

from gloveport import SchemaTool, ToolError


class ForTheModel(ToolError):
    shown = True


async def slow(n: int) -> int:
    await anyio.sleep(0.15)
    return n * 2


def sync(text: str, times: int = 2) -> dict:
    time.sleep(0.15)
    return {"text": text * times, "thread": threading.current_thread() is not threading.main_thread()}


def rich():
    return [dt.datetime(2020, 1, 2, tzinfo=dt.timezone.utc), b"ab", {1, 2}.pop(), 2**60, float("nan")]


def fails():
    raise KeyError("secret")


def says():
    raise ForTheModel("try another way")


TOOLS = {"slow": slow, "sync": sync, "rich": rich, "fails": fails, "says": says}


def test_calls_give_values(module):
    assert module.value("await tools.slow(2)", tools=TOOLS) == 4
    assert module.value("(await tools.sync('a')).text", tools=TOOLS) == "aa"
    assert module.value("export default async () => Object.keys(tools)", tools=TOOLS) == list(TOOLS)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    add = SchemaTool("add", "Adds one.", schema, lambda args: args["a"] + 1)
    assert module.value("await tools.add({ a: 1 })", tools=[add]) == 2


def test_values_come_as_json(module):
    date, data, one, big, nan = module.value("await tools.rich()", tools=TOOLS)
    assert (date, data, one, nan) == ("2020-01-02T00:00:00Z", "YWI=", 1, None)
    assert big == 2**60


@pytest.mark.parametrize("name", ["slow", "sync"])
def test_calls_overlap(module, name):
    argument = "i" if name == "slow" else "'a'"
    result = module(f"await Promise.all([1, 2, 3, 4, 5, 6].map((i) => tools.{name}({argument}))); 1", tools=TOOLS)
    assert result.value == 1
    assert result.duration < 6 * 0.15


def test_timers_and_calls_run_side_by_side(module):
    source = "await Promise.race([tools.slow(1), new Promise(r => setTimeout(() => r('timer'), 20))])"
    assert module.value(source, tools=TOOLS) == "timer"


def test_errors_throw_and_tell_no_secret(module):
    assert module.value("await tools.fails().catch(e => [e.name, e.message])", tools=TOOLS) == [
        "KeyError",
        "host function failed",
    ]
    assert module.value("await tools.says().catch(e => [e.name, e.message])", tools=TOOLS) == [
        "ForTheModel",
        "try another way",
    ]
    wrong = module.fails("await tools.slow('x')", tools=TOOLS)
    assert wrong.error_type == "TypeError"
    assert "must be an integer" in wrong.error


def test_only_json_goes_out(module):
    assert module.fails("await tools.slow(1n)", tools=TOOLS).error_type in ("NotJson", "TypeError")
    assert module.fails("await tools.nope()", tools=TOOLS).error_type == "TypeError"


def test_a_run_without_tools_has_none(module):
    assert module.value("typeof tools", tools=TOOLS) == "object"
    assert module.value("typeof tools") == "undefined"


def test_calls_that_nobody_waits_for_are_cancelled(module):
    ended = []

    async def watched(n: int) -> int:
        try:
            await anyio.sleep(30)
        finally:
            ended.append(n)
        return n

    result = module("tools.watched(1); tools.watched(2); 5", tools={"watched": watched})
    assert result.value == 5
    assert result.duration < 15
    assert sorted(ended) == [1, 2]
    assert module.value("await tools.slow(1)", tools=TOOLS) == 2
    assert module.value("1") == 1


def test_a_timeout_cancels_calls(module):
    ended = []

    async def watched() -> None:
        try:
            await anyio.sleep(30)
        finally:
            ended.append(1)

    result = module.fails("await tools.watched()", tools={"watched": watched}, timeout=0.3)
    assert result.exit_reason == "timeout"
    assert ended == [1]


def test_more_calls_than_run_at_once(module):
    running = most = 0

    async def count(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.01)
        running -= 1
        return n

    source = "(await Promise.all(Array.from({ length: 200 }, (_, i) => tools.count(i)))).length"
    assert module.value(source, tools={"count": count}) == 200
    assert 1 < most <= 63


def test_large_arguments_and_answers(module):
    def echo(text: str) -> str:
        return text

    assert module.value("(await tools.echo('x'.repeat(9e5))).length", tools={"echo": echo}) == 900_000
    over = module.fails("await tools.echo('x'.repeat(2e6))", tools={"echo": echo})
    assert over.error_type == "ResultTooLarge"
