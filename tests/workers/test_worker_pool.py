"""Taking, using and losing workers."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import select
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_guest import GUESTS
from worker_frames import Line, alive, descendants, eventually, receive

from gloveport.engines.wasm.handle import Worker
from gloveport.engines.wasm.pool import WorkerPool
from gloveport.errors import EngineUnavailableError


def zygote_pid(pool: WorkerPool, worker: Worker) -> int:
    with open(f"/proc/{worker.pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def test_nothing_starts_before_the_first_take() -> None:
    before = descendants(os.getpid())
    with WorkerPool(guests=GUESTS) as pool:
        assert descendants(os.getpid()) == before
        pool.take()
        assert descendants(os.getpid()) != before


def test_workers_are_apart(pool: WorkerPool) -> None:
    with Line(pool.take()) as one, Line(pool.take()) as two:
        assert one.worker.pid != two.worker.pid
        one.worker.kill()
        assert eventually(lambda: not one.worker.alive)
        assert two.worker.alive
        assert two.step(b"still").output == b"still"


def test_interrupt_stops_a_running_guest_and_only_that(pool: WorkerPool) -> None:
    with Line(pool.take()) as one, Line(pool.take()) as two:
        threading.Timer(0.05, one.worker.interrupt).start()
        assert one.step(b"spin").status == 1
        one.worker.clear_interrupt()
        threading.Timer(0.05, one.worker.interrupt).start()
        assert one.step(b"spin").status == 1
        assert two.step(b"hello").status == 0


def test_a_spinning_worker_dies_by_kill(line: Line) -> None:
    threading.Timer(0.05, line.worker.kill).start()
    with pytest.raises(EOFError):
        line.step(b"spin")
    assert eventually(lambda: not line.worker.alive)


def test_a_crash_is_the_end_of_the_stream(line: Line) -> None:
    with pytest.raises(EOFError):
        line.step(b"die")
    assert eventually(lambda: not line.worker.alive)


def test_close_is_idempotent_and_everything_after_it_is_harmless(pool: WorkerPool) -> None:
    worker = pool.take()
    pid = worker.pid
    worker.close()
    worker.close()
    worker.interrupt()
    worker.clear_interrupt()
    worker.kill()
    assert not worker.alive
    assert worker.pid == pid
    assert worker.fileno() == worker.pidfd == -1
    assert eventually(lambda: not alive(pid))


def test_a_dropped_worker_dies(pool: WorkerPool) -> None:
    worker = pool.take()
    pid = worker.pid
    assert alive(pid)
    del worker
    gc.collect()
    assert eventually(lambda: not alive(pid))


def test_many_threads_take_at_once(pool: WorkerPool) -> None:
    def work(n: int) -> tuple[int, bytes]:
        with Line(pool.take()) as line:
            return line.worker.pid, line.step(b"%d" % n).output

    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(work, range(48)))
    assert [output for _, output in results] == [b"%d" % n for n in range(48)]
    assert len({pid for pid, _ in results}) == 48


def test_spares_are_made_again(pool: WorkerPool) -> None:
    nursery = pool._current()
    for _ in range(8):
        assert eventually(lambda: bool(select.select([nursery.control], [], [], 0)[0]))
        worker = nursery.try_take()
        assert worker is not None
        worker.close()
    # Two spares and no more: the stock does not grow with the number of takes.
    time.sleep(0.1)
    stock = [nursery.try_take() for _ in range(3)]
    assert [w is not None for w in stock] == [True, True, False]


def test_async_take() -> None:
    async def main() -> list[bytes]:
        with WorkerPool(guests=GUESTS, spares=1) as pool:
            workers = await asyncio.gather(*(pool.take_async() for _ in range(6)))
            outputs: list[bytes] = []
            for worker in workers:
                with Line(worker) as line:
                    outputs.append(line.step(b"async").output)
            return outputs

    assert asyncio.run(main()) == [b"async"] * 6


def test_a_cancelled_take_leaves_no_worker() -> None:
    async def main(pool: WorkerPool) -> None:
        task = asyncio.create_task(pool.take_async())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with WorkerPool(guests=GUESTS, spares=1) as pool:
        asyncio.run(main(pool))
        first = pool.take()
        # The zygote's child processes: the spare and the one just taken, once the abandoned one is gone.
        zygote = zygote_pid(pool, first)
        assert eventually(lambda: len(descendants(zygote)) == 2)


def test_a_dead_zygote_is_replaced_and_its_workers_end(pool: WorkerPool) -> None:
    old = Line(pool.take())
    zygote = zygote_pid(pool, old.worker)
    made = descendants(zygote)
    os.kill(zygote, signal.SIGKILL)
    assert eventually(lambda: not any(map(alive, made)))
    assert not old.worker.alive
    with Line(pool.take()) as line:
        assert line.step(b"again").output == b"again"
        assert zygote_pid(pool, line.worker) != zygote
    old.worker.close()


def test_a_spare_that_died_is_not_handed_out(pool: WorkerPool) -> None:
    first = pool.take()
    zygote = zygote_pid(pool, first)
    assert eventually(lambda: len(descendants(zygote)) == 3)
    time.sleep(0.05)
    for pid in descendants(zygote) - {first.pid}:
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda pid=pid: not alive(pid))
    for _ in range(3):
        with Line(pool.take()) as line:
            assert line.step(b"alive").output == b"alive"
    first.close()


def test_two_pools_do_not_meet() -> None:
    with WorkerPool(guests=GUESTS) as one, WorkerPool(guests=GUESTS) as two:
        with Line(one.take()) as a, Line(two.take()) as b:
            assert zygote_pid(one, a.worker) != zygote_pid(two, b.worker)
            one.close()
            assert eventually(lambda: not a.worker.alive)
            assert b.step(b"b").output == b"b"


def test_a_closed_pool_says_so() -> None:
    pool = WorkerPool(guests=GUESTS)
    worker = pool.take()
    pool.close()
    pool.close()
    assert eventually(lambda: not worker.alive)
    with pytest.raises(EngineUnavailableError, match="closed"):
        pool.take()


def test_close_wakes_those_who_wait() -> None:
    pool = WorkerPool(guests="fake_guest:slow", spares=1)
    pool.start()
    pool.take()
    result: list[BaseException] = []

    def wait() -> None:
        try:
            while True:
                pool.take(30)
        except EngineUnavailableError as error:
            result.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    pool.close()
    thread.join(5)
    assert not thread.is_alive()
    assert len(result) == 1


def test_a_guest_that_does_not_load_says_why() -> None:
    with (
        WorkerPool(guests="fake_guest:broken") as pool,
        pytest.raises(EngineUnavailableError, match="this guest does not load"),
    ):
        pool.take()


def test_workers_that_die_before_they_are_ready() -> None:
    with (
        WorkerPool(guests="fake_guest:dying") as pool,
        pytest.raises(EngineUnavailableError, match="died before they were ready"),
    ):
        pool.take()


@pytest.mark.parametrize("arguments", [{"sandbox": "maybe"}, {"spares": 0}, {"spares": 65}])
def test_wrong_arguments(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        WorkerPool(**arguments)  # pyright: ignore[reportArgumentType]


def test_nothing_leaks() -> None:
    with WorkerPool(guests=GUESTS) as pool:
        pool.take().close()
        zygote = zygote_pid(pool, pool.take())

        def counts() -> tuple[int, int]:
            gc.collect()
            return len(os.listdir("/proc/self/fd")), threading.active_count()

        assert eventually(lambda: len(descendants(zygote)) == 2)
        before = counts()
        zygote_descriptors = len(os.listdir(f"/proc/{zygote}/fd"))
        for _ in range(100):
            with Line(pool.take()) as line:
                assert line.step(b"x").output == b"x"
        assert eventually(lambda: len(descendants(zygote)) == 2)  # zombies would count
        assert counts() == before
        assert len(os.listdir(f"/proc/{zygote}/fd")) == zygote_descriptors
    assert not alive(zygote)


# ── many sessions in one worker ──────────────────────────────────────────────────────────────────────────────────────


def test_sessions_of_a_group_share_a_process(pool: WorkerPool) -> None:
    with Line(pool.open_shared("a")) as one, Line(pool.open_shared("a")) as two, Line(pool.open_shared("b")) as other:
        assert one.worker.pid == two.worker.pid != other.worker.pid
        one.worker.kill()
        with pytest.raises(EOFError):
            receive(one.worker.sock)
        assert not one.worker.alive
        assert two.worker.alive
        assert two.step(b"two").output == b"two"
        assert other.step(b"other").output == b"other"


def test_a_busy_session_does_not_stop_the_others_and_can_be_interrupted(pool: WorkerPool) -> None:
    with Line(pool.open_shared("a")) as one, Line(pool.open_shared("a")) as two:
        answers: list[int] = []
        thread = threading.Thread(target=lambda: answers.append(one.step(b"spin").status))
        thread.start()
        assert two.step(b"meanwhile").output == b"meanwhile"
        assert not answers
        one.worker.interrupt()
        thread.join(10)
        assert answers == [1]


def test_the_death_of_the_process_ends_every_session(pool: WorkerPool) -> None:
    with Line(pool.open_shared("a")) as one, Line(pool.open_shared("a")) as two:
        os.kill(one.worker.pid, signal.SIGKILL)
        for line in (one, two):
            with pytest.raises(EOFError):
                receive(line.worker.sock)
            assert eventually(lambda line=line: not line.worker.alive)
    with Line(pool.open_shared("a")) as again:
        assert again.step(b"again").output == b"again"


def test_the_last_session_takes_the_process_along(pool: WorkerPool) -> None:
    one, two = pool.open_shared("a"), pool.open_shared("a")
    pid = one.pid
    one.close()
    time.sleep(0.05)
    assert alive(pid)
    two.close()
    assert eventually(lambda: not alive(pid))


def test_shared_sessions_leak_nothing(pool: WorkerPool) -> None:
    with Line(pool.open_shared("a")) as kept:
        kept.step(b"x")
        before = len(os.listdir("/proc/self/fd"))
        inside = len(os.listdir(f"/proc/{kept.worker.pid}/fd"))
        for _ in range(30):
            with Line(pool.open_shared("a")) as line:
                assert line.step(b"y").output == b"y"
        assert len(os.listdir("/proc/self/fd")) == before
        assert eventually(lambda: len(os.listdir(f"/proc/{kept.worker.pid}/fd")) == inside)
        assert eventually(lambda: len(os.listdir(f"/proc/{kept.worker.pid}/task")) <= 2)


def test_a_session_that_is_collected_anywhere_does_not_wait(pool: WorkerPool) -> None:
    """A finalizer runs in whatever thread the collector comes by, whatever that has locked."""
    first, second = pool.open_shared("g"), pool.open_shared("g")
    group = pool._groups["g"]
    with group.lock:
        done = threading.Thread(target=second.close)
        done.start()
        done.join(10)
        assert not done.is_alive()
        assert group.sessions == 2  # it is seen off when the lock is free
    third = pool.open_shared("g")
    assert group.sessions == 2
    first.close()
    third.close()
    assert group.sessions == 0
    assert group.ended


def test_a_session_that_cannot_be_opened_is_not_counted(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pool.open_shared("g")
    group = pool._groups["g"]
    before = len(os.listdir("/proc/self/fd"))

    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, "no more")

    for name in ("os.dup", "gloveport.engines.wasm.pool.memory_page", "socket.socketpair"):
        with monkeypatch.context() as patch:
            patch.setattr(name, fail)
            with pytest.raises(OSError, match="no more"):
                pool.open_shared("g")
    assert len(os.listdir("/proc/self/fd")) == before
    assert group.sessions == 1
    first.close()
    assert group.ended
