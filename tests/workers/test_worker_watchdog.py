"""What is armed is interrupted, whenever that happens."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from gloveport.engines.wasm import watchdog as module


class Guest:
    def __init__(self):
        self.interrupted = threading.Event()

    def interrupt(self):
        self.interrupted.set()


class Armed(dict):
    """Somebody arms right after the thread, which is about to end, has seen that there is nothing."""

    def __init__(self, dog, guest):
        super().__init__()
        self.dog, self.guest, self.late = dog, guest, None

    def __bool__(self):
        empty = len(self) == 0
        if empty and self.late is None and self.dog._lock.locked():
            self.late = threading.Thread(target=self.dog.arm, args=(self.guest, 0.0))
            self.late.start()
            while not len(self):
                time.sleep(0.001)
            time.sleep(0.05)  # it has looked for the thread by now
        return not empty


@pytest.fixture
def dog(monkeypatch):
    monkeypatch.setattr(module, "_IDLE_TICKS", 0)
    return module.Watchdog()


def test_what_is_armed_while_the_thread_ends_is_interrupted(dog):
    guest = Guest()
    dog._armed = Armed(dog, guest)
    dog.disarm(dog.arm(Guest(), 60.0))
    assert guest.interrupted.wait(10)
    dog._armed.clear()


def test_what_is_disarmed_is_not(dog):
    guest, other = Guest(), Guest()
    dog.disarm(dog.arm(guest, 0.02))
    token = dog.arm(other, 0.05)
    assert other.interrupted.wait(10) and not guest.interrupted.is_set()
    dog.disarm(token)


def test_a_thread_that_cannot_be_started_is_tried_again(dog, monkeypatch):
    start, guest = threading.Thread.start, Guest()

    def fails(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fails)
    with pytest.raises(RuntimeError):
        dog.arm(Guest(), 60.0)
    monkeypatch.setattr(threading.Thread, "start", start)
    token = dog.arm(guest, 0.01)
    assert guest.interrupted.wait(10)
    dog.disarm(token)
    assert not dog._armed


IN_A_CHILD = """
import os, signal, warnings
from gloveport import AgentSandbox
warnings.simplefilter("ignore")  # of forking beside threads
session = AgentSandbox({}, isolation="inline", timeout=0.2)
session.run("return 1")
child = os.fork()
if child == 0:
    signal.alarm(20)
    step = session.start("while (true) {}")
    os._exit(0 if step.error_type == "RuntimeTimeout" else 1)
print(os.waitpid(child, 0)[1])
"""


def test_a_child_of_the_host_has_a_watchdog_of_its_own():
    done = subprocess.run([sys.executable, "-c", IN_A_CHILD], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0\n", done.stderr
