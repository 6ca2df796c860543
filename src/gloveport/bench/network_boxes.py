"""The network of machines, for `gloveport bench network`: one gateway for fifty of them, and what the way through it costs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final

from ..egress.gateway.boxes.commands import Command
from ..egress.gateway.launching import DaemonClient, daemon_command
from ..host.machines.network_control import SandboxNetwork
from ..machines.channel import Channel
from ..machines.exec import ExecRequest, Follower
from ..machines.images.host import host_image
from ..machines.namespace.driver import NamespaceDriver, Supervised
from ..machines.spec import BoxSpec, Limits
from ..policy import NetworkRule, NetworkRules
from .box_gateway import HOST
from .report import Row, median_of

__all__ = ("BOXES", "BOX_BARS", "measure_boxes")

BOXES: Final = 50
BOX_BARS: Final[Mapping[str, float]] = {
    "download of a machine": 2.0,
    "gateway of 50 machines": 25 * 1024 * 1024,
    "next request after the gateway was killed": 0.5,
}
"""Through the gateway divided by directly; bytes of memory (PSS); seconds. At most."""
_SIZE: Final = 100_000_000
_TIME: Final = ("curl", "-sS", "--max-time", "120", "-o", "/dev/null", "-w", "%{time_total}")


def measure_boxes(*, quick: bool) -> list[Row]:
    """The rows; none where machines do not start."""
    with tempfile.TemporaryDirectory(prefix="gloveport-bench-") as folder, contextlib.ExitStack() as stack:
        place = _Place(Path(folder) / "state")
        if not place.usable:
            return []
        stack.callback(place.close)
        port = stack.enter_context(_server(Path(folder) / "served"))
        for number in range(BOXES):
            place.start(number, port)
        small, large = (f"http://{HOST}:{port}/{name}" for name in ("small", "large"))
        for number in range(BOXES):
            place.curl(number, small)
        samples = 3 if quick else 9
        direct = large.replace(HOST, "127.0.0.1")
        through, directly = median_of(
            samples, lambda: place.curl(0, large), lambda: float(subprocess.check_output([*_TIME, direct]))
        )
        rows = [_compared("download of a machine", through, directly)]
        rows.append(_absolute("gateway of 50 machines", place.memory(), "bytes"))
        after = sorted(place.after_kill(small) for _ in range(samples))[samples // 2]
        rows.append(_absolute("next request after the gateway was killed", after, "s"))
        return rows


class _Place:
    """A directory of state of its own."""

    def __init__(self, root: Path) -> None:
        for name in ("boxes", "layers"):
            (root / name).mkdir(mode=0o700, parents=True)
        root.chmod(0o700)
        self._root, self._driver = root, NamespaceDriver()
        self.usable = self._driver.probe(root).isolation != "none"
        self._command = daemon_command(str(root), program="gloveport.bench.box_gateway", idle=30)
        self._gateway = DaemonClient(str(root), self._command)
        self._channels: list[Channel] = []

    def _folder(self, number: int) -> Path:
        return self._root / "boxes" / f"box{number}"

    def start(self, number: int, port: int) -> None:
        folder = self._folder(number)
        folder.mkdir(mode=0o700)
        rules = NetworkRules(allow=(NetworkRule.parse(f"http://{HOST}:{port}"),), private=("127.0.0.0/8",))
        SandboxNetwork(str(self._root), folder.name).prepare(rules)
        spec = BoxSpec(
            id=folder.name,
            hostname="sandbox",
            image=host_image(self._root),
            limits=Limits(),
            env={},
            root=False,
            network=True,
            gateway_argv=tuple(self._command),
            gateway_socket=str(self._root / "gateway.sock"),
        )
        self._driver.start(folder, self._driver.prepare(folder, spec))
        self._channels.append(Channel(folder, "agent.sock", Supervised(folder)))

    def curl(self, number: int, url: str) -> float:
        """Seconds that a download takes, as the program in the machine sees it."""
        request = ExecRequest(argv=(*_TIME, url), timeout_ms=180_000)
        done = self._channels[number].run(lambda: Follower(limit=65536).run(request))
        if not done.ok:
            raise RuntimeError(f"the download failed: {done.stderr or done.stdout}")
        return float(done.stdout)

    def memory(self) -> float:
        """Bytes (PSS) of the gateway."""
        text = Path(f"/proc/{self._pid()}/smaps_rollup").read_text("ascii")
        found = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def after_kill(self, url: str) -> float:
        """Seconds from the gateway's death to the end of a request that is made at once."""
        os.kill(self._pid(), signal.SIGKILL)
        began = time.monotonic()
        self.curl(0, url)
        return time.monotonic() - began

    def _pid(self) -> int:
        said = self._gateway.ask(Command("status"))
        assert said is not None
        return said.pid

    def close(self) -> None:
        for channel in self._channels:
            channel.drop()
        for folder in (self._root / "boxes").iterdir():
            self._driver.kill(folder, "killed")
            self._driver.release(folder)
        self._gateway.ask(Command("end"))


@contextlib.contextmanager
def _server(folder: Path) -> Generator[int]:
    """Python's file server, a process of its own."""
    folder.mkdir()
    (folder / "small").write_bytes(b"hi")
    (folder / "large").write_bytes(bytes(_SIZE))
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r" port (\d+) ", process.stdout.readline())
            assert found is not None
            yield int(found[1])
        finally:
            process.kill()


def _compared(name: str, ours: float, other: float) -> Row:
    ratio, bar = ours / other, BOX_BARS[name]
    return Row(name=name, ours=ours, unit="s", peer="directly", peer_value=other, ratio=ratio, bar=bar, ok=ratio <= bar)


def _absolute(name: str, ours: float, unit: str) -> Row:
    most = BOX_BARS[name]
    ratio = ours / most
    return Row(name=name, ours=ours, unit=unit, peer="promise", peer_value=most, ratio=ratio, bar=1.0, ok=ratio <= 1)
