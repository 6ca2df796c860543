"""How a run can end otherwise than with a value: each is a result, the host does not notice, and the next call works."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from .conftest import opened

LOOPS = {
    "sync": "while (true) {}",
    "microtasks": "queueMicrotask(function f() { queueMicrotask(f) }); await new Promise(r => setTimeout(r, 1))",
    "promises": "export default async () => { for (;;) await null }",
    "module level": "while (true) {}\nexport default () => 1",
    "finally": "function f() { try { while (true) {} } finally { f() } }\nf()",
    "regex": "/^(a+)+$/.test('a'.repeat(50) + 'b')",
    "wasm": (
        "new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([0,97,115,109,1,0,0,0,1,4,1,96,0,0,3,2,1,0,7,5,1,1,102,0,0,"
        "10,9,1,7,0,3,64,12,0,11,11]))).exports.f()"
    ),
    "Atomics.wait": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    "getter": "({ get a() { for (;;); } })",
    "proxy": "new Proxy({}, { ownKeys() { for (;;); } })",
    "toString of an error": "throw Object.defineProperty(new Error('x'), 'message', { get() { for (;;); } })",
    "generator": "for (const x of (function* () { for (;;) yield 1 })());",
    "a timer that never ends": "await new Promise(() => setInterval(() => {}, 5))",
    "after the value": "export default () => { process.nextTick(() => { for (;;); }); return 1 }",
}


@pytest.mark.parametrize("name", LOOPS)
def test_endless_code_is_stopped(module, name):
    result = module.fails(LOOPS[name], timeout=0.3)
    assert (result.error_type, result.exit_reason) == ("Timeout", "timeout")
    assert "0.3 s" in result.error
    after = module("1")
    assert (after.value, after.state_lost) == (1, True)


def test_what_is_slow_but_ends_is_not_stopped(module):
    assert module.value("const end = Date.now() + 300; while (Date.now() < end); 1") == 1


def test_what_was_printed_before_a_timeout_is_told(module):
    result = module.fails("console.log('first'); while (true) {}", timeout=0.3)
    assert result.stdout == "first\n"


ENDS = {
    "Deno.exit": ("Deno.exit(0)", "Exited", "exited", 0),
    "Deno.exit with a code": ("export default () => Deno.exit(3)", "Exited", "exited", 3),
    "process.exit": ("process.exit(4)", "Exited", "exited", 4),
    "reallyExit": ("process.reallyExit(7)", "Exited", "exited", 7),
    "exit in a timer": (
        "setTimeout(() => Deno.exit(9), 5); await new Promise(r => setTimeout(r, 5000))",
        "Exited",
        "exited",
        9,
    ),
    "a full heap": ("const a: unknown[] = []; while (true) a.push({ x: 1 })", "OutOfMemory", "memory", 133),
    "invalid size": ("'x'.repeat(2 ** 28).split('')", "OutOfMemory", "memory", 133),
    "abort": ("process.abort()", "Crashed", "crashed", None),
    "a worker with permissions": (
        "new Worker('data:text/javascript,1', { type: 'module', deno: { permissions: { net: true } } }); await new Promise(() => {})",
        "Exited",
        "exited",
        70,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_code_that_ends_its_process_has_a_result(module, name):
    source, error_type, reason, code = ENDS[name]
    module("globalThis.kept = 1")
    result = module.fails(source)
    assert (result.error_type, result.exit_reason) == (error_type, reason), result.error
    assert result.exit_code == code or code is None
    assert "next call" in result.error
    after = module("typeof kept")
    assert (after.value, after.state_lost) == ("undefined", True)
    assert not module("1").state_lost


def test_code_cannot_signal_its_way_out(module):
    for attack in (
        "Deno.kill(Deno.pid, 'SIGKILL')",
        "process.kill(process.pid, 'SIGINT')",
        "process.kill(0, 'SIGTERM')",
    ):
        result = module(f"try {{ {attack} }} catch (e) {{ }} await new Promise(r => setTimeout(r, 20)); 1")
        assert result.value == 1 or result.exit_reason in ("signal", "exited"), result.error
    with pytest.raises(KeyboardInterrupt):  # the control: such a signal does reach this process
        os.kill(os.getpid(), signal.SIGINT)


def test_buffers_count_as_memory(module):
    fill = "const kept: unknown[] = []; for (let i = 0; i < N; i++) kept.push(new Uint8Array(64 * 2 ** 20).fill(1)); 1"
    assert module(fill.replace("N", "2")).value == 1
    over = module.fails(fill.replace("N", "20"))
    assert over.error_type in ("RangeError", "OutOfMemory", "Crashed")
    module.call(module.session.reset)


def test_wasm_memory_counts(module):
    grow = "const m = new WebAssembly.Memory({ initial: 1 }); m.grow(N); new Uint8Array(m.buffer).fill(1); m.buffer.byteLength > 0"
    assert module.value(grow.replace("N", "100")) is True
    assert not module.fails(grow.replace("N", "20_000")).ok
    module.call(module.session.reset)


def test_the_heap_limit_is_the_one_that_was_given():
    source = "const a: unknown[] = []; for (let i = 0; i < 4e6; i++) a.push({ x: i }); a.length"
    with opened(max_old_generation_size_mb=32) as small:
        assert small.fails(source).error_type == "OutOfMemory"
    with opened(max_old_generation_size_mb=600, max_memory_mb=1024) as large:
        assert large.value(source) == 4_000_000


STUCK = {
    "a promise": "export default () => new Promise(() => {})",
    "top-level await": "await new Promise(() => {});\nexport default () => 1",
    "a script": "await new Promise(() => {})",
    "after the timers": "await new Promise(r => setTimeout(r, 10)); await new Promise(() => {})",
    "with React loaded": "import 'react-dom/server'; import 'react-dom/client'; await new Promise(() => {})",
}


@pytest.mark.parametrize("name", STUCK)
def test_a_promise_that_nothing_can_settle_is_told_at_once(module, name):
    result = module.fails(STUCK[name], timeout=60)
    assert result.error_type == "Stuck"
    assert "never resolve" in result.error
    assert not module("1").state_lost


def test_open_timers_do_not_hold_a_result_back(fresh):
    result = fresh(
        "globalThis.n = 0; setInterval(() => n++, 1); new MessageChannel().port1.onmessage = () => {};\nexport default () => 1",
        timeout=30,
    )
    assert result.value == 1
    assert result.duration < 15


def test_harmless_attempts_change_nothing(module):
    assert module.fails("Deno.chdir('/')").error_type == "NotCapable"
    assert module.value("Deno.addSignalListener('SIGTERM', () => {}); Deno.stdin.readSync(new Uint8Array(4))") is None
    assert module.value("(await import('node:fs')).readFileSync(0, 'utf8')") == ""
    assert os.getcwd() != "/workspace"


def framed(kind, *texts):
    """A frame; each text has its length before it."""
    body = bytes([kind]) + b"".join(len(text).to_bytes(4, "little") + text for text in map(str.encode, texts))
    return [*len(body).to_bytes(4, "little"), *body]


def done(parts, value):
    return framed(0x64, f'{{"ok":true,"open":0,"parts":{parts}}}', value)


def failed(frames):
    error = f'{{"kind":"threw","name":"E","message":"m","frames":{frames}}}'
    return framed(0x64, f'{{"ok":false,"open":0,"parts":0,"error":{error}}}', "")


def tail(lines, size, text="x"):
    return framed(0x74, f'{{"s":1,"lines":{lines},"bytes":{size}}}', text)


def called(number, arguments="[]", name="a"):
    return framed(0x63, f'{{"id":{number},"name":"{name}","args":{arguments}}}')


NINES = "9" * 4300
"""As long as an integer may be that Python reads."""
PART = 0x70
ITEMS = framed(PART, str(["x" * 997] * 20).replace("'", '"'))  # 20 KB
FORGED = {
    "a frame of ours": "[5, 0, 0, 0, 0x64, 1, 0, 0, 0]",
    "a huge frame": "[255, 255, 255, 127, 0x64]",
    "no frame": "Array.from({ length: 100 }, () => 0x41)",
    "a value that is cut off": str([37, 0, 0, 0, *done(0, "[1,2]")[4:-4]]),
    "a part that is no array": str(framed(PART, f'"{"x" * 20_000}"')),
    "a part that is too small": str(framed(PART, "[1]")),
    "parts over the limit": str(ITEMS * 3),
    "parts that did not come": str(done(1, "[1]")),
    "more parts than there are": str(ITEMS + done(0, "[1]")),
    "parts of no array": str(ITEMS + done(1, "1")),
    "an unknown kind": "[1, 0, 0, 0, 0x7a]",
    "a call of no tool": str(called(1, name="x")),
    "a call number that is none": str(called(0)),
    "a call number without end": str(called("9" * 4000)),
    "arguments that are no list": str(called(1, "{}")),
    "arguments that are too deep": str(called(1, "[" * 20_000 + "]" * 20_000)),
    "a value that is too deep": str(done(0, "[" * 20_000 + "]" * 20_000)),
    "a place before the first": str(failed('[["f","module-1.ts",1,-5]]')),
    "a place without end": str(failed(f'[["f","module-1.ts",{NINES},1]]')),
    "calls without end that are open": str(framed(0x64, f'{{"ok":true,"open":{NINES},"parts":0}}', "1")),
    "more lines missing than nothing": str(tail(-1, 1) + done(0, "1")),
    "lines without end missing": str(tail(NINES, NINES) + done(0, "1")),
    "two ends of one stream": str(tail(1, 1) * 2 + done(0, "1")),
    "an end over the limit": str(tail(1, 1, "x" * 60_000) + done(0, "1")),
    "a line over the limit": str(
        [*(60_005).to_bytes(4, "little"), 0x6F, 1, *(59_999).to_bytes(4, "little")] + [65] * 59_999
    ),
    "a line that is cut off": "[3, 0, 0, 0, 0x6f, 1, 0x41]",
}
OFFERED = {"nothing": None, "tools": {"a": lambda: 1}}


@pytest.mark.parametrize("offered", OFFERED)
@pytest.mark.parametrize("name", FORGED)
def test_forged_frames_only_end_their_worker(fresh, name, offered):
    """The socket itself, through Deno's own core."""
    write = (
        "const all = new Uint8Array(BYTES); for (let n = 0; n < all.length;) n += Deno[Deno.internal].core.writeSync(1, all.subarray(n));\n"
        "await new Promise(r => setTimeout(r, 2000)); 1"
    )
    result = fresh.fails(write.replace("BYTES", FORGED[name]), tools=OFFERED[offered])
    assert (result.error_type, result.exit_reason) == ("Crashed", "crashed")
    assert fresh("1").value == 1


