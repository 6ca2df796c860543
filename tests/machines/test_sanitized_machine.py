"""The contract of Pydantic AI's workspaces on a program of machines that was built with sanitizers: what they say is an error."""

from __future__ import annotations

import os
import subprocess

import pytest

pytest.importorskip("pydantic_ai.workspaces")


from gloveport import Sandbox
from gloveport.machines.estate import estate
from gloveport.machines.namespace import driver
from gloveport.pydantic_ai import MachineSandbox

from ..box.test_box_hostile import OPTIONS, SOURCES, compile_with, compiler
from .contract import MachineContract, new_ref

__all__ = ("compiler",)


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def made(state, compiler, tmp_path_factory):
    """Machines of that program, and what their processes said."""
    folder = tmp_path_factory.mktemp("sanitized")
    program = folder / "box"
    compile_with(compiler, *(path for path in SOURCES.glob("*.c") if path.name != "format.c"), "-o", program)
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            patch.setenv(name, OPTIONS[name])
        patch.setattr(driver, "program", lambda: program)
        capability, refs, logs = MachineSandbox(memory_mb=None, pids=None), [], {}
        yield capability, refs, logs
        for ref in refs:
            id = ref.id.partition(".")[0]  # noqa: A001
            log = estate().folder(id) / "log"
            logs[id] = log.read_text(errors="replace") if log.exists() else ""
            Sandbox.kill_by_id(id)
        assert refs
        for said in logs.values():
            assert "Sanitizer" not in said and "runtime error" not in said, said[-4000:]


@pytest.fixture(scope="module")
def one_ref(made):
    return new_ref(made)


def test_it_is_that_program(made, one_ref):
    """The control: the process is the one that was built here, and its log is where sanitizers write."""
    folder = estate().folder(one_ref.id.partition(".")[0])
    pid1 = (folder / "state").read_text().partition("pid1=")[2].split()[0]
    if os.geteuid() == 0:
        assert os.stat(f"/proc/{pid1}/exe").st_ino == driver.program().stat().st_ino
    assert (folder / "log").exists()
    assert (
        subprocess.run(["grep", "-c", "__asan_init", driver.program()], capture_output=True, check=False).stdout
        != b"0\n"
    )


class TestContract(MachineContract):
    """All of it."""
