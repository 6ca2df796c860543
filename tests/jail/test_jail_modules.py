"""Modules as someone in particular: with and without the powers that some layers of the jail, and memory limits, are made with."""

from __future__ import annotations

import pytest
from jail_people import Person, people


@pytest.mark.parametrize("person", people("root", "root without CAP_SYS_ADMIN"), indirect=True)
def test_modules_run_and_are_held(person: Person) -> None:
    one, file, buffers, left, workspace = person.run("jail/jail_modules.py")
    assert one == [1, None]
    assert file == [None, "NotCapable"]
    assert buffers[0] is None
    assert left == [None, "Exited"]
    assert workspace == ["a", None]
