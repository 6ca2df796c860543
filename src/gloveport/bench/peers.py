"""Peers in virtual environments of their own, made once and kept in the cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from ..errors import GloveportError

__all__ = ("Peer", "PeerFailed", "start_peers")

PEERS: Final = {
    "pydeno": ("pydeno==0.13.2", "probes.py", ("pydeno",)),
    "monty": ("pydantic-monty==1.4.0", "monty.py", ()),
    "belgie": ("belgie[pydantic-ai]==0.42.0", "module_probes.py", ("belgie.pydantic_ai", "BelgieSandboxSession")),
}
"""Name → requirement, script, arguments. Pinned: a promise is against a release."""


class PeerFailed(GloveportError):
    """A peer cannot be installed or cannot do what was asked."""

    code = "peer"

    def __init__(self, message: str, peer: str = "") -> None:
        super().__init__(message)
        self.peer = peer


class Peer:
    """A peer's process; `measure` has it take one sample."""

    def __init__(self, name: str) -> None:
        requirement, script, arguments = PEERS[name]
        self.name = name
        self.requirement = requirement
        python = _environment(name, requirement)
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name(script)), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def measure(self, probe: str, **arguments: Any) -> float:
        """One sample. Raises `PeerFailed`."""
        if self._process.stdin is None or self._process.stdout is None:
            raise PeerFailed(f"{self.name} has no pipes")
        try:
            print(json.dumps({"probe": probe, "args": arguments}), file=self._process.stdin, flush=True)
            reply = json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            raise PeerFailed(f"{self.name} ended: {error}", self.name) from error
        if "error" in reply:
            raise PeerFailed(f"{self.name}: {reply['error']}", self.name)
        return float(reply["value"])

    def close(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def start_peers(*names: str) -> list[Peer]:
    """Those peers. Raises `PeerFailed`."""
    return [Peer(name) for name in names]


def _environment(name: str, requirement: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base, "gloveport", "peers", f"{requirement}-py{sys.version_info[0]}{sys.version_info[1]}")
    python = folder / "bin" / "python"
    if (folder / "ready").exists():
        return python
    print(f"installing {requirement}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "-q", requirement],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeerFailed(f"cannot install {name}: {(done.stderr or done.stdout).strip()[-500:]}")
    (folder / "ready").touch()
    return python
