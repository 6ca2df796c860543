"""Nothing is left lying when a client has read everything between two looks at its socket: no event tells of that. And what is
full soon."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.agents import running_agent
from tests.box.client import DONE, HELLO, LIST, STAT, WATCH, Connection, encode
from tests.box.sanitizers import compile_program, compile_with


@pytest.fixture(scope="module")
def agent(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("fitful")
    compile_with(compiler, "-c", Path(__file__).with_name("fitful.c"), "-o", folder / "fitful.o")
    compile_program(compiler, folder / "box", "-Dsend=fitful_send", "-DWATCHED_MAX=50", folder / "fitful.o")
    with running_agent(folder):
        yield folder


@pytest.mark.parametrize("keep", [4096, 65536, 1 << 20])
def test_all_output_comes(agent: Path, keep: int) -> None:
    script = "head -c 2000000 /dev/zero & head -c 1000000 /dev/zero >&2; wait"
    with Connection(agent) as client:
        for _ in range(5):
            done = client.sh(script, keep_bytes=keep)
            assert [len(done["stdout"]), len(done["stderr"]), done["gaps"]] == [2_000_000, 1_000_000, 0]


def test_all_requests_are_answered(agent: Path) -> None:
    """More answers than are queued for a client."""
    count = 400
    with Connection(agent) as client:
        for name in range(5):
            client.run("true", label=f"{name}" * 1000)
        asker = threading.Thread(target=lambda: client.socket.sendall(encode(LIST) * count))
        asker.start()
        ends = 0
        while ends < count:
            ends += client.frame()[0] == DONE
        asker.join()


def test_answers_keep_their_order(agent: Path) -> None:
    """Also that of an operation on files, whose process writes to the socket itself."""
    for _ in range(50):
        with Connection(agent) as client:
            client.socket.sendall(encode(HELLO) + encode(STAT, path="/"))
            assert "version" in client.answer()[1] and "path" in client.answer()[1]


def test_watching_where_more_folders_come_and_go_than_are_watched(agent: Path, tmp_path: Path) -> None:
    with Connection(agent) as watcher:
        assert watcher.ask(WATCH, path=str(tmp_path), recursive=1) == {}

        def until(path: str, change: bytes) -> None:
            while True:
                event = watcher.answer()[1]
                assert event["path"].startswith(bytes(tmp_path)), event
                if (event["path"], event["event"]) == (bytes(tmp_path / path), change):
                    return

        for turn in range(5):
            folders = [tmp_path / f"{turn}-{i}" for i in range(20)]
            for folder in folders:
                folder.mkdir()
            until(folders[-1].name, b"create")
            time.sleep(0.05)  # until those are watched
            for folder in folders:
                folder.rmdir()
            until(folders[-1].name, b"delete")
        (tmp_path / "last").mkdir()
        until("last", b"create")
        time.sleep(0.05)
        (tmp_path / "last/x").write_text("x")
        until("last/x", b"written")
