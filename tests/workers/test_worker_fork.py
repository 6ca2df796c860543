"""A host that forks: the copy never touches its parent's workers, and makes its own."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from fake_guest import GUESTS
from worker_frames import Line, alive, descendants, eventually

from gloveport.engines.wasm.pool import WorkerPool


def in_a_copy(action: Callable[[], Any]) -> Any:
    """What `action` gives in a forked copy of this process."""
    inner, outer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = action()
        except BaseException as error:
            result = repr(error)
        os.write(outer, json.dumps(result).encode())
        os._exit(0)
    os.close(outer)
    with open(inner, "rb") as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def test_a_copy_makes_its_own_and_leaves_its_parents_alone(pool: WorkerPool) -> None:
    before = descendants(os.getpid())
    with Line(pool.take()) as line:
        # Its keeper, the zygote, the worker and two spares; the self-test's process is gone when nothing changes any more.
        found: list[set[int]] = [set()]

        def settled() -> bool:
            found.append(descendants(os.getpid()) - before)
            time.sleep(0.3)
            return len(found[-1]) >= 5 and found[-1] == descendants(os.getpid()) - before

        assert eventually(settled), found
        ours = found[-1]

        def copy() -> dict[str, Any]:
            closed = line.worker.fileno() == -1 and line.worker.pidfd == -1 and not line.worker.alive
            line.worker.kill()
            line.worker.interrupt()
            line.worker.close()
            with Line(pool.take()) as own:
                output = own.step(b"own").output.decode()
                made = own.worker.pid in descendants(os.getpid())
            pool.close()
            return {"closed": closed, "output": output, "made": made}

        assert in_a_copy(copy) == {"closed": True, "output": "own", "made": True}
        assert line.step(b"ours").output == b"ours"
        assert all(map(alive, ours))
        with Line(pool.take()) as more:
            assert more.step(b"more").output == b"more"


def test_the_exit_of_a_copy_ends_nothing_of_its_parent(pool: WorkerPool) -> None:
    with Line(pool.take()) as line, Line(pool.open_shared("a")) as shared:
        process = multiprocessing.get_context("fork").Process(target=len, args=("",))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert line.step(b"on").output == b"on"
        assert shared.step(b"on").output == b"on"


def test_a_copy_holds_no_descriptor_of_its_parents_workers(pool: WorkerPool) -> None:
    others = _links()  # of sessions that other tests of this process hold open
    lines = [Line(pool.take()), Line(pool.open_shared("a"))]
    own = _links() - others
    sockets = {link for link in own if link.startswith("socket:")}

    def copy() -> list[str]:
        held: list[str] = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                link = os.readlink(f"/proc/self/fd/{fd}")
            except OSError:
                continue
            if link in sockets or "pidfd" in link or "interrupt" in link:
                held.append(link)
        return held

    assert len(sockets) >= 4
    assert in_a_copy(copy) == []
    for line in lines:
        line.worker.close()


def _links() -> set[str]:
    links: set[str] = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.add(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue
    return links


def test_a_fork_while_another_thread_takes(pool: WorkerPool) -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            pool.take().close()

    threads = [threading.Thread(target=churn) for _ in range(3)]
    for thread in threads:
        thread.start()

    def copy() -> str:
        with Line(pool.take()) as own:
            return own.step(b"own").output.decode()

    try:
        for _ in range(5):
            assert in_a_copy(copy) == "own"
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_prefork_servers(pool: WorkerPool) -> None:
    """A master that never took a worker, and children that do."""
    before = set(descendants(os.getpid()))
    results = [in_a_copy(lambda: _serve(pool)) for _ in range(2)]
    assert results == ["served", "served"]
    assert eventually(lambda: not set(descendants(os.getpid())) - before)


def _serve(pool: WorkerPool) -> str:
    with Line(pool.take()) as line:
        return line.step(b"served").output.decode()


@pytest.mark.parametrize("hooks", [True, False])
def test_the_copys_processes_end_with_the_copy(hooks: bool) -> None:
    with WorkerPool(guests=GUESTS) as pool, Line(pool.take()) as line:

        def copy() -> list[int]:
            if hooks:
                pool.take()
            return sorted(descendants(os.getpid()))

        made = in_a_copy(copy)
        assert bool(made) is hooks
        assert eventually(lambda: not any(map(alive, made)))
        assert line.step(b"on").output == b"on"
