"""`MachineBackend` keeps the contract of Pydantic AI's workspaces on gVisor, too."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai.workspaces")


from gloveport import Sandbox
from gloveport.pydantic_ai import MachineSandbox

from ..machines.contract import MachineContract, new_ref


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def made(state):
    capability, refs = MachineSandbox(driver="gvisor", idle_seconds=None), []
    yield capability, refs
    for ref in refs:
        Sandbox.kill_by_id(ref.id.partition(".")[0])


@pytest.fixture(scope="module")
def one_ref(made):
    return new_ref(made)


class TestContract(MachineContract):
    """All of it."""
