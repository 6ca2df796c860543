"""Attacks from the place of a worker that was taken over, against the host."""

from __future__ import annotations

import functools
import os
import resource
import socket
import struct
import threading
import time
import zlib

import pytest

from gloveport import AgentSandbox, JournalError, WorkerCrashed
from gloveport.core import run as core_run
from gloveport.engines.wasm import link
from gloveport.wire import frames

from .puppet import MIB, Host, raw_reply, reply

KEY = b"k" * 32
CODE = "before++; return await t('x')"
CALL = {"t": "call", "f": 0, "id": 1, "n": "t", "a": ["x"]}
IDLE = {"t": "idle", "f": 0, "calls": 1, "timer": None, "now": 0}
DONE = {"t": "done", "f": 0, "v": 1}
FAIL = {"t": "fail", "f": 0, "kind": "throw", "name": "Error", "message": "x", "stack": "", "line": 1, "col": 1}


@pytest.fixture(params=["blocking", "awaiting"])
def host(request, monkeypatch):
    """Nothing may be left behind: no thread, no descriptor."""
    with AgentSandbox(
        {"t": lambda x: x}, isolation="inline"
    ) as warm:  # what the host process keeps: toolbox, watchdog, threads
        warm.run("enum E { A }; return await t(E.A)")
    made = Host(monkeypatch, request.param == "awaiting")
    before = descriptors()
    yield made
    made.close()
    until(lambda: not any(thread.name == "puppet" for thread in threading.enumerate()))
    until(lambda: descriptors() <= before)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "something was left behind"
        time.sleep(0.01)


def begin(host, **options):
    """A session with a state, whose worker is about to attack."""
    calls = []

    def t(x):
        calls.append(x)
        return x

    session = host.session({"t": t}, max_tool_calls=50, **options)
    assert host.execute(session, "let before = 41").ok
    return session, host.puppets[-1], calls


def say(*messages, **options):
    return lambda puppet, _: puppet.send(reply(*messages, **options))


def send(data):
    return lambda puppet, _: puppet.send(data)


def hang_up(puppet, _):
    puppet.peer.shutdown(socket.SHUT_RDWR)


def truncated(puppet, _):
    puppet.send(reply(DONE)[:-3])
    puppet.peer.shutdown(socket.SHUT_RDWR)


def drip(puppet, _):
    for byte in struct.pack("<IB", 1000, frames.REPLY) + bytes(500):
        puppet.send(bytes([byte]))
        time.sleep(0.01)


def with_descriptors(puppet, _):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("3i", 0, 1, 2))]
    puppet.peer.sendmsg([reply(DONE, DONE)], rights)


def done(value, flags=1):
    return say(b'{"t":"done","f":%d,"v":%b}' % (flags, value))


def called(arguments, flags=1):
    return say(b'{"t":"call","f":%d,"id":1,"n":"t","a":%b}' % (flags, arguments), IDLE)


