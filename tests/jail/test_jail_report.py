"""What `gloveport doctor` is told about the jail."""

from __future__ import annotations

import pytest
from jail_people import Person, people

from gloveport.engines.jail.layers import LAYERS

NAMES = [layer.name for layer in LAYERS]


@pytest.mark.parametrize("person", people("root", "ordinary"), indirect=True)
def test_everything_is_there(person: Person) -> None:
    reports = person.run("jail/jail_status.py")
    assert [r["layer"] for r in reports] == [*NAMES, "self-test"]
    assert all(r["present"] and not r["fix"] for r in reports)
    assert all(r["what"] for r in reports)


@pytest.mark.parametrize("person", people("nobody may make namespaces"), indirect=True)
def test_what_is_missing_says_why_and_what_to_do(person: Person) -> None:
    reports = {r["layer"]: r for r in person.run("jail/jail_status.py")}
    lost = reports["user-namespace"]
    assert not lost["present"]
    assert "user.max_user_namespaces is 0" in lost["detail"]
    assert "sysctl user.max_user_namespaces" in lost["fix"]
    assert reports["seccomp"]["present"]
    assert reports["self-test"]["present"]
