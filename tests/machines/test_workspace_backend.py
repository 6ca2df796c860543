"""`MachineBackend` keeps the contract of Pydantic AI's workspaces, and believes only references that it made."""

from __future__ import annotations

import contextlib
import errno
import os
import signal

import anyio
import pytest

pytest.importorskip("pydantic_ai.workspaces")

from pydantic_ai.workspaces import (
    Workspace,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from gloveport import AsyncSandbox, Sandbox
from gloveport.pydantic_ai import MachineSandbox

from .conftest import boxes_alive
from .contract import MachineContract, new_ref


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture(scope="module", params=["user", "root"])
def made(request):
    """References of what a module made, deleted at its end. Commands are of the machine's user, or of its root."""
    capability, refs = MachineSandbox(user=None if request.param == "user" else "root"), []
    yield capability, refs
    for ref in refs:
        Sandbox.kill_by_id(ref.id.partition(".")[0])


@pytest.fixture(scope="module")
def one_ref(state, made):
    return new_ref(made)


class TestContract(MachineContract):
    """All of it."""


def run(main, *args):
    return anyio.run(main, *args)


@pytest.fixture
def backend(made, one_ref):
    return made[0].backend(one_ref)


# ── references ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "forge",
    [
        lambda box, signature: box,
        lambda box, signature: f"{box}.",
        lambda box, signature: f"{box}.{signature[:-1]}{'A' if signature[-1] != 'A' else 'B'}",
        lambda box, signature: f"{box}x.{signature}",
        lambda box, signature: f".{signature}",
        lambda box, signature: f"../{box}.{signature}",
        lambda box, signature: f"{box}.{signature}\n",
        lambda box, signature: f"{box}.{signature}é",
        lambda box, signature: "",
    ],
)
def test_a_forged_reference_is_refused_and_the_true_one_is_not(made, one_ref, forge):
    box, _, signature = one_ref.id.rpartition(".")
    forged = WorkspaceRef(provider="gloveport", id=forge(box, signature))

    async def main():
        with pytest.raises(WorkspaceUnavailableError, match="not made by this application"):
            await made[0].backend(forged).working_dir()
        with pytest.raises(WorkspaceUnavailableError, match="not made by this application"):
            await made[0].destroy(forged)
        assert await made[0].backend(one_ref).working_dir() == "/workspace"

    run(main)


def test_a_reference_is_good_for_its_owner_and_its_key_only(state):
    async def main():
        key = b"k" * 32
        mine = MachineSandbox(owner="ann", ref_key=key)
        backend = mine.backend()
        try:
            await backend.working_dir()
            assert (await AsyncSandbox.list(owner="ann"))[0].id == backend.ref.id.partition(".")[0]
            for other in (
                MachineSandbox(owner="bob", ref_key=key),
                MachineSandbox(ref_key=key),
                MachineSandbox(owner="ann", ref_key=b"K" * 32),
                MachineSandbox(owner="ann"),
            ):
                with pytest.raises(WorkspaceUnavailableError, match="not made"):
                    await other.backend(backend.ref).run(["true"])
            again = MachineSandbox(owner="ann", ref_key=key).backend(backend.ref)
            assert (await again.run(["true"])).exit_code == 0
        finally:
            assert await mine.destroy(backend.ref)

    run(main)


def test_the_kept_key_is_private_and_survives_the_process(state, made, one_ref):
    found = (state / "workspace-refs.key").stat()
    assert found.st_mode & 0o777 == 0o600 and found.st_size == 32
    assert run(MachineSandbox().backend(one_ref).working_dir) == "/workspace"
    assert not [name for name in os.listdir(state) if name.startswith(".workspace-refs.key.")]


def test_what_a_capability_is_given_is_checked():
    from pydantic_ai.exceptions import UserError

    with pytest.raises(UserError, match="Defer `MachineTools`"):
        MachineSandbox(defer_loading=True)
    with pytest.raises(ValueError, match="ref_key"):
        MachineSandbox(ref_key=b"short")
    with pytest.raises(ValueError, match="working_dir"):
        MachineSandbox(working_dir="here")
    first, last = MachineSandbox(memory_mb=1), MachineSandbox(memory_mb=2)
    assert MachineSandbox.combine([first, last]) is last
    assert last.get_workspace(None, ref=WorkspaceRef(provider="other", id="x")) is None
    assert "ref_key" not in repr(MachineSandbox(ref_key=b"k" * 32)) and "env_vars" not in repr(last)


# ── what the contract has no test for ────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_made_before_the_first_operation(state):
    before = {info.id for info in Sandbox.list()}
    assert MachineSandbox().backend().ref is None
    assert {info.id for info in Sandbox.list()} <= before


