"""The parsers, and a whole agent, built with sanitizers and fed with what nobody should send."""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from buildsteps.box import SOURCES

from tests.box.agents import listens, running_agent
from tests.box.client import (
    ACK,
    ATTACH,
    COPY,
    DIAL,
    EXEC,
    FORGET,
    GLOB,
    HELLO,
    INPUT,
    LIST,
    LISTDIR,
    MKDIR,
    READ,
    REALPATH,
    REMOVE,
    RESIZE,
    SIGNAL,
    STAT,
    STATS,
    SYMLINK,
    TAR_IN,
    TAR_OUT,
    WRITE,
    Connection,
    encode,
)
from tests.box.places import wait_for
from tests.box.sanitizers import compile_program, compile_with, run_with_options

SECONDS = int(os.environ.get("GLOVEPORT_FUZZ_SECONDS", "20"))
PARSERS = ("wire.c", "spec.c", "tarhead.c", "submounts.c", "output.c")


def test_parsers_survive_mutations(compiler: str, tmp_path: Path) -> None:
    ours = ("-Dvsnprintf=our_vsnprintf", "-Dsnprintf=our_snprintf")
    compile_with(compiler, *ours, "-c", SOURCES / "format.c", "-o", tmp_path / "format.o")
    sources = [SOURCES / "fuzz/fuzz.c", *(SOURCES / name for name in PARSERS), tmp_path / "format.o"]
    compile_with(compiler, *sources, "-o", tmp_path / "fuzz")
    seed = random.randrange(1 << 40)
    done = run_with_options(tmp_path / "fuzz", str(SECONDS), str(seed))
    assert done.returncode == 0, (seed, done.stderr[-4000:])
    assert int(done.stdout) >= 2000


def test_a_fuzzer_that_finds(compiler: str, tmp_path: Path) -> None:
    """The control: with a check taken out of a parser, it is found."""
    text = (SOURCES / "wire.c").read_text()
    broken = text.replace("size - at - 5", "size - at + 64")
    assert broken != text
    (tmp_path / "wire.c").write_text(broken.replace('#include "wire.h"', f'#include "{SOURCES}/wire.h"'))
    ours = ("-Dvsnprintf=our_vsnprintf", "-Dsnprintf=our_snprintf")
    compile_with(compiler, *ours, "-c", SOURCES / "format.c", "-o", tmp_path / "format.o")
    rest = [SOURCES / name for name in PARSERS if name != "wire.c"]
    compile_with(
        compiler, SOURCES / "fuzz/fuzz.c", tmp_path / "wire.c", *rest, tmp_path / "format.o", "-o", tmp_path / "fuzz"
    )
    assert run_with_options(tmp_path / "fuzz", "5", "1").returncode != 0


@pytest.fixture(scope="module")
def agent(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("agent")
    compile_program(compiler, folder / "box")
    with running_agent(folder):
        yield folder


def test_an_agent_does_its_work(agent: Path, tmp_path: Path) -> None:
    with Connection(agent) as client:
        assert client.sh("echo out; echo err >&2; exit 3")["exit_code"] == 3
        assert len(client.sh("head -c 3000000 /dev/zero", keep_bytes=65536)["stdout"]) == 3000000
        assert client.run("true", pty=1)["exit_code"] == 0
        assert client.run("no-such-program")["exit_code"] == 127
        assert client.sh("sleep 9", timeout_ms=50)["timed_out"] == 1
        client.write(f"{tmp_path}/a/b", b"x" * 300000, parents=1, atomic=1)
        client.ask(SYMLINK, path=f"{tmp_path}/a/l", to="b")
        client.ask(COPY, path=f"{tmp_path}/a", to=f"{tmp_path}/c")
        assert client.read(f"{tmp_path}/c/l") == b"x" * 300000
        client.send(TAR_OUT, path=f"{tmp_path}/c")
        packed = b""
        while (frame := client.frame())[0] == 0x82:
            packed += frame[1]
        client.send(TAR_IN, path=f"{tmp_path}/a")
        client.stream(packed)
        client.entries(LISTDIR, path=str(tmp_path), depth=5)
        client.entries(GLOB, path=str(tmp_path), pattern="**/*")
        client.ask(REMOVE, path=f"{tmp_path}/c", recursive=1)
        client.ask(STATS)


# Nothing that could harm where the test runs: paths are of a folder that does not exist, commands do nothing.
KINDS = (
    EXEC,
    ATTACH,
    INPUT,
    SIGNAL,
    RESIZE,
    LIST,
    FORGET,
    ACK,
    READ,
    STAT,
    LISTDIR,
    GLOB,
    REALPATH,
    TAR_OUT,
    HELLO,
    STATS,
    DIAL,
    WRITE,
    MKDIR,
)


def some_fields(chance: random.Random) -> dict[str, object]:
    numbers = (0, 1, -1, 255, 65536, 1 << 31, 1 << 62, -(1 << 63))
    texts = (b"/nowhere/x", b"", b"/", b"x" * 5000, b"/nowhere/../nowhere", b"\xff" * 300, b"nofile:1", b"A=b", b"a\0b")
    fields: dict[str, object] = {}
    for name in chance.sample(
        [
            "offset",
            "length",
            "depth",
            "follow",
            "pty",
            "rows",
            "keep_bytes",
            "timeout_ms",
            "stdin",
            "output_limit",
            "eof",
            "id",
            "out_offset",
            "port",
        ],
        4,
    ):
        fields[name] = chance.choice([*numbers, chance.choice(texts)])
    for name in chance.sample(["cwd", "env", "rlimit", "label", "data", "pattern", "user", "to"], 3):
        fields[name] = chance.choice(texts)
    return {
        **fields,
        "path": b"/nowhere/" + chance.choice(texts)[:4000].replace(b"..", b""),
        "argv": [b"true"],
        "signo": 0,
    }


def test_an_agent_survives_nonsense(agent: Path) -> None:
    chance = random.Random(seed := random.randrange(1 << 40))
    for _ in range(SECONDS * 8):
        frames = b"".join(encode(chance.choice(KINDS), **some_fields(chance)) for _ in range(chance.randrange(1, 6)))
        noisy = bytearray(frames)
        for _ in range(chance.randrange(3)):  # lengths, kinds and tags; a changed path still leads nowhere
            noisy[chance.randrange(min(len(noisy), 12))] = chance.randrange(256)
        if not (agent / "agent.sock").exists():  # by chance it was told to let go of us
            (agent / "agent.sock.go").touch()
            wait_for(lambda: listens(agent))
        with Connection(agent, timeout=0.02) as client:
            client.socket.settimeout(5)
            try:
                client.socket.sendall(frames if chance.random() < 0.5 else noisy)
                client.socket.settimeout(0.02)
                while client.socket.recv(1 << 16):
                    pass
            except (OSError, TimeoutError):
                pass
    (agent / "agent.sock.go").touch()
    wait_for(lambda: listens(agent))
    with Connection(agent) as client:
        assert client.run("echo", "still")["stdout"] == b"still\n", seed
    with Connection(agent) as client, pytest.raises((EOFError, ConnectionError, socket.timeout)):
        client.socket.sendall(struct.pack("<I", 0xFFFFFFFF))
        client.socket.settimeout(5)
        client.frame()
