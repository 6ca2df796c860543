"""Limits of machines: each with what it stops, the word by which that is told, and a control beside it that passes."""

from __future__ import annotations

import json

import pytest

from gloveport import Capabilities, Sandbox
from gloveport.cli import main
from gloveport.errors import CapabilityError, LimitExceededError, ValidationError

from .conftest import eventually

HUNGRY = [
    "python3",
    "-c",
    "import sys; b = bytearray(int(sys.argv[1]) << 20); b[::4096] = b'x' * len(b[::4096]); print('fits')",
]


@pytest.fixture(scope="module")
def can(state):
    return Sandbox.capabilities()


@pytest.fixture
def small(can):
    with Sandbox.create("small", memory_mb=96, pids=40, disk_mb=48, open_files=64) as sandbox:
        yield sandbox


def test_memory(small, can):
    if can.limits.memory == "none":
        pytest.skip("the host counts no memory")
    assert small.commands.run([*HUNGRY, "40"]).stdout == "fits\n"
    result = small.commands.run([*HUNGRY, "400"])
    assert "fits" not in result.stdout
    assert not result.ok
    if can.limits.memory == "total":  # else a single process is told by its own allocation
        assert result.limit == "memory"
        assert "memory" in result.note
    assert small.commands.run("echo well").stdout == "well\n"
    with Sandbox.create(memory_mb=1024) as control:
        assert control.commands.run([*HUNGRY, "400"]).stdout == "fits\n"


def test_processes(small, can):
    if can.limits.pids == "none":
        pytest.skip("the host counts no processes")
    many = "i=0; while [ $i -lt %d ]; do sleep 3 & i=$((i+1)); done; echo all"
    assert small.commands.run(many % 10).stdout == "all\n"
    assert "all" not in small.commands.run(many % 200).stdout
    small.files.write("/workspace/still", "works")  # files and deletion do not need what the guest has used up
    assert small.files.read_text("/workspace/still") == "works"
    with Sandbox.create(pids=400) as control:
        assert control.commands.run(many % 200).stdout == "all\n"


def test_disk(small, can):
    if can.limits.disk == "none":
        pytest.skip("the host counts no files")
    write = "for i in $(seq %d); do head -c 4000000 /dev/zero > /workspace/f$i || exit 9; sleep 0.05; done; sleep 0.5; echo all"
    assert small.commands.run(write % 4).stdout == "all\n"
    result = small.commands.run(write % 200, timeout_seconds=60)
    assert "all" not in result.stdout
    assert result.limit == "disk"

    def refused():
        try:
            small.files.write("/workspace/more", b"x" * 1000)
        except LimitExceededError as error:
            return error.limit == "disk"
        return False

    eventually(refused)
    small.commands.run("rm -f /workspace/f*")
    eventually(lambda: small.commands.run("echo x > /workspace/again && echo done").stdout == "done\n")


def test_open_files(small):
    script = "import os\nfor n in range(%d): os.open('/dev/null', 0)\nprint('all')"
    assert small.commands.run(["python3", "-c", script % 30]).stdout == "all\n"
    result = small.commands.run(["python3", "-c", script % 100])
    assert "Too many open files" in result.stderr


def test_processors(can):
    if can.limits.cpu == "none":
        pytest.skip("the host limits no processor time")
    script = "import time; t = time.monotonic() + 1.0\nwhile time.monotonic() < t: pass\nprint(time.process_time())"
    with Sandbox.create(cpus=0.2) as slow, Sandbox.create() as fast:
        used = [float(box.commands.run(["python3", "-c", script]).stdout) for box in (slow, fast)]
    assert used[0] < 0.75 * used[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory_mb": 1},
        {"memory_mb": 1.5},
        {"pids": 0},
        {"cpus": 0},
        {"cpus": "2"},
        {"disk_mb": -1},
        {"open_files": True},
    ],
)
def test_what_is_no_limit(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Sandbox.create(**wrong)


def test_usage(small):
    used = small.usage()
    assert used["memory_bytes"] > 0
    assert used["processes"] >= 1


# ── what is required ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_requirements(can):
    before = len(Sandbox.list())
    for require, missing in (
        ({"isolation": "microvm"}, ("isolation",)),
        ({"limits.memory": "hard_ram", "isolation": "namespace"}, ("limits.memory",)),
        ({"fork": ["memory"]}, ("fork",)),
        (lambda has: has.isolation == "gvisor", ()),
    ):
        with pytest.raises(CapabilityError) as error:
            Sandbox.create(require=require)
        assert error.value.missing == missing
    assert len(Sandbox.list()) == before
    with pytest.raises(ValidationError, match="no capability"):
        Sandbox.create(require="teleport")
    with Sandbox.create(require={"isolation": ["namespace", "gvisor"], "limits.pids": can.limits.pids}) as sandbox:
        assert sandbox.commands.run("echo here").stdout == "here\n"
    with Sandbox.create(require=lambda has: isinstance(has, Capabilities)):
        pass


def test_what_is_measured_is_kept(state, can):
    kept = json.loads((state / "capabilities.json").read_text())
    assert kept["capabilities"] == can.as_dict()
    kept["capabilities"]["freezer"] = "none"
    (state / "capabilities.json").write_text(json.dumps(kept))
    assert Sandbox.capabilities().freezer == "none"  # the control: it was read
    kept["key"][1] = "another boot"
    (state / "capabilities.json").write_text(json.dumps(kept))
    assert Sandbox.capabilities() == can  # measured anew


def test_a_host_without_isolation_is_told(can, monkeypatch, state, tmp_path):
    """Without the program, nothing starts, and nothing runs on the host instead."""
    from gloveport.machines.namespace import driver

    def missing():
        raise CapabilityError("gloveport was installed without the program that machines need", missing=("isolation",))

    monkeypatch.setattr(driver, "program", missing)
    has = Sandbox.capabilities()
    assert has.isolation == "none"
    assert "without the program" in has.problem
    before = len(Sandbox.list())
    with pytest.raises(CapabilityError):
        Sandbox.create()
    assert len(Sandbox.list()) == before


def test_doctor(capsys, can):
    main(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out)
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["machines"]["ok"]
    detail = checks["machines"]["detail"]
    assert "namespace" in detail
    assert f"memory: {can.limits.memory}" in detail
    assert f"network: {can.net}" in detail
