"""Pydantic AI's suite for workspaces, on machines. A module that derives from it has a fixture `made`: a capability, and a list for the
references of the machines that it deletes at its end."""

from __future__ import annotations

import anyio
import pytest
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

__all__ = ("MachineContract", "new_ref")


def new_ref(made):
    """A machine for a whole module."""

    async def make():
        backend = made[0].backend()
        await backend.working_dir()
        return backend.ref

    made[1].append(anyio.run(make))
    return made[1][-1]


class MachineContract(WorkspaceBackendSuite):
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
