"""The TypeScript compiler for the tests: the installed one, or one fetched from the registry for this run."""

from __future__ import annotations

import pytest

from gloveport.engines.checker import Checker, Question, install
from gloveport.engines.defaults import toolbox

STUBS = """
interface Order { id: number; total: number; placed: Date; }
declare function open_orders(status: string, limit?: number): Promise<Order[]>;
declare function send_email(args: { to: string; subject: string; body?: string }): Promise<void>;
"""


def pytest_collection_modifyitems(items):
    for item in items:
        if "compiler" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.registry)


@pytest.fixture(scope="session")
def compiler():
    return install.install()


@pytest.fixture(scope="session")
def checker(compiler):
    with Checker(toolbox=toolbox("require")) as made:
        yield made


@pytest.fixture
def check(checker):
    """What is found in a code, as `line:column code`."""

    def ask(code, *earlier, **more):
        found = checker.check(Question(code, STUBS, earlier, **more))
        return [f"{problem.line}:{problem.column} {problem.code}" for problem in found]

    return ask