def test_more_than_ten_mebibytes_is_an_error_with_the_beginning(backend):
    async def main():
        with pytest.raises(WorkspaceOutputLimitError) as caught:
            await backend.run("yes line & yes error >&2", shell=True, timeout=60)
        assert caught.value.limit == 10 * 1024 * 1024
        assert caught.value.stdout.startswith("line\nline\n") or caught.value.stderr.startswith("error\n")
        whole = await backend.run(["head", "-c", "10000000", "/dev/zero"])
        assert len(whole.stdout) == 10_000_000

    run(main)


def test_what_was_written_before_a_timeout_is_kept(backend):
    async def main():
        with pytest.raises(WorkspaceTimeoutError) as caught:
            await backend.run("echo begun; echo badly >&2; sleep 60", shell=True, timeout=0.5)
        assert (caught.value.stdout, caught.value.stderr) == ("begun\n", "badly\n")

    run(main)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "1", True])
def test_a_timeout_that_is_none_is_refused(backend, timeout):
    with pytest.raises(ValueError, match="timeout"):
        run(lambda: backend.run(["true"], timeout=timeout))


def test_memory_over_the_limit_is_said_in_the_result(state):
    if Sandbox.capabilities().limits.memory == "none":
        pytest.skip("memory is not limited here")

    async def main():
        capability = MachineSandbox(memory_mb=64)
        backend = capability.backend()
        try:
            code = "x = bytearray(300 << 20); print(len(x))"
            result = await backend.run(["python3", "-c", code], timeout=60)
            assert result.exit_code != 0
            assert (
                "limit of memory" in result.stderr or "MemoryError" in result.stderr
            )  # by the kernel, or by the program's own limit
            assert (await backend.run(["python3", "-c", "print(1)"])).stdout == "1\n"
        finally:
            await capability.destroy(backend.ref)

    run(main)


def test_what_is_too_large_is_an_error_of_files(backend, state):
    async def main():
        await backend.run("truncate -s 300M big", shell=True)
        with pytest.raises(OSError, match="bytes") as caught:
            await backend.read_bytes("/workspace/big")
        assert caught.value.errno == errno.EFBIG
        capability = MachineSandbox(disk_mb=8)
        small = capability.backend()
        try:
            with pytest.raises(OSError, match="disk") as caught:
                for number in range(200):
                    await small.write_bytes(f"/workspace/{number}", b"x" * 1_000_000)
                    await anyio.sleep(0.05)
            assert caught.value.errno == errno.EDQUOT
            await small.remove("/workspace/0")
        finally:
            await capability.destroy(small.ref)

    run(main)


def test_it_wakes_after_a_pause_with_its_processes(state):
    async def main():
        capability = MachineSandbox()
        backend = capability.backend()
        try:
            await backend.run("setsid sleep 1000 >/dev/null 2>&1 & echo $! >pid", shell=True)
            await (await backend.sandbox()).pause()
            again = capability.backend(backend.ref)
            assert (await again.run("kill -0 $(cat pid) && echo alive", shell=True)).stdout == "alive\n"
        finally:
            await capability.destroy(backend.ref)

    run(main)


def test_a_workspace_whose_processes_were_killed_says_so_and_goes_on_with_its_files(state):
    async def main():
        capability = MachineSandbox()
        backend = capability.backend()
        try:
            await backend.write_bytes("/workspace/kept", b"kept")
            sandbox = await backend.sandbox()
            for pid in boxes_alive(state / "boxes" / sandbox.id):
                with contextlib.suppress(ProcessLookupError):  # the first one takes others along
                    os.kill(pid, signal.SIGKILL)
            with pytest.raises(WorkspaceUnavailableError, match="files are kept"):
                for _ in range(100):
                    await backend.run(["true"])
                    await anyio.sleep(0.05)
            assert await backend.read_bytes("/workspace/kept") == b"kept"
        finally:
            await capability.destroy(backend.ref)

    run(main)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/workspace/d/../f", b"f"),
        ("/workspace/link/../f", b"deep"),
        ("/../../workspace/f", b"f"),
    ],
)
def test_paths_that_climb_are_followed_as_the_machine_would(backend, path, found):
    async def main():
        await backend.run("mkdir -p d deep/er; printf f >f; printf deep >deep/f; ln -sfn deep/er link", shell=True)
        assert await backend.read_bytes(path) == found
        assert (await Workspace(backend).read_bytes("f")) == b"f"

    run(main)


def test_a_link_to_the_working_directory_is_removed_itself(backend):
    async def main():
        await backend.run("ln -sfn /workspace here; echo kept >kept", shell=True)
        for path in ("/workspace/here/", "/workspace/here/.", "/workspace/d/../../workspace"):
            with pytest.raises((ValueError, OSError)):
                await backend.remove(path)
        await backend.remove("/workspace/here")
        assert not await backend.exists("/workspace/here")
        assert await backend.exists("/workspace/kept")

    run(main)