CRASHES = {
    "header of 4 GiB": send(struct.pack("<IB", 2**32 - 1, frames.REPLY)),
    "header one over the limit": send(struct.pack("<IB", frames.MAX_FRAME + 1, frames.REPLY)),
    "length 0": send(struct.pack("<IB", 0, frames.REPLY)),
    "unknown kind": send(frames.encode_frame(0x78, b"x" * 20)),
    "a request as the answer": send(frames.encode_frame(frames.STEP, b"Gx")),
    "an image as the answer": send(frames.encode_frame(frames.IMAGE, zlib.compress(bytes(100)))),
    "refused": send(frames.encode_frame(frames.REFUSED, b"no\x1b[2J")),
    "end of stream": hang_up,
    "truncated frame, end of stream": truncated,
    "truncated reply": send(frames.encode_frame(frames.REPLY, bytes(5))),
    "two answers": lambda puppet, _: puppet.send(reply(DONE) + reply(DONE)),
    "an answer and half of one": lambda puppet, _: puppet.send(reply(DONE) + b"\x10"),
    "descriptors": with_descriptors,
    "unknown status": say(DONE, status=4),
    "trapped": say(status=2),
    "garbage": say(b"\x00\xff garbage"),
    "not an object": say(b"[1]"),
    "no type": say(b"{}"),
    "unknown type": say({"t": "boot"}),
    "missing fields": say({"t": "call"}),
    "unknown fields": say({**DONE, "x": 1}),
    "wrong types": say({**CALL, "id": "1"}, IDLE),
    "nested": say(b'{"t":"done","f":0,"v":' + b"[" * 100_000),
    "nested, with surrogates": say(b'{"t":"done","f":2,"v":' + b"[" * 100_000),
    "output ends in a length": send(raw_reply(b"\x01\x00")),
    "output ends in a message": send(raw_reply(struct.pack("<I", 100) + b"{}")),
    "invalid UTF-8": say(b'{"t":"log","f":0,"s":1,"m":"\xff"}', DONE),
    "nothing said": say(),
    "only output": say({"t": "log", "f": 0, "s": 1, "m": "x"}),
    "waits for nothing": say({**IDLE, "calls": 0}),
    "waits for calls it has not made": say({**IDLE, "calls": 3}),
    "done twice": say(DONE, DONE),
    "done and failed": say(DONE, FAIL),
    "done with a call open": say(CALL, DONE),
    "a call after the end": say(DONE, CALL),
    "an unknown tool": say({**CALL, "n": "x" * MIB}, IDLE),
    "a name with surrogates": say({**CALL, "n": "\ud800", "f": 2}, IDLE),
    "call id 0": say({**CALL, "id": 0}, IDLE),
    "negative call id": say({**CALL, "id": -1}, IDLE),
    "call id ahead": say({**CALL, "id": 2}, IDLE),
    "huge call id": say({**CALL, "id": 2**40}, IDLE),
    "call id of a thousand digits": say(b'{"t":"call","f":0,"id":1%b,"n":"t","a":[]}' % (b"0" * 1000), IDLE),
    "call id twice": say(CALL, CALL, IDLE),
    "call id going back": say(CALL, {**CALL, "id": 2}, CALL, IDLE),
    "infinite timer": say(CALL, b'{"t":"idle","f":0,"calls":1,"timer":1e999,"now":0}'),
    "timer that is no number": say(CALL, b'{"t":"idle","f":2,"calls":1,"timer":NaN,"now":0}'),
    "timer that is text": say(CALL, {**IDLE, "f": 2, "timer": "soon"}),
    "output that is no text": say({"t": "log", "f": 2, "s": 1, "m": 5}, DONE),
    "tail of negative size": say({"t": "tail", "f": 0, "s": 1, "m": "", "lines": -5, "bytes": 1}, DONE),
    "tail of huge size": say({"t": "tail", "f": 2, "s": 1, "m": "", "lines": 10**4000, "bytes": 1}, DONE),
    "place of huge size": say({**FAIL, "line": 10**30}),
    "negative place": say({**FAIL, "line": -1}),
    "place that is text": say({**FAIL, "f": 2, "line": "1"}),
    "name that is no text": say({**CALL, "f": 2, "n": ["t"]}, IDLE),
    "result: no JSON": say(b'{"t":"done","f":2,"v":NaN}'),
    "result: unknown tag": done(b'{"$":"code","v":"x"}'),
    "result: tag that is no text": done(b'{"$":["map"],"v":[]}'),
    "result: map of no pairs": done(b'{"$":"map","v":[1]}'),
    "result: map of triples": done(b'{"$":"map","v":[[1,2,3]]}'),
    "result: map without content": done(b'{"$":"map"}'),
    "result: set of nothing": done(b'{"$":"set","v":5}'),
    "result: bytes that are none": done(b'{"$":"bytes","v":"!"}'),
    "result: bytes that are a list": done(b'{"$":"bytes","v":[1]}'),
    "result: number of a list": done(b'{"$":"number","v":[]}'),
    "result: object of a number": done(b'{"$":"object","v":5}'),
    "result: error of a number": done(b'{"$":"error","v":5}'),
    "result: deep": done(b"[" * 900 + b"]" * 900, 0),
    "result: deep tags": done(b'{"$":"set","v":[' * 450 + b"]}" * 450),
    "result: 20 million lists": done(b"[" + b"[]," * 20_000_000 + b"[]]", 0),
    "arguments: no list": called(b"5", 0),
    "arguments: unknown tag": called(b'[{"$":"code"}]'),
    "arguments: map of triples": called(b'[{"$":"map","v":[[1,2,3]]}]'),
    "arguments: deep": called(b"[" * 900 + b"]" * 900, 0),
    "arguments: 20 million lists": called(b"[" + b"[]," * 20_000_000 + b"[]]", 0),
}


