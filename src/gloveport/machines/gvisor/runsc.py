"""The program `runsc` of gVisor: where it is, and how it is called. Seen with release 20240729.0 of Debian 13."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from ...errors import CapabilityError, SandboxError

__all__ = ("MEMORY", "Runsc", "find_runsc", "write_bundle")

MEMORY: Final = "memory"
"""The folder of a machine that is written down. It is there only when it is complete."""

_SECONDS: Final = 120.0
_TAIL: Final = 600


def find_runsc() -> str:
    """Its path: `$GLOVEPORT_RUNSC`, else on the PATH. Raises `CapabilityError`."""
    given = os.environ.get("GLOVEPORT_RUNSC")
    found = shutil.which(given or "runsc")
    if found is None:
        where = f"$GLOVEPORT_RUNSC names {given!r}, which cannot be run" if given else "`runsc` is not on the PATH"
        raise CapabilityError(
            f"gVisor is not installed: {where}",
            missing=("gvisor",),
            hint="`apt-get install runsc` (Debian 13), or see gvisor.dev; or take the driver `namespace`",
        )
    return os.path.abspath(found)


class Runsc:
    """Calls for the containers of one machine, which are known to nobody else (`--root` is in its folder)."""

    def __init__(self, program: str, folder: Path) -> None:
        self._command = [
            program,
            f"--root={folder / 'runsc'}",
            "--platform=systrap",  # ptrace is slower, and KVM is not to be had everywhere
            "--network=none",
            "--ignore-cgroups",  # it is put into ours before it starts
            "--overlay2=root:memory",  # what is written is in its memory, and written down with it
            "--host-uds=all",  # the agent makes its socket in a folder of ours
        ]

    def attached(self, *arguments: str) -> list[str]:
        """The command line of a call that stays as long as the container."""
        return [*self._command, *arguments]

    def call(self, *arguments: str) -> str:
        """Call it to its end, and give what it prints. Raises `SandboxError`."""
        try:
            done = subprocess.run(
                [*self._command, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SandboxError(f"runsc {arguments[0]} did not end within {_SECONDS:g} s") from None
        if done.returncode:
            raise SandboxError(f"runsc {arguments[0]} failed: {(done.stderr or done.stdout).strip()[-_TAIL:]}")
        return done.stdout


def write_bundle(folder: Path, config: dict[str, Any]) -> None:
    """`config.json` (OCI runtime specification 1.2)."""
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
