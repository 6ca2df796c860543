"""The request loop on its own, in a thread, over a socket pair."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from fake_guest import FakeGuest
from worker_frames import Answer, configure, frame, items, receive

from gloveport.engines.wasm import worker


class Running:
    def __init__(self) -> None:
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(10)
        self.guest = FakeGuest()
        self.thread = threading.Thread(target=self._serve, args=(theirs,), daemon=True)
        self.thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            worker.serve(sock, self.guest)

    def ask(self, kind: str, body: bytes = b"") -> Answer:
        self.sock.sendall(frame(kind, body))
        return receive(self.sock)


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    made.sock.sendall(configure(123 << 10))
    yield made
    made.sock.close()
    made.thread.join(10)
    assert not made.thread.is_alive()


def test_a_step(running: Running) -> None:
    assert running.ask("S", b"hello") == Answer("r", 0, 7, 2, b"hello")


@pytest.mark.parametrize("size", [0, 1, 65530, 65531, 65532, 65536, 200_000, 3_000_000])
def test_sizes(running: Running, size: int) -> None:
    data = os.urandom(size)
    assert running.ask("S", data).output == data
    assert running.ask("S", b"after").output == b"after"


@pytest.mark.parametrize("size", [10, 70_000])
def test_every_way_of_cutting_the_stream(running: Running, size: int) -> None:
    data = os.urandom(size)
    whole = frame("S", data)
    for cut in (1, 2, 3, 4, 5, 6, 9, len(whole) - 1):
        running.sock.sendall(whole[:cut])
        threading.Event().wait(0.002)
        running.sock.sendall(whole[cut:])
        assert receive(running.sock).output == data


def test_a_batch(running: Running) -> None:
    assert running.ask("B", items("<I", b"one ", b"", b"two")).output == b"one two"
    assert running.ask("B", items("<I")).output == b""


def test_images(running: Running) -> None:
    assert running.ask("D") == Answer("i", 0, 0, 0, b"image")
    assert running.ask("D", b"+base") == Answer("i", 0, 0, 0, b"image+base")
    assert running.ask("L", items("<B", b"one", b"two")) == Answer("r", 0, 0, 0, b"")
    assert running.guest.images == [b"one", b"two"]
    assert running.ask("Z") == Answer("r", 0, 0, 0, b"")
    assert running.guest.images == []


def test_a_bad_image_is_refused_and_the_loop_goes_on(running: Running) -> None:
    running.ask("L", items("<B", b"good"))
    assert running.ask("L", items("<B", b"bad")) == Answer("!", 0, 0, 0, b"out of bounds")
    assert running.guest.images == [b"good"]
    assert running.ask("S", b"on").output == b"on"


def test_the_memory_limit(running: Running) -> None:
    assert running.ask("S", b"limit").output == b"%d" % (123 << 10)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack("<I", 0) + b"S", id="no kind"),
        pytest.param(struct.pack("<I", worker.MAX_FRAME + 1) + b"S", id="too long"),
        pytest.param(struct.pack("<I", 0xFFFF_FFFF) + b"S", id="much too long"),
        pytest.param(frame("?"), id="unknown kind"),
        pytest.param(frame("r", bytes(13)), id="a reply"),
        pytest.param(configure(), id="configured twice"),
        pytest.param(frame("Z", b"x"), id="reset with a body"),
        pytest.param(frame("B"), id="batch without a count"),
        pytest.param(frame("B", struct.pack("<I", 1)), id="batch with too few"),
        pytest.param(frame("B", items("<I", b"a") + b"x"), id="batch with more"),
        pytest.param(frame("B", struct.pack("<II", 1, 0xFFFF_FFFF)), id="batch with a huge item"),
        pytest.param(frame("B", struct.pack("<I", 0xFFFF_FFFF)), id="batch with a huge count"),
        pytest.param(frame("L"), id="load without a count"),
        pytest.param(frame("L", b"\2" + struct.pack("<I", 0)), id="load with too few"),
        pytest.param(frame("L", b"\1" + struct.pack("<I", 5) + b"x"), id="load cut short"),
    ],
)
def test_what_the_protocol_does_not_know_ends_it(running: Running, data: bytes) -> None:
    assert running.ask("S", b"before").output == b"before"
    running.sock.sendall(data)
    with pytest.raises(EOFError):
        receive(running.sock)


@pytest.mark.parametrize("data", [frame("S", b"x"), frame("C"), frame("C", bytes(7)), frame("C", bytes(9)), frame("D")])
def test_configuration_comes_first_and_whole(data: bytes) -> None:
    running = Running()
    with running.sock:
        running.sock.sendall(data)
        with pytest.raises(EOFError):
            receive(running.sock)


@pytest.mark.parametrize("cut", [0, 3, 5, 20])
def test_the_end_of_the_stream_ends_it_anywhere(cut: int) -> None:
    running = Running()
    with running.sock:
        running.sock.sendall(configure() + frame("S", bytes(100))[:cut])
        running.sock.shutdown(socket.SHUT_WR)
        running.thread.join(10)
        assert not running.thread.is_alive()