@pytest.mark.parametrize("name", CRASHES)
def test_what_no_worker_of_ours_says(host, name):
    session, puppet, calls = begin(host)
    puppet.attack = CRASHES[name]
    result = host.execute(session, CODE)
    assert (result.status, result.error_type) == ("Failed", "WorkerCrashed"), result
    assert len(result.error) < 1000 and "\x1b" not in result.error
    assert calls == []
    recovered(host, session, puppet)


def recovered(host, session, puppet, charged=None):
    """The worker is dead, and the next run has the state from before, in a real guest."""
    assert puppet.closed
    assert charged is None or session.calls_made == charged
    made = session.calls_made
    assert host.execute(session, "return before + await t(1)").result == 42
    assert session.calls_made == made + 1
    assert session.lost_runs == 1
    assert len(host.puppets) == host.plan


def test_the_honest_puppet(host):
    """The control: without an attack the same code succeeds, in the same worker."""
    session, puppet, calls = begin(host)
    assert host.execute(session, CODE).result == "x"
    assert calls == ["x"] and not puppet.closed
    assert host.execute(session, "return before").result == 42


@pytest.mark.parametrize(
    "attack",
    [lambda puppet, _: None, drip, lambda puppet, _: puppet.send(reply(DONE)[:-3]), say(status=1)],
    ids=["silence", "slow drip", "truncated frame, silence", "interrupted"],
)
def test_what_never_ends_is_a_timeout(host, attack):
    session, puppet, _ = begin(host)
    puppet.attack = attack
    result = host.execute(session, CODE)
    assert (result.status, result.error_type) == ("Failed", "RuntimeTimeout"), result
    recovered(host, session, puppet, charged=0)


def test_a_call_that_was_made_is_charged_though_the_worker_attacks_after_it(host):
    session, puppet, calls = begin(host)

    def attack(puppet, _):
        puppet.attack = say(DONE, DONE)
        puppet.send(reply(CALL, IDLE))

    puppet.attack = attack
    assert host.execute(session, CODE).error_type == "WorkerCrashed"
    assert calls == ["x"]
    recovered(host, session, puppet, charged=1)


def test_calls_made_in_a_step_that_is_not_ok_are_charged(host):
    session, puppet, calls = begin(host)
    puppet.attack = say(CALL, {**CALL, "id": 2}, status=2)
    assert host.execute(session, CODE).error_type == "WorkerCrashed"
    assert calls == []
    recovered(host, session, puppet, charged=2)


def test_an_answer_to_nothing_is_not_the_answer_to_the_next_request(host):
    session, puppet, _ = begin(host)
    honest = host.execute(session, "return before")
    assert honest.result == 41
    asked = len(puppet.requests)
    puppet.send(reply({**DONE, "v": "stale"}))
    result = host.execute(session, CODE)
    assert (result.status, result.error_type) == ("Failed", "WorkerCrashed")
    assert len(puppet.requests) == asked  # noticed before anything was asked
    assert host.execute(session, "return before").result == 41


def test_what_a_worker_says_of_its_time_does_not_count_above_the_host_s_clock(host):
    session, puppet, calls = begin(host, timeout=10)
    puppet.tamper = lambda status, ns, reads, output: raw_reply(output, status=status, ns=2**64 - 1, reads=2**32 - 1)
    assert (
        host.execute(
            session, "for (let i = 0; i < 5; i++) { for (let j = 0; j < 2e5; j++); await t(i) } return before"
        ).result
        == 41
    )
    assert calls == [0, 1, 2, 3, 4]


