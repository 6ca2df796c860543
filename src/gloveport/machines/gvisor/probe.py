"""What machines of gVisor have on this host, found by making a small one. Kept until the host is started again."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...errors import GloveportError, SandboxError
from ..channel import Channel, connect
from ..driver import Capabilities, LimitKinds
from ..exec import ExecRequest, Follower
from ..images.host import host_image
from ..namespace.driver import Supervised, program
from ..probing import MAY_GIVE_AWAY, found_or_kept, nameless
from ..spec import BoxSpec, Limits
from ..wire import Ask, Tag, Tell, encode, fields
from .network import FOLDER, PORT, SOCKET
from .runsc import find_runsc

if TYPE_CHECKING:
    from .driver import GvisorDriver

__all__ = ("probe",)

_FILE: Final = "capabilities-gvisor.json"
_VERSION: Final = 3
_LIMITS: Final = Limits(memory_mb=256, pids=None, cpus=None, disk_mb=None)
_PROXY_SECONDS: Final = 5.0


def probe(driver: GvisorDriver, root: Path) -> Capabilities:
    """As it was found before in this boot by this user with these programs, or found now."""
    return found_or_kept(root / _FILE, _key, lambda: _measure(driver, root), driver="gvisor")


def _key() -> list[Any]:
    marks = list[Any]()
    for path in (program(), Path(find_runsc())):
        info = path.stat()
        marks += [str(path), info.st_size, info.st_mtime_ns]
    return [_VERSION, *marks]


def _measure(driver: GvisorDriver, root: Path) -> Capabilities:
    with nameless(driver, root) as folder:
        spec = BoxSpec(
            id=folder.name,
            hostname="probe",
            image=host_image(root),
            limits=_LIMITS,
            env={},
            root=False,
            network=True,
            gateway_argv=("/bin/false",),
            gateway_socket=str(folder / "nobody"),
        )
        driver.start(folder, driver.prepare(folder, spec))
        return _try(driver, folder)


def _try(driver: GvisorDriver, folder: Path) -> Capabilities:
    if "gvisor" not in _said(folder, "dmesg | head -1", "0").lower():
        raise SandboxError("the machine's kernel is not that of gVisor")
    owner = _said(folder, f"{MAY_GIVE_AWAY} && echo may", "0") == "may"
    _said(folder, "setsid sleep 1000 >/dev/null 2>&1 & echo $! >/tmp/pid", "0")
    pause = "none"
    with contextlib.suppress(GloveportError, OSError):
        driver.freeze(folder)
        driver.thaw(folder)
        pause = "disk" if _said(folder, "kill -0 $(cat /tmp/pid) && echo alive", "0") == "alive" else "none"
    can = driver.groups.can
    return Capabilities(
        driver="gvisor",
        isolation="gvisor",
        memory_pause="disk" if pause == "disk" else "none",
        files="memory",
        fork="memory" if pause == "disk" else "none",
        fork_files="none",
        limits=LimitKinds(
            memory="total" if "memory" in can else "per_process",
            pids="none",
            cpu="quota" if "cpu" in can else "none",
            disk="hard_ram" if "memory" in can else "none",
        ),
        net="proxy" if _leads_out(folder) else "none",
        root_user=owner,
        freezer="none",
    )


def _leads_out(folder: Path) -> bool:
    """Whether what connects to the machine's proxy arrives at a socket of ours, also after the pause."""
    place = folder / FOLDER
    directory = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as listener:
            (place / SOCKET).unlink()
            listener.bind(f"/proc/self/fd/{directory}/{SOCKET}")
            listener.listen(1)
            listener.settimeout(_PROXY_SECONDS)
            with connect(folder, "agent.sock") as client:
                client.settimeout(_PROXY_SECONDS)
                client.sendall(encode(Ask.DIAL, fields((Tag.PORT, PORT))))
                if client.recv(5)[-1:] != bytes([Tell.OK]):
                    return False
                client.sendall(b"?")
                with listener.accept()[0] as served:
                    served.settimeout(_PROXY_SECONDS)
                    return served.recv(1) == b"?"
    finally:
        os.close(directory)
    return False


def _said(folder: Path, command: str, user: str) -> str:
    channel = Channel(folder, "agent.sock", Supervised(folder))
    try:
        request = ExecRequest(shell=command, user=user, cwd="/", timeout_ms=20_000)
        return channel.run(lambda: Follower(limit=4096).run(request)).stdout.strip()
    finally:
        channel.drop()
