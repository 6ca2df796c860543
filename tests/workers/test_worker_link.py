"""The line to a worker: what an event loop knows of it when it ends."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
import time

import pytest

from gloveport.core.commands import Dump, LinkLost, Step
from gloveport.engines.v8.link import V8Link
from gloveport.engines.wasm.link import ProcessLink
from gloveport.wire import frames

REPLY = frames.encode_frame(frames.REPLY, struct.pack("<BQI", 0, 1, 0))


class Worker:
    """When it is closed, the next socket of the application gets its number, and the loop is asked to watch that."""

    pid = 1

    def __init__(self) -> None:
        self.sock, self.peer = socket.socketpair()
        self.next: tuple[socket.socket, socket.socket] | None = None
        self.woken = asyncio.Event()

    def close(self) -> None:
        number = self.sock.fileno()
        self.sock.close()
        self.next = socket.socketpair()
        if self.next[0].fileno() != number:
            os.dup2(self.next[0].fileno(), number)
            self.next = socket.socket(fileno=number), self.next[1]
        asyncio.get_running_loop().add_reader(self.next[0], self.woken.set)

    def kill(self) -> None: ...

    def interrupt(self) -> None: ...


class DyingWorker(Worker):
    """It has closed its socket, and takes its time to end."""

    bell = None

    def ran_out_of_memory(self) -> bool:
        time.sleep(0.5)
        return True


@pytest.mark.anyio
async def test_a_socket_that_has_the_number_of_a_lost_one_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessLink, "_take_soon", lambda _: None)
    worker = Worker()
    line = ProcessLink(worker, 1 << 20)
    asked = asyncio.ensure_future(line.perform_async(Step(b"x", 5.0)))
    await asyncio.sleep(0.05)  # it waits
    worker.peer.close()
    with pytest.raises(LinkLost):
        await asked
    assert worker.next is not None
    worker.next[1].send(b"x")
    await asyncio.wait_for(worker.woken.wait(), 5)
    asyncio.get_running_loop().remove_reader(worker.next[0])
    for sock in worker.next:
        sock.close()


@pytest.mark.anyio
async def test_the_loop_goes_on_while_the_end_of_a_worker_is_waited_for() -> None:
    worker = DyingWorker()
    line = V8Link(worker, 1 << 20)  # type: ignore[arg-type]
    asked = asyncio.ensure_future(line.perform_async(Step(b"x", 5.0)))
    await asyncio.sleep(0.05)
    worker.peer.close()
    ticks = 0
    while not asked.done():
        await asyncio.sleep(0.01)
        ticks += 1
    with pytest.raises(LinkLost) as lost:
        await asked
    assert lost.value.reason == "memory" and line.closed and ticks > 5
    assert worker.next is not None
    asyncio.get_running_loop().remove_reader(worker.next[0])
    for sock in worker.next:
        sock.close()


@pytest.mark.anyio
@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("again", [0, 2])
async def test_who_only_looks_and_gives_up_half_way_leaves_the_guest_as_it_was(blocking: bool, again: int) -> None:
    """The request of a dump holds an image: it is larger than what a socket takes at once."""
    worker = Worker()
    line = ProcessLink(worker, 1 << 20)
    reference = bytes(range(256)) * 8192
    for _ in range(again + 1):  # who waits for the rest may give up as well
        asked = asyncio.ensure_future(line.perform_async(Dump(reference)))
        await asyncio.sleep(0.05)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    assert not line.closed
    heard: list[bytes] = []

    def answer() -> None:
        decoder = frames.FrameDecoder()
        while len(heard) < 3:
            decoder.feed(worker.peer.recv(1 << 16))
            while (frame := decoder.next()) is not None:
                heard.append(frame[1])
                if frame[0] != frames.CONFIGURE:
                    word = frames.encode_frame(frames.IMAGE, b"an image") if frame[0] == frames.DUMP else REPLY
                    worker.peer.sendall(word)

    thread = threading.Thread(target=answer)
    thread.start()
    step = Step(b"next", 5.0)
    reply = await asyncio.to_thread(line.perform, step) if blocking else await line.perform_async(step)
    thread.join()
    assert reply.status == 0
    assert heard[1:] == [reference, b"next"]
    worker.sock.close()
    worker.peer.close()