def test_a_worker_that_denies_its_time_is_stopped(host, monkeypatch):
    """It answers each refusal of a call with the next call, in no time as it says."""
    monkeypatch.setattr(core_run, "_MAX_UNCLAIMED", 0.0)
    session, puppet, _ = begin(host, timeout=0.1)
    ids = iter(range(1, 10**9))

    def forever(puppet, _):
        puppet.attack = forever
        time.sleep(0.002)
        puppet.send(reply({**CALL, "id": next(ids)}, IDLE, ns=0))

    puppet.attack = forever
    result = host.execute(session, CODE)
    assert (result.status, result.error_type) == ("Failed", "RuntimeTimeout"), result
    assert session.calls_made == 50
    assert next(ids) > 60  # refused calls did not end it


def test_timers_that_are_always_due_do_not_make_a_busy_loop(host):
    session = host.session({"t": lambda x: time.sleep(0.2)}, timeout=5)
    puppet, asked = host.puppets[-1], []

    def due(puppet, request):
        puppet.attack = due
        asked.append(request[:1])
        made = [CALL] if len(asked) == 1 else []
        puppet.send(reply(DONE) if asked[-1] == b"A" else reply(*made, {**IDLE, "timer": -1e300}))

    puppet.attack = due
    assert host.execute(session, CODE).ok
    assert 1 <= asked.count(b"T") <= 250


def test_a_worker_that_does_not_take_its_request_is_given_up(host, monkeypatch):
    monkeypatch.setattr(link, "TAKING", 0.3)
    session = host.session({"big": lambda: "x" * (8 * MIB)}, max_tool_calls=5)
    puppet = host.puppets[-1]
    free = threading.Event()

    def deaf(puppet, _):
        puppet.send(reply({**CALL, "n": "big", "a": []}, IDLE))
        free.wait(20)

    puppet.attack = deaf
    try:
        # closing waits for the puppet's thread
        threading.Timer(1.5, free.set).start()
        result = host.execute(session, "return (await big()).length")
    finally:
        free.set()
    assert (result.status, result.error_type) == ("Failed", "WorkerCrashed"), result
    assert puppet.killed and session.calls_made == 1
    assert host.execute(session, "return (await big()).length").result == 8 * MIB


def test_much_output_is_cut_and_the_application_is_not_called_for_it(host):
    lines = []
    session = host.session({}, on_console=lambda stream, line: lines.append(line), max_output_bytes=1000)
    puppet = host.puppets[-1]
    small = b'{"t":"log","f":0,"s":1,"m":"x"}'
    body = (struct.pack("<I", len(small)) + small) * 200_000
    big = b'{"t":"log","f":0,"s":2,"m":"%b"}' % (b"x" * (32 * MIB))
    end = b'{"t":"done","f":0}'
    puppet.attack = send(raw_reply(body + struct.pack("<I", len(big)) + big + struct.pack("<I", len(end)) + end))
    result = host.execute(session, "1")
    assert result.ok and result.truncated
    assert len(result.stdout) <= 1000 and len(result.stderr) <= 1000
    assert 1 <= len(lines) <= 1100


@pytest.mark.parametrize("huge", ["name", "message", "stack"])
def test_texts_of_an_error_are_cut(host, huge):
    session, puppet, _ = begin(host)
    puppet.attack = say({**FAIL, huge: "\x1b" * (8 * MIB), "line": 2**31, "col": 7})
    result = host.execute(session, CODE)
    assert (result.status, result.error_type) == ("Failed", "Error")
    assert len(result.error) < 5000 and "\x1b" not in result.error
    assert result.line is None and result.column is None  # beyond the source


def test_a_column_without_a_line_is_no_place(host):
    session, puppet, _ = begin(host)
    puppet.attack = say({**FAIL, "line": 0, "col": 7})
    result = host.execute(session, CODE)
    assert result.error_type == "Error" and result.line is None and result.column is None


@pytest.mark.parametrize(
    "value",
    [
        b'{"$":"bigint","v":"x"}',
        b'{"$":"bigint","v":"%b"}' % (b"9" * 5000),
        b'{"$":"date","v":"now"}',
        b'{"$":"date","v":1e300}',
    ],
    ids=["bigint of letters", "bigint of 5,000 digits", "date of text", "date beyond all years"],
)
def test_values_that_cannot_cross_are_typed(host, value):
    session, puppet, calls = begin(host)

    def call(puppet, _):
        puppet.attack = result
        called(b"[%b]" % value)(puppet, _)

    def result(puppet, request):
        told.append(request)
        done(value)(puppet, request)

    told = []
    puppet.attack = call
    assert host.execute(session, CODE).error_type == "ValueCrossingError"
    assert calls == [] and len(told) == 1 and b"TypeError" in told[0]