def test_a_forged_value_is_only_a_value(fresh):
    """A worker that was taken over decides what it answers, within the limits of answers."""
    bytes_ = done(0, '"mine"')
    source = f"Deno[Deno.internal].core.writeSync(1, new Uint8Array({bytes_})); for (;;);"
    assert fresh(source).value == "mine"


def test_a_flood_of_output_is_stopped(fresh):
    """Past what a worker of ours sends, it is no worker of ours."""
    source = (
        "const line = new Uint8Array(60_010).fill(0x41); line.set([0x66, 0xea, 0, 0, 0x6f, 1]); const core = Deno[Deno.internal].core;\n"
        "for (;;) core.writeSync(1, line);"
    )
    result = fresh.fails(source, timeout=60)
    assert result.exit_reason == "crashed"
    assert len(result.stdout) < 120_000


@pytest.mark.skipif(sys.platform != "linux", reason="process states are Linux's")
def test_nothing_runs_between_calls(fresh):
    """Not even threads that the code has started."""
    pid = fresh.session._worker.pid
    spin = (
        "import { Worker } from 'node:worker_threads';\nglobalThis.w = new Worker('while (true) {}', { eval: true });\n"
    )
    assert fresh.value(spin + "await new Promise(r => setTimeout(r, 50)); 1") == 1
    until(lambda: state(pid) == "T")
    first = cpu(pid)
    running = fresh("await new Promise(r => setTimeout(r, 300)); 1")
    assert running.cpu_time > 0.05  # the control: they do run in a call
    until(lambda: state(pid) == "T")
    between = cpu(pid)
    assert between > first
    time.sleep(0.3)
    assert cpu(pid) == between
    assert fresh.value("1") == 1


def until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def cpu(pid):
    with open(f"/proc/{pid}/stat") as file:
        words = file.read().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])
