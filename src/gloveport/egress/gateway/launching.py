"""Starting the daemon, and speaking to it. Also for programs that know nothing of Python: `daemon_command`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Final

import msgspec

from ...errors import EngineUnavailableError
from .boxes.commands import SOCKET, Command, Said

__all__ = ("DaemonClient", "daemon_command")

_PROGRAM: Final = "gloveport.egress.gateway.daemon"
_ENTRY: Final = (
    "import sys; n = int(sys.argv[2]); sys.path[:] = sys.argv[3:3 + n]; "
    "__import__(sys.argv[1], fromlist=['main']).main(sys.argv[3 + n:])"
)
_KEPT_ENVIRONMENT: Final = ("HOME", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "TZ", "TMPDIR")
_TIMEOUT: Final = 10.0
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Said).decode


def daemon_command(root: str, *, program: str = _PROGRAM, idle: float | None = None) -> list[str]:
    """The command that starts the daemon for a directory of state, and returns when one listens there (status 0).

    Raises `EngineUnavailableError` when it is not known which Python this is.
    """
    if not sys.executable:
        raise EngineUnavailableError("sys.executable is not set: the network gateway cannot be started")
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    path = [os.path.abspath(entry) for entry in sys.path]
    path = path if here in path else [*path, here]
    # -I: no user site, no PYTHON* variables; -S: the import path comes from us.
    command = [sys.executable, "-I", "-S", "-c", _ENTRY, program, str(len(path)), *path, os.path.abspath(root)]
    return command if idle is None else [*command, str(idle)]


class DaemonClient:
    """Speaks to the daemon of a directory of state, a connection for each command: any thread, any process may.

    Args:
        root: the directory.
        command: what starts it (`daemon_command(root)`).
    """

    def __init__(self, root: str, command: list[str] | None = None) -> None:
        self._root = os.path.abspath(root)
        self._command = command

    def ask(self, command: Command, *, start: bool = False) -> Said | None:
        """The answer; `None` if there is no gateway, and `start` is false. Raises `EngineUnavailableError`."""
        for attempt in range(20):
            try:
                return self._asked(command)
            except (FileNotFoundError, ConnectionError, EOFError):
                if not start:
                    return None
                if attempt == 19:
                    break
                self.start()  # one that ends at this moment still has the lock: the next one gets it
            except (OSError, msgspec.MsgspecError) as error:
                raise EngineUnavailableError(f"the network gateway does not answer: {error}") from error
        raise EngineUnavailableError("the network gateway does not stay")

    def start(self) -> None:
        """Starts it, if there is none. Raises `EngineUnavailableError`."""
        environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
        try:
            done = subprocess.run(
                self._command or daemon_command(self._root),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
                timeout=_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineUnavailableError(f"the network gateway did not start: {error}") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-2000:]
            raise EngineUnavailableError(f"the network gateway did not start: {said or done.returncode}")

    def connect(self) -> socket.socket:
        """A connection to it. Raises `OSError` if there is none."""
        directory = os.open(self._root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.settimeout(_TIMEOUT)
            sock.connect(f"/proc/self/fd/{directory}/{SOCKET}")
        except BaseException:
            sock.close()
            raise
        finally:
            os.close(directory)
        return sock

    def _asked(self, command: Command) -> Said:
        with self.connect() as sock:
            sock.send(_encode(command))
            packet = sock.recv(1 << 20)
        if not packet:
            raise EOFError
        return _decode(packet)
