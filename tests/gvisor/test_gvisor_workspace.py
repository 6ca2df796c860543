"""`MachineBackend` keeps the contract of Pydantic AI's workspaces on gVisor, too."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai.workspaces")

import anyio
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from gloveport import Sandbox
from gloveport.pydantic_ai import MachineSandbox


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
    capability, refs = made

    async def make():
        backend = capability.backend()
        await backend.working_dir()
        return backend.ref

    refs.append(anyio.run(make))
    return refs[-1]


class TestContract(WorkspaceBackendSuite):
    @pytest.fixture
    def backend(self, made, one_ref):
        return made[0].backend(one_ref)

    @pytest.fixture
    def attach_backend(self, made):
        return made[0].backend

    @pytest.fixture
    async def fresh_backend(self, made):
        backends = []

        def fresh():
            backends.append(made[0].backend())
            return backends[-1]

        yield fresh
        made[1].extend(backend.ref for backend in backends if backend.ref is not None)

    @pytest.fixture
    def destroy_environment(self, made):
        async def destroy(backend):
            assert await made[0].destroy(backend.ref)

        return destroy
