"""Directories of boxes for tests: a small layer over the host's /usr, and who owns what."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.box.client import KILL, Connection
from tests.box.sanitizers import OPTIONS, complaint

UID_BASE, UID_COUNT = 1879048192, 65536
FOLDERS = (
    *(
        "etc",
        "usr",
        "usr/local",
        "usr/local/bin",
        "home",
        "home/user",
        "root",
        "workspace",
        "proc",
        "dev",
        "run",
        "var",
        "opt",
    ),
    "srv",
)
PASSWD = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\nother:x:1001:1001::/tmp:/bin/sh\n"


def skeleton(folder: Path, *, base: int | None) -> Path:
    """A layer with /etc and the places of mounts; `base`: who is root in it (None: whoever runs this)."""
    folder.mkdir(parents=True)
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        if (Path("/") / name).is_symlink():
            (folder / name).symlink_to(f"usr/{name}")
    (folder / "etc/passwd").write_text(PASSWD)
    (folder / "etc/group").write_text("root:x:0:\nuser:x:1000:\n")
    (folder / "etc/hosts").write_text("127.0.0.1 localhost\n")
    for path in (folder, *folder.rglob("*")) if base is not None else ():
        own = 1000 if {"user", "workspace"} & set(path.relative_to(folder).parts) else 0
        os.chown(path, base + own, base + own, follow_symlinks=False)
    return folder


def spec(**keys: Any) -> bytes:
    """The bytes of a spec file; a list gives the key several times."""
    lines = [(key, one) for key, value in keys.items() for one in (value if isinstance(value, list) else [value])]
    return b"".join(f"{key}={one}".encode() + b"\0" for key, one in lines)


class Place:
    """Where boxes of one user are made."""

    def __init__(
        self, root: Path, program: Path, *, uid: int = 0, prefix: tuple[str, ...] = (), sanitized: bool = False
    ) -> None:
        self.root, self.program, self.uid, self.prefix, self.sanitized = root, program, uid, prefix, sanitized
        self.count = 0
        self.layer = root / "layer"

    def keys(self, **more: Any) -> dict[str, Any]:
        """What a spec has unless a test says otherwise (None leaves a key out)."""
        ids: dict[str, Any] = {"uid_base": UID_BASE, "uid_count": UID_COUNT} if self.uid == 0 else {"map_uid": 1000}
        keys = {
            "version": 1,
            "id": f"box{self.count}",
            "lower": str(self.layer),
            "bind_ro": "/usr:/usr",
            "bind_keep": "/usr/local",
        }
        keys |= {**ids, **more}
        return {key: value for key, value in keys.items() if value is not None}

    def directory(self, **more: Any) -> Path:
        self.count += 1
        folder = self.root / f"box{self.count}"
        folder.mkdir(mode=0o700)
        (folder / "spec").write_bytes(spec(**self.keys(**more)))
        if self.uid != os.geteuid():
            for path in (folder, folder / "spec"):
                os.chown(path, self.uid, self.uid)
        return folder

    def start(self, folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix, str(self.program), "run", str(folder)],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            env={**os.environ, **OPTIONS} if self.sanitized else None,
        )

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[Path]:
        """Starts it; it is gone afterwards, with its directory."""
        done = self.start(folder)
        assert done.returncode == 0, done.stderr
        try:
            yield folder
        finally:
            end(folder)
            said = complaint(folder / "log") if self.sanitized else ""
            shutil.rmtree(folder, ignore_errors=True)
            assert not said, said

    @contextlib.contextmanager
    def box(self, **more: Any) -> Iterator[Path]:
        """A running box, which is gone afterwards, with its directory."""
        with self.running(self.directory(**more)) as folder:
            yield folder


def state(folder: Path) -> dict[str, str]:
    """The `state` file."""
    return dict(part.split("=", 1) for part in (folder / "state").read_text().split())


def end(folder: Path) -> None:
    """Kills a box and waits until nothing is left of it."""
    with contextlib.suppress(OSError, EOFError), Connection(folder, "ctl.sock") as control:
        control.ask(KILL)
    wait_for(lambda: state(folder)["state"] == "gone")


def wait_for(condition: Any, seconds: float = 20) -> None:
    """Until it holds; a hang guard, not a promise about speed."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def send_signal(pid: int | str, signo: int = signal.SIGKILL) -> None:
    os.kill(int(pid), signo)
