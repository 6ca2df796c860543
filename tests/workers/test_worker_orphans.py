"""When the host ends, however it ends, nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from jail_people import Person, people
from worker_frames import alive

EVERYONE = people("root", "ordinary")


def _end(person: Person, plan: dict[str, str]) -> None:
    with person.popen("workers/worker_host.py", json.dumps(plan)) as host:
        assert host.stdout and host.stdin
        told = json.loads(host.stdout.readline())
        processes, copy = told["processes"], told["copy"]
        # The keeper, the zygote, two spares, an idle, a spinning and a shared worker.
        assert len(processes) >= 7
        assert all(map(alive, processes))
        try:
            if plan.get("end") == "exit":
                host.stdin.write("\n")
                host.stdin.flush()
            else:
                host.kill()
            host.wait(10)
            end = time.monotonic() + 5
            while any(map(alive, processes)) and time.monotonic() < end:
                time.sleep(0.002)
            assert not [pid for pid in processes if alive(pid)]
            assert not copy or alive(copy)
        finally:
            if copy:
                os.kill(copy, signal.SIGKILL)


@pytest.mark.parametrize("sandbox", ["require", "off"])
@pytest.mark.parametrize("person", EVERYONE, indirect=True)
def test_a_killed_host_takes_everything_along(person: Person, sandbox: str) -> None:
    _end(person, {"sandbox": sandbox})


@pytest.mark.parametrize("fork", ["python", "raw"])
@pytest.mark.parametrize("person", EVERYONE, indirect=True)
def test_also_when_a_copy_of_it_still_holds_the_sockets(person: Person, fork: str) -> None:
    _end(person, {"fork": fork})


@pytest.mark.parametrize("person", people("root"), indirect=True)
def test_an_ordinary_exit_too(person: Person) -> None:
    _end(person, {"end": "exit"})


@pytest.mark.parametrize("person", people("nobody may make namespaces"), indirect=True)
def test_without_a_process_namespace_too(person: Person) -> None:
    _end(person, {"sandbox": "auto"})


def test_the_end_of_a_thread_ends_no_worker() -> None:
    import threading

    from fake_guest import GUESTS
    from worker_frames import Line

    from gloveport.engines.wasm.pool import WorkerPool

    with WorkerPool(guests=GUESTS) as pool:
        lines: list[Line] = []
        thread = threading.Thread(target=lambda: lines.append(Line(pool.take())))
        thread.start()
        thread.join()
        time.sleep(0.1)
        assert lines[0].step(b"on").output == b"on"
        lines[0].worker.close()
