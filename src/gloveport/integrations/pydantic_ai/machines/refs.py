"""References to machines, as they travel in message histories.

Pydantic AI attaches to whatever workspace a history names, and a history may come from a browser. So a reference carries a
signature (HMAC, RFC 2104, with SHA-256) over the id and the owner, and one that this application did not sign is refused.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic_ai.workspaces import WorkspaceRef, WorkspaceUnavailableError

from ....machines.home import state_root

__all__ = ("PROVIDER", "Signer")

PROVIDER: Final = "gloveport"
_KEY_FILE: Final = "workspace-refs.key"
_KEY_BYTES: Final = 32
_MOST_TEXT: Final = 200


class Signer:
    """Makes references to machines of one owner, and reads them.

    Args:
        key: at least 16 bytes. `None`: a key that was made at random and is kept in the folder of machines, readable by its user only.
        owner: whose machines these are. A reference that was made for another owner is refused.
    """

    def __init__(self, key: bytes | None, owner: str | None) -> None:
        if key is not None and (not isinstance(key, bytes) or len(key) < 16):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("`ref_key` must be at least 16 random bytes, such as `secrets.token_bytes(32)`, or None")
        self._key = key
        self._owner = owner or ""

    def ref(self, id: str) -> WorkspaceRef:  # noqa: A002
        """The reference to a machine. Reads the key file; makes it when it is missing."""
        return WorkspaceRef(provider=PROVIDER, id=f"{id}.{self._signature(id)}")

    def id_of(self, ref: WorkspaceRef) -> str:
        """The machine's id. Raises `WorkspaceUnavailableError` for a reference that was not made with this key for this owner."""
        id, _, signature = ref.id.rpartition(".")  # noqa: A001
        known = ref.provider == PROVIDER and 0 < len(id) <= _MOST_TEXT and ref.id.isascii()
        if not known or not hmac.compare_digest(signature, self._signature(id)):
            raise WorkspaceUnavailableError(
                "this workspace reference was not made by this application for this owner; "
                "start a fresh workspace with `workspace='new'`"
            )
        return id

    def _signature(self, id: str) -> str:  # noqa: A002
        if self._key is None:
            self._key = _kept_key(state_root() / _KEY_FILE)
        # Lengths in front: no two pairs of id and owner are the same text.
        message = b"".join(len(part).to_bytes(4, "big") + part for part in (id.encode(), self._owner.encode()))
        digest = hmac.new(self._key, b"gloveport workspace ref 1\0" + message, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest[:24]).decode("ascii")

    def __getstate__(self) -> Mapping[str, object]:
        """Without the key: it belongs into no pickle."""
        raise TypeError("a signer of workspace references is not pickled: its key would travel with it")


def _kept_key(path: Path) -> bytes:
    """The key in a file, made when it is missing. Two processes that make it at the same time agree on one."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(fresh, path)  # fails where there is one by now, and appears whole
            except FileExistsError:
                pass
        finally:
            fresh.unlink()
        key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise ValueError(f"{path} does not hold a key of {_KEY_BYTES} bytes; delete it to make another one")
    return key
