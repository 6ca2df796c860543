"""What machines have on this host, found by making a small one and trying it. Kept until the host is started again."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ...errors import GloveportError
from ..channel import Channel
from ..driver import Capabilities, LimitKinds
from ..exec import ExecRequest, Follower
from ..images.host import host_image
from ..probing import MAY_GIVE_AWAY, found_or_kept, nameless
from ..result import CommandResult
from ..spec import BoxSpec, Limits

if TYPE_CHECKING:
    from .driver import NamespaceDriver

__all__ = ("probe",)

_FILE: Final = "capabilities.json"
_VERSION: Final = 5
_LIMITS: Final = Limits(memory_mb=64, pids=24, cpus=0.9, disk_mb=64, open_files=256)
_HUNGRY: Final = "head -c 100000000 /dev/zero | tail | wc -c"
"""`tail` keeps a line that does not end."""
_MANY: Final = "i=0; while [ $i -lt 60 ]; do sleep 1 & i=$((i+1)); done; echo all"
_LARGE: Final = "head -c 100000000 /dev/zero > /tmp/large; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done; echo all"
_GATEWAY_SECONDS: Final = 2.0


def probe(driver: NamespaceDriver, root: Path) -> Capabilities:
    """As it was found before in this boot by this user with this program, or found now."""
    return found_or_kept(root / _FILE, _key, lambda: _measure(driver, root), driver="namespace")


def _key() -> list[Any]:
    from .driver import program

    info = program().stat()
    return [_VERSION, info.st_size, info.st_mtime_ns]


def _measure(driver: NamespaceDriver, root: Path) -> Capabilities:
    with nameless(driver, root) as folder:
        found = _try(driver, folder, root)
    with contextlib.suppress(GloveportError, OSError), nameless(driver, root) as folder:
        return dataclasses.replace(found, net="rules" if _brings_sockets(driver, folder, root) else "none")
    return found


def _brings_sockets(driver: NamespaceDriver, folder: Path, root: Path) -> bool:
    gateway = _Gateway(folder)
    try:
        _start(
            driver, folder, root, network=True, gateway_argv=("/bin/true",), gateway_socket=str(folder / gateway.name)
        )
        return gateway.given() > 2
    finally:
        gateway.close()


def _start(driver: NamespaceDriver, folder: Path, root: Path, **more: Any) -> BoxSpec:
    spec = BoxSpec(id=folder.name, hostname="probe", image=host_image(root), limits=_LIMITS, env={}, root=False, **more)
    spec = driver.prepare(folder, spec)
    driver.start(folder, spec)
    return spec


class _Gateway:
    """Where a machine's supervisor brings the sockets of its network namespace."""

    name = "probe.sock"

    def __init__(self, folder: Path) -> None:
        (folder / "network.json").write_text(json.dumps({"box": folder.name}))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._socket.bind(f"/proc/self/fd/{directory}/{self.name}")
        finally:
            os.close(directory)
        self._socket.listen(4)
        self._socket.settimeout(_GATEWAY_SECONDS)

    def given(self) -> int:
        """How many there were."""
        try:
            client, _ = self._socket.accept()
            with client:
                client.settimeout(_GATEWAY_SECONDS)
                _, descriptors, _, _ = socket.recv_fds(client, 65536, 64)
        except OSError:
            return 0
        for descriptor in descriptors:
            os.close(descriptor)
        return len(descriptors)

    def close(self) -> None:
        self._socket.close()


def _fork_files(
    driver: NamespaceDriver, folder: Path, spec: BoxSpec, run: Callable[[str], CommandResult]
) -> Literal["relayer", "copy"]:
    """Whether what it has written can be frozen under a new layer while it goes on."""
    run("echo old > /tmp/frozen")
    if driver.push_layer(folder, "upper", spec.image.layers) != "done":
        return "copy"
    shown = run("cat /tmp/frozen; echo new > /tmp/frozen; cat /tmp/frozen").stdout
    kept = (folder / "upper" / "tmp" / "frozen").read_text("utf-8")
    return "relayer" if (shown, kept) == ("old\nnew\n", "old\n") else "copy"


def _try(driver: NamespaceDriver, folder: Path, root: Path) -> Capabilities:
    from .driver import Supervised

    spec = _start(driver, folder, root)
    channel = Channel(folder, "agent.sock", Supervised(folder))
    try:

        def run(shell: str, user: str | None = None) -> CommandResult:
            request = ExecRequest(shell=shell, user=user, timeout_ms=20_000)
            return channel.run(lambda: Follower(limit=65536).run(request))

        run("true")
        can = driver.groups.can
        # First: afterwards the disk is full.
        root_user = run(MAY_GIVE_AWAY, "0").ok if spec.privileged else False
        limits = LimitKinds(
            memory="none" if run(_HUNGRY).stdout.strip() == "100000000" else "total" if "memory" in can else "polled",
            pids="hard",
            cpu="quota" if "cpu" in can else "none",
            disk="none" if "all" in run(_LARGE).stdout else "polled",
        )
        channel.drop()
        driver.freeze(folder)
        paused = driver.look(folder).condition == "paused"
        driver.thaw(folder)
        awake = run("true").ok
        fork_files = _fork_files(driver, folder, spec, run)
        # Last: those that it starts are there for a while, and no other can be started.
        if "all" in run(_MANY).stdout:
            limits = dataclasses.replace(limits, pids="none")
    finally:
        channel.drop()
    return Capabilities(
        driver="namespace",
        isolation="namespace",
        memory_pause="ram" if paused and awake else "none",
        fork="files",
        fork_files=fork_files,
        limits=limits,
        root_user=root_user,
        freezer="cgroup" if "freeze" in can else "signals",
    )
