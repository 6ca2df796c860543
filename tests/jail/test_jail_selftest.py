"""Every probe can succeed, none does in the jail, and each layer takes away what it says."""

from __future__ import annotations

import json
import os
import warnings

import pytest
from jail_people import Person, people

from gloveport.engines.jail import syscalls
from gloveport.engines.jail.layers import LAYERS, Missing
from gloveport.engines.jail.probes import PROBES
from gloveport.engines.jail.verdict import judge
from gloveport.errors import SandboxUnavailableError, SandboxWarning

ALL = {probe.name for probe in PROBES}
NAMES = [layer.name for layer in LAYERS]

FOR_ROOT = {"fsopen", "open_tree", "mount", "umount2", "pivot_root", "chroot", "raw socket", "packet socket"}
RESTRICTED_SOMEWHERE = {
    "see a network device",  # a machine without any
    *(
        "bpf",
        "userfaultfd",
        "perf_event_open",
        "io_uring_setup",
        "memfd_secret",
        "unshare",
        "ptrace",
        "compare kernel objects",
    ),
    *("read another process's memory", "modify_ldt", "process_madvise"),
}
"""What distributions close to ordinary users, or leave out of the kernel, without our doing."""

VICTIMS = {
    *(
        "signal another process",
        "tgkill",
        "tkill",
        "rt_sigqueueinfo",
        "pidfd_open",
        "ptrace",
        "read another process's memory",
    ),
    *(
        "another process's limits",
        "another process's processors",
        "another process's priority",
        "another process's group",
    ),
    *("own a descriptor's signals: F_SETOWN",),
}
FILES = {"open a file of the host", "open2 a file of the host", "stat a file of the host", "statx a file of the host"}


def test_names_are_unique() -> None:
    assert len(ALL) == len(PROBES)


@pytest.mark.parametrize("person", people("root", "ordinary"), indirect=True)
def test_every_probe_can_succeed(person: Person) -> None:
    impossible = ALL - set(person.run("jail/jail_bare.py", own_mounts=person.name == "root"))
    expected = RESTRICTED_SOMEWHERE | ({"fork"} if syscalls.number("fork") is None else set())
    if person.name == "ordinary" or os.geteuid() != 0:
        expected |= FOR_ROOT
    assert impossible <= expected


@pytest.mark.parametrize("worker", ["single", "shared"])
@pytest.mark.parametrize("person", people("root", "ordinary", "root without CAP_SYS_ADMIN"), indirect=True)
def test_nothing_is_possible_in_a_worker(person: Person, worker: str) -> None:
    assert person.run("jail/jail_inside.py", json.dumps({"worker": worker})) == {"missing": [], "possible": []}


@pytest.mark.parametrize("person", people("root", "ordinary"), indirect=True)
def test_the_zygote_without_a_workers_own_filter_is_caught(person: Person) -> None:
    possible = person.run("jail/jail_inside.py", json.dumps({}))["possible"]
    assert {"clone", "socketpair", "memfd_create", "map shared memory", "start a thread"} <= set(possible)


ALONE = {
    "seccomp": (["no-new-privileges", "seccomp"], ALL - {"the environment", "inherited descriptors"}),
    "pid-namespace": (["pid-namespace", "user-namespace"], VICTIMS),
    "root": (["mount-namespace", "root", "user-namespace"], FILES),
    "landlock": (
        ["no-new-privileges", "landlock"],
        {"open a file of the host", "list the root directory", "signal another process"},
    ),
    "user": (["user"], {"ptrace", "read another process's memory", "signal another process", "mount"}),
    "capabilities": (["capabilities"], {"fsopen", "mount", "umount2", "chroot", "pivot_root"}),
}


@pytest.mark.parametrize("layer", ALONE)
@pytest.mark.parametrize("person", people("root"), indirect=True)
def test_each_layer_alone_takes_away_what_it_says(person: Person, layer: str) -> None:
    if os.geteuid() != 0 and layer in ("user", "capabilities"):
        pytest.skip("root's powers are needed to see them go")
    only, taken = ALONE[layer]
    without = person.run(
        "jail/jail_inside.py", json.dumps({"only": [n for n in only if n != layer], "worker": ""}), own_mounts=True
    )
    with_it = person.run(
        "jail/jail_inside.py",
        json.dumps({"only": only, "worker": "single" if layer == "seccomp" else ""}),
        own_mounts=True,
    )
    assert taken - RESTRICTED_SOMEWHERE <= set(without["possible"])
    assert not taken & set(with_it["possible"])


@pytest.mark.parametrize("layer", NAMES)
@pytest.mark.parametrize("person", people("root"), indirect=True)
def test_a_layer_that_is_left_out_is_named(person: Person, layer: str) -> None:
    missing = person.run("jail/jail_inside.py", json.dumps({"leave_out": [layer]}))["missing"]
    assert layer in missing
    # Only what cannot stand without it goes with it.
    assert set(missing) <= {layer} | {"mount-namespace": {"root"}, "no-new-privileges": {"landlock", "seccomp"}}.get(
        layer, set()
    )


@pytest.mark.parametrize(
    ("step", "layers"),
    [
        ("unshare", {n for n in NAMES if n.endswith("-namespace")} | {"root"}),
        *((name, {name}) for name in ("root", "capabilities", "no-new-privileges", "limits", "landlock", "seccomp")),
    ],
)
@pytest.mark.parametrize("person", people("root"), indirect=True)
def test_a_step_that_only_pretends_is_found_out(person: Person, step: str, layers: set[str]) -> None:
    missing = set(person.run("jail/jail_inside.py", json.dumps({"sabotage": step}))["missing"])
    assert layers <= missing


@pytest.mark.parametrize("person", people("nobody may make namespaces"), indirect=True)
def test_a_machine_without_namespaces(person: Person) -> None:
    missing = person.run("jail/jail_inside.py", json.dumps({"worker": "single"}))["missing"]
    assert {"user-namespace", "mount-namespace", "pid-namespace", "net-namespace", "root"} <= set(missing)
    assert not {"seccomp", "landlock", "no-new-privileges", "capabilities", "limits"} & set(missing)


LOST = {"missing": [Missing("net-namespace", "because", "do this")], "possible": ["socket"], "landlock_abi": 7}


def test_require_refuses_and_says_what_to_do() -> None:
    with pytest.raises(
        SandboxUnavailableError, match=r"(?s)net-namespace: because. To fix it: do this.*socket.*doctor"
    ):
        judge("require", "workers", LOST)


@pytest.mark.parametrize("half", ["missing", "possible"])
def test_require_refuses_for_either_reason(half: str) -> None:
    with pytest.raises(SandboxUnavailableError):
        judge("require", "workers", {**LOST, half: []})


def test_auto_warns_once() -> None:
    with pytest.warns(SandboxWarning, match="net-namespace") as caught:
        judge("auto", "workers", LOST)
    assert len(caught) == 1


def test_silence_when_nothing_is_wrong_or_nothing_was_asked() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge("require", "workers", {"missing": [], "possible": [], "landlock_abi": 7})
        judge("off", "workers", LOST)
