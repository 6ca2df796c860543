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

from ..box.sanitizers import OPTIONS, compile_program, complaint, find_compiler
from .contract import MachineContract, new_ref


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def made(state, tmp_path_factory):
    """Machines of that program, and what their processes said."""
    folder = tmp_path_factory.mktemp("sanitized")
    program = folder / "box"
    compile_program(find_compiler(folder), program)
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in OPTIONS.items():
            patch.setenv(name, value)
        patch.setattr(driver, "program", lambda: program)
        capability, refs, logs = MachineSandbox(memory_mb=None, pids=None), [], {}
        yield capability, refs, logs
        for ref in refs:
            id = ref.id.partition(".")[0]  # noqa: A001
            log = estate().folder(id) / "log"
            logs[id] = complaint(log)
            Sandbox.kill_by_id(id)
        assert refs
        assert not any(logs.values()), logs


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
