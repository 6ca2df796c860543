"""Nothing is left lying when a client has read everything between two looks at its socket: no event tells of that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.agents import running_agent
from tests.box.client import DONE, LIST, Connection, encode
from tests.box.sanitizers import compile_program, compile_with


@pytest.fixture(scope="module")
def agent(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("fitful")
    compile_with(compiler, "-c", Path(__file__).with_name("fitful.c"), "-o", folder / "fitful.o")
    compile_program(compiler, folder / "box", "-Dsend=fitful_send", folder / "fitful.o")
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