def test_a_lie_about_a_completed_run_is_not_repeated_by_a_fresh_guest(host):
    """The host cannot know what the guest computed. But it notices when a replay gives something else, and never goes on with it."""
    session, puppet, _ = begin(host)
    puppet.attack = say({**DONE, "v": 666})
    assert host.execute(session, "return 1").result == 666
    puppet.kill()
    assert host.execute(session, "return 2").error_type == "WorkerCrashed"
    for _ in range(2):
        result = host.execute(session, "return before")
        assert (result.status, result.error_type) == ("Failed", "WorkerCrashed")
        assert "another outcome" in result.error


@pytest.mark.parametrize(
    "attack",
    [
        say({**DONE, "v": 9}),
        say(status=1),
        say(status=2),
        hang_up,
        send(frames.encode_frame(frames.IMAGE, b"x")),
        send(frames.encode_frame(frames.REFUSED, b"no")),
        send(b"\xff" * 100),
    ],
    ids=["another outcome", "interrupted", "trapped", "end of stream", "image", "refused", "garbage"],
)
def test_a_second_worker_that_attacks_while_the_state_is_rebuilt(host, attack):
    host.plan = 2
    session, puppet, _ = begin(host)

    def arm(puppet, count):
        puppet.attack, puppet.on = attack, frames.BATCH

    host.arm = arm
    puppet.attack = hang_up
    assert host.execute(session, CODE).error_type == "WorkerCrashed"
    result = host.execute(session, CODE)
    assert (result.status, result.error_type) == ("Failed", "WorkerCrashed"), result
    recovered(host, session, host.puppets[1], charged=0)


def test_a_first_worker_that_attacks_at_once(host):
    host.arm = lambda puppet, _: (setattr(puppet, "attack", say(DONE, DONE, DONE)), setattr(puppet, "on", frames.BATCH))
    with pytest.raises(WorkerCrashed):
        host.session({})
    until(lambda: host.puppets[0].closed)
    assert host.execute(host.session({}), "return 1").result == 1


@pytest.mark.parametrize(
    "attack",
    [say(DONE), send(frames.encode_frame(frames.REFUSED, b"no")), send(b"\xff" * 100), hang_up],
    ids=["reply", "refused", "garbage", "end of stream"],
)
def test_what_is_no_image_does_not_get_into_a_dump(host, attack):
    session, puppet, _ = begin(host)
    puppet.attack, puppet.on = attack, frames.DUMP
    blob = host.wait(session.dump(KEY))
    assert puppet.closed
    assert host.execute(session, "return before").result == 41
    with AgentSandbox.load(blob, KEY, {"t": lambda x: x}, isolation="inline") as loaded:
        assert loaded.run("return before") == 41


@functools.cache
def bomb(size):
    inflated = zlib.compressobj(9)
    return b"".join(inflated.compress(bytes(16 * MIB)) for _ in range(size // (16 * MIB))) + inflated.flush()


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_an_image_that_is_a_bomb_is_never_inflated(monkeypatch, isolation):
    """Neither by the host, nor further than the memory limit by the next guest."""
    host = Host(monkeypatch, awaiting=False)
    session, puppet, _ = begin(host)
    image = bomb(512 * MIB)
    puppet.attack, puppet.on = send(frames.encode_frame(frames.IMAGE, image)), frames.DUMP
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    blob = session.dump(KEY)
    assert image in blob  # the control: it is there
    with pytest.raises(JournalError):
        AgentSandbox.load(blob, KEY, {"t": lambda x: x}, isolation=isolation, max_memory=64 * MIB)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024  # KiB
    puppet.kill()
    assert session.execute("return 1").error_type == "WorkerCrashed"
    assert session.execute("return before").error_type == "WorkerCrashed"  # its state was what it gave away
    host.close()
