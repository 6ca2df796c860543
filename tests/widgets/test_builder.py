"""The builder and the workers: dying, being busy, being cancelled, and leaving nothing."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time

import anyio
import pytest

from gloveport.engines.builder import Builder, Mounting
from gloveport.errors import EngineUnavailableError, TypeScriptSandboxTimeoutError, WidgetError

SOURCE = "export default () => <p>{}</p>"
SLOW = "export default () => <p>{" + "+".join(["(" * 40 + "1" + ")" * 40] * 4000) + "}</p>"


@pytest.fixture
def builder():
    made = Builder()
    yield made
    made.close()


@pytest.fixture
def mounting():
    made = Mounting()
    yield made
    made.close()


def build(builder, source, timeout=30.0, **options):
    return builder.build(source, css=None, resolve=None, timeout=timeout, **options)


def test_one_process_serves_all_and_comes_again_when_it_died(builder, backend):
    async def main():
        await build(builder, SOURCE)
        first = builder.pid
        await build(builder, SOURCE)
        assert builder.pid == first
        os.kill(first, signal.SIGKILL)
        built = await build(builder, SOURCE)
        assert "jsx" in built.code
        assert builder.pid != first

    anyio.run(main, backend=backend)


def test_a_timeout_ends_the_builder_and_the_next_one_works(builder, backend):
    async def main():
        await build(builder, SOURCE)
        first = builder.pid
        with pytest.raises(TypeScriptSandboxTimeoutError):
            await build(builder, SLOW, timeout=0.001)
        await build(builder, SOURCE)
        assert builder.pid != first

    anyio.run(main, backend=backend)


def test_a_cancelled_build_leaves_no_answer_for_the_next(builder, backend):
    async def main():
        await build(builder, SOURCE)
        with anyio.move_on_after(0.002) as scope:
            await build(builder, SLOW)
        assert scope.cancelled_caught
        built = await build(builder, "export default () => <b>other</b>")
        assert "other" in built.code

    anyio.run(main, backend=backend)


def test_a_host_that_is_slow_to_answer_holds_up_nobody_else(builder, backend):
    """One build waits for its host; another one gets a process of its own."""
    from gloveport.engines.builder import Answer

    async def main():
        await build(builder, SOURCE)
        asked, go_on = anyio.Event(), anyio.Event()

        async def resolve(specifier, importer, kind):
            asked.set()
            await go_on.wait()
            return Answer(name="slow", code="export const x = 'slowly'")

        source = "import { x } from 'slow';\nexport default () => <p>{x}</p>"
        found = []

        async def slow():
            found.append(await builder.build(source, css=None, resolve=resolve, timeout=30.0))

        async with anyio.create_task_group() as group:
            group.start_soon(slow)
            await asked.wait()
            assert "other" in (await build(builder, "export default () => <b>other</b>")).code
            assert found == []
            go_on.set()
        assert "slowly" in found[0].code

    anyio.run(main, backend=backend)


def test_too_many_at_once_are_told_so(builder, monkeypatch):
    from gloveport.engines.builder import Answer

    async def main():
        async def resolve(specifier, importer, kind):
            await anyio.sleep(30)
            return Answer(name="never", code="")

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(
                    functools.partial(builder.build, "import 'x'", css=None, resolve=resolve, timeout=30.0)
                )
            await anyio.sleep(2.0)
            with pytest.raises(EngineUnavailableError, match="busy"):
                await build(builder, SOURCE, timeout=0.5)
            group.cancel_scope.cancel()
        assert "jsx" in (await build(builder, SOURCE)).code

    anyio.run(main)


def test_what_crashes_the_builder_is_the_sources_fault(builder):
    """Killed twice at the same source: it is not tried a third time."""
    from gloveport.engines.builder import Answer

    async def main():
        async def resolve(specifier, importer, kind):
            os.kill(builder.pid, signal.SIGKILL)
            return Answer(name="x", code="")

        with pytest.raises(WidgetError, match="crashes the builder"):
            await builder.build("import 'x'", css=None, resolve=resolve, timeout=30.0)
        assert "jsx" in (await build(builder, SOURCE)).code

    anyio.run(main)


@pytest.mark.parametrize(
    "source",
    [
        "export default () => " + "(" * 200_000 + "1" + ")" * 200_000,
        "export default () => " + "<a>" * 100_000 + "</a>" * 100_000,
        "type A = " + "[" * 200_000 + "]" * 200_000 + ";\nexport default () => <p/>",
        "export default () => {" + "if (1) " * 100_000 + ";}",
    ],
    ids=["parentheses", "elements", "types", "statements"],
)
def test_what_is_nested_too_deeply_spoils_the_builder_for_nobody(builder, source):
    """esbuild is of no use after its stack ran out: the process has to be replaced."""

    async def main():
        with pytest.raises(WidgetError, match="nested too deeply"):
            await build(builder, source)
        for _ in range(2):
            assert "jsx" in (await build(builder, SOURCE)).code

    anyio.run(main)


def test_closed_is_closed(builder):
    builder.close()
    builder.close()
    with pytest.raises(EngineUnavailableError, match="closed"):
        anyio.run(build, builder, SOURCE)


def test_every_widget_has_a_worker_of_its_own(builder, mounting, backend):
    """What one leaves in its globals no other finds."""
    source = "globalThis.left ??= 0;\nexport default function W() { if (globalThis.left++ > %d) throw new Error('found'); return <p/> }"

    async def main():
        for _ in range(2):
            built = await build(builder, source % 3)
            assert (await mounting.mount(built.code, timeout=20.0)).error is None
        built = await build(builder, source % -1)  # the control: this one would be seen
        assert "found" in (await mounting.mount(built.code, timeout=20.0)).error.text

    anyio.run(main, backend=backend)


def test_a_cancelled_mount_ends_its_worker(mounting, backend):
    async def main():
        talk = await mounting.begin()
        pid = talk.worker.pid
        with anyio.move_on_after(0.2):
            await mounting.mount("for (;;);", timeout=30.0, talk=talk)
        end = time.monotonic() + 10
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
            await anyio.sleep(0.01)
        assert not os.path.exists(f"/proc/{pid}")

    anyio.run(main, backend=backend)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\x05\x00\x00\x00jnull",
        b"\xff\xff\xff\xffj",
        b"\x02\x00\x00\x00j{",
        b"\x03\x00\x00\x00j{}",
        b"\x01\x00\x00\x00r",
        os.urandom(64),
    ],
)
def test_a_worker_that_says_nonsense_is_a_typed_error(mounting, said, backend):
    """The worst that a widget can do once it has its worker."""
    import socket

    class Lying:
        def __init__(self):
            self.sock, theirs = socket.socketpair()
            theirs.sendall(said)
            theirs.shutdown(socket.SHUT_WR)
            self.theirs = theirs

        def kill(self):
            pass

        def close(self):
            self.sock.close()
            self.theirs.close()

        def ran_out_of_memory(self):
            return False

    from gloveport.engines.builder.mount import MAX_VERDICT
    from gloveport.engines.builder.talk import Talk

    async def main():
        with pytest.raises(WidgetError, match="ended the process") as caught:
            await mounting.mount("", timeout=5.0, talk=Talk(Lying(), MAX_VERDICT))
        assert caught.value.stage == "crash"

    anyio.run(main, backend=backend)


def test_a_worker_that_says_nonsense_and_stays_alive_is_not_waited_for(mounting):
    import socket

    from gloveport.engines.builder.mount import MAX_VERDICT
    from gloveport.engines.builder.talk import Talk

    class Staying:
        alive = True

        def __init__(self):
            self.sock, self.theirs = socket.socketpair()

        def close(self):
            self.alive = False
            self.sock.close()
            self.theirs.close()

        def ran_out_of_memory(self):
            raise AssertionError("it is asked how it ended")

    async def mounted(worker):
        with pytest.raises(WidgetError, match="ended the process") as caught:
            await mounting.mount("", timeout=5.0, talk=Talk(worker, MAX_VERDICT))
        assert caught.value.stage == "crash"
        assert not worker.alive

    for said in (b"\x01\x00\x00\x00A", b"\x05\x00\x00\x00jnull", b"\xff\xff\xff\xffj"):
        worker = Staying()
        worker.theirs.sendall(said)
        anyio.run(mounted, worker)
    worker = Staying()
    worker.theirs.close()
    with pytest.raises(AssertionError, match="how it ended"):  # the control: one that has ended is asked
        anyio.run(mounted, worker)


@pytest.mark.parametrize("number", ["-1", "1" + "0" * 400, "2147483648", "1.5"])
def test_a_builder_that_names_no_place_of_a_source_is_not_believed(builder, monkeypatch, number):
    import socket

    from gloveport.engines.builder.client import MAX_REPLY
    from gloveport.engines.builder.talk import Talk

    class Lying:
        def __init__(self):
            self.sock, self.theirs = socket.socketpair()
            said = f'j{{"id":1,"kind":"source","message":"x","line":{number}}}'.encode()
            self.theirs.sendall(len(said).to_bytes(4, "little") + said)

        def kill(self):
            pass

        def close(self):
            self.sock.close()
            self.theirs.close()

    monkeypatch.setattr(builder._resident, "_start", lambda: Talk(Lying(), MAX_REPLY))
    with pytest.raises(WidgetError, match="crashes the builder"):
        anyio.run(build, builder, SOURCE)
    number = "7"  # the control
    with pytest.raises(WidgetError, match=r"^x \(line 7"):
        anyio.run(build, builder, SOURCE)


UNFIT = {
    "nul": "/a\0b/.test('a\\0b')",
    "nul-escaped": "/a\\\0b/.test('a\\0b')",
    "nul-after-a-backslash": "/a\\\\\0b/.test('a\\\\\\0b')",
    "nul-in-a-class": "/^[\0]$/u.test('\\0')",
    "nul-in-raw-text": "String.raw`\0\\\0`.length === 3",
    "nul-in-a-string": "/x\0/.test('x\0') && '\0' === '\\0'",
    "comment": "/<!--/.test('<!--')",
    "comment-escaped": "/^\\<!--/.test('<!--')",
    "comment-after-a-backslash": "/^\\\\<!--/.test('\\\\<!--')",
    "end": "/[</script>]{3}/.test('</s')",
}


@pytest.mark.parametrize("condition", UNFIT.values(), ids=UNFIT)
def test_what_cannot_stand_in_a_page_means_the_same_there(builder, mounting, condition):
    source = f"if (!({condition})) throw new Error('another one');\nexport default () => <p/>"

    async def main():
        built = await build(builder, source)
        assert built.page is not None
        assert not {"\0", "\r"} & set(built.page)
        for code in (built.code, built.page):
            assert (await mounting.mount(code, timeout=20.0)).error is None

    anyio.run(main)


def test_nothing_is_left_behind():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    async def main():
        ours, workers = Builder(), Mounting()
        for i in range(6):
            built = await build(ours, f"{SOURCE}// {i}")
            assert (await workers.mount(built.code, timeout=20.0)).mounted
        pids = [ours.pid]
        ours.close()
        workers.close()
        return pids

    anyio.run(main)
    time.sleep(0.5)
    before = descriptors()
    pids = anyio.run(main)
    end = time.monotonic() + 10
    while (descriptors() > before or any(os.path.exists(f"/proc/{pid}") for pid in pids)) and time.monotonic() < end:
        time.sleep(0.02)
    assert descriptors() <= before
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


FORKING = """
import os, anyio
from gloveport.host.widgets.render import render
from gloveport.engines.defaults import builder
source = "export default () => <p>%d</p>"
assert anyio.run(render, source % 1).mounted
pid = builder("require").pid
child = os.fork()
if child == 0:
    ok = anyio.run(render, source % 2).mounted and builder("require").pid not in (None, pid)
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert anyio.run(render, source % 3).mounted
assert builder("require").pid == pid
print("both")
"""


def test_a_fork_of_the_host_has_its_own():
    command = [sys.executable, "-W", "ignore", "-c", FORKING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "both\n", done.stderr
