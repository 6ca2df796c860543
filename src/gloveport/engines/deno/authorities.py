"""Certificate authorities beside those that Deno comes with."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import stat
import tempfile

__all__ = ("extra_authorities",)


def extra_authorities() -> str | None:
    """The file that `SSL_CERT_FILE` names, where a worker of another user can read it; `None` when the variable is not set.

    As for OpenSSL, which is where the variable comes from, so that TLS works behind a company's own authority. A worker trusts these
    authorities (PEM) and those that Deno comes with. Raises `ValueError` for a file that cannot be read.
    """
    name = os.environ.get("SSL_CERT_FILE")
    if not name:
        return None
    path = os.path.realpath(name)
    try:
        status = os.stat(path)
        readable = stat.S_IMODE(status.st_mode) & stat.S_IROTH or os.geteuid() != 0
        return path if readable else _copy(path, status.st_mtime_ns)
    except OSError as error:
        raise ValueError(f"the certificates that SSL_CERT_FILE names cannot be read: {error}") from error


@functools.lru_cache(maxsize=4)
def _copy(path: str, modified: int) -> str:
    """Root's workers are another user, who may not read a file that is root's alone."""
    del modified  # part of the cache's key
    fd, copy = tempfile.mkstemp(prefix="gloveport-authorities-", suffix=".pem")
    os.close(fd)
    atexit.register(_remove, copy, os.getpid())
    shutil.copyfile(path, copy)
    os.chmod(copy, 0o644)
    return copy


def _remove(path: str, owner: int) -> None:
    if owner == os.getpid() and os.path.exists(path):
        os.unlink(path)
