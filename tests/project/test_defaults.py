"""What the documents say of defaults is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gloveport import AgentSandbox

ROW = re.compile(r"^\| `(\w+)` \| (none|\d+)(?: (s|[KM]iB))? \|", re.MULTILINE)
UNITS = {"": 1, "s": 1, "KiB": 1024, "MiB": 1024 * 1024}
PAGE = Path(__file__).parents[2] / "docs" / "sessions.md"


def documented():
    section = PAGE.read_text("utf-8").partition("## Limits\n")[2].partition("\n## ")[0]
    return {
        name: None if number == "none" else int(number) * UNITS[unit] for name, number, unit in ROW.findall(section)
    }


def test_every_row_is_read():
    section = PAGE.read_text("utf-8").partition("## Limits\n")[2].partition("\n## ")[0]
    assert len(documented()) == section.count("\n| `") == 10


@pytest.mark.parametrize("name", documented())
def test_default_is_the_documented_one(name):
    with AgentSandbox({}) as session:
        limits = session._options.limits
    actual = limits.max_inflight + 1 if name == "max_inflight_host_calls" else getattr(limits, name)
    assert actual == documented()[name]
