"""How many processors there are, by whom this process may run on and by the quota of its control group."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gloveport import AgentSandbox
from gloveport.engines import processors
from gloveport.engines.deno.bell import Bell

ALLOWED = float(len(os.sched_getaffinity(0)))
CPU = Path("/sys/fs/cgroup/cpu")
CFS = ("cpu.cfs_quota_us", "cpu.cfs_period_us")


@pytest.fixture
def told(tmp_path):
    """`told(own, {file: text})`: what the kernel says."""

    def tell(own, files):
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            path = tmp_path / "groups" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return processors.processors(tmp_path / "own", tmp_path / "groups")

    return tell


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, ALLOWED),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "100000 100000\n"}, 1.0),
        ("0::/only/its/host/sees\n", {"cpu.max": "75000 50000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "640000 1\n"}, ALLOWED),
        ("0::/\n", {"cpu.max": "nonsense\n"}, ALLOWED),
        ("0::/\n", {"cpu.max": "50000 0\n"}, ALLOWED),
        ("0::/\n", {}, ALLOWED),
        ("4:memory:/\n2:cpu,cpuacct:/x\n", {f"cpu,cpuacct/x/{name}": "20000\n" for name in CFS}, 1.0),
        ("2:cpu:/\n0::/\n", {"cpu/cpu.cfs_quota_us": "10\n", "cpu/cpu.cfs_period_us": "100\n"}, 0.1),
        ("1:cpu:/\n0::/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100\n"}, ALLOWED),
        ("nonsense", {}, ALLOWED),
    ],
)  # fmt: skip
def test_the_quota_counts_where_it_is_less(told, own, files, expected):
    assert told(own, files) == expected


def test_where_nothing_is_told(tmp_path):
    assert processors.processors(tmp_path / "none", tmp_path / "none") == ALLOWED


PRINTS = """
import os, sys
with open(sys.argv[1], "w") as file:
    file.write(str(os.getpid()))
from gloveport.engines import processors
print(processors.processors(), processors.MANY)
"""


@pytest.mark.skipif(
    not os.access(CPU, os.W_OK) or not (CPU / "cpu.cfs_quota_us").exists(),
    reason="no group of version 1 can be made here",
)
@pytest.mark.parametrize(("quota", "expected"), [(-1, f"{ALLOWED} {ALLOWED >= 2}\n"), (70_000, "0.7 False\n")])
def test_in_a_real_group(quota, expected):
    group = CPU / f"gloveport-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text(str(quota))
        code = [sys.executable, "-c", PRINTS, str(group / "cgroup.procs")]
        assert subprocess.run(code, capture_output=True, text=True, check=True).stdout == expected
    finally:
        group.rmdir()


@pytest.mark.parametrize("engine", ["wasm", "v8"])
def test_sessions_work_where_there_is_one(monkeypatch, engine):
    monkeypatch.setattr(processors, "MANY", False)
    assert Bell.hung() is None
    with AgentSandbox({"echo": lambda x: x}, engine=engine) as session:
        assert session.run("let s = 0; for (let i = 0; i < 50; i++) s += await echo(i); return s") == 1225
