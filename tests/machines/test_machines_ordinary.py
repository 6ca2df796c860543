"""Machines of an ordinary user: what the tests of this folder show as root, where they show what a user has to rely on."""

from __future__ import annotations

import os

import pytest

from ..gvisor.conftest import find
from ..ordinary import home_of_ordinary, run_tests_as_ordinary

pytest.importorskip("pydantic_ai.workspaces")

pytestmark = pytest.mark.timeout(600)  # many tests in one
KNOWS_ROOT = "root bypasses filesystem permissions"
CONTRACT_TESTS = 38  # of the smallest supported release


@pytest.fixture
def home():
    with home_of_ordinary() as folder:
        yield folder


def check_contract(told, *, kinds: int):
    """`kinds`: how often each test runs."""
    contract = {name: said for name, said in told.items() if "TestContract" in name}
    assert len(contract) >= CONTRACT_TESTS * kinds
    for name, said in told.items():
        assert said == "passed" or (name.endswith("-root]") and KNOWS_ROOT in said), (name, said)


def test_on_namespaces(home):
    """The contract of Pydantic AI's workspaces (asyncio and trio, commands as the machine's user and as its root), and users' cases."""
    tests = ("test_workspace_backend.py", "test_field_cases_machines.py", "test_commands.py", "test_templates.py")
    check_contract(run_tests_as_ordinary(home, *(f"tests/machines/{name}" for name in tests)), kinds=4)


def test_on_gvisor(home):
    runsc = home / "runsc"
    runsc.write_bytes(find().read_bytes())
    runsc.chmod(0o755)
    tests = "tests/gvisor/test_gvisor_workspace.py"
    check_contract(run_tests_as_ordinary(home, tests, GLOVEPORT_RUNSC=os.fspath(runsc)), kinds=1)
