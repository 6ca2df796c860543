"""What the host writes down about a box's network, for whichever gateway serves it.

`network.json` has the rules and ports, and goes through the hands of the box's supervisor; `secrets.json` only the gateway reads.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Final, Literal, TypeVar

import msgspec

from ....policy import NetworkRules
from ..limits import GatewayLimits

__all__ = ("BoxLimits", "BoxPlan", "BoxSecret", "BoxSecrets", "Preview", "box_folder", "read_plan", "read_secrets")

PLAN_FILE: Final = "network.json"
SECRETS_FILE: Final = "secrets.json"
MAX_PLAN: Final = 192 * 1024
_ID: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,56}[a-z0-9])?")
_T = TypeVar("_T")


def BoxLimits() -> GatewayLimits:
    """Limits of a box's network: as a module's, but for a life of weeks."""
    return GatewayLimits(connections=512, transferred_bytes=1 << 50, names=32768)


class Preview(msgspec.Struct, frozen=True, omit_defaults=True):
    """A port of the box that the host's loopback has too."""

    port: int
    host_port: int
    token: str = ""
    """What an HTTP client must show; empty: whoever connects is let in."""


class BoxSecret(msgspec.Struct, frozen=True):
    """A value that the box never has."""

    name: str
    placeholder: str
    """What the box has in its place."""
    value: str
    hosts: tuple[str, ...]
    """`host` (port 443), `*.domain`, `host:port`; with `http://` in front for plain HTTP."""


class BoxSecrets(msgspec.Struct, frozen=True):
    """All of a box, and the certificate that stands for the hosts: chain and key as PEM."""

    secrets: tuple[BoxSecret, ...] = ()
    certificate: str = ""


class BoxPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The network of a box. `rules` of `None` is none at all: then only ports lead into it."""

    box: str
    kind: Literal["box"] = "box"
    rules: NetworkRules | None = None
    limits: GatewayLimits = msgspec.field(default_factory=BoxLimits)
    previews: tuple[Preview, ...] = ()
    proxy: bool = False
    """Whether it is served through a proxy on a unix socket instead of sockets of its network namespace."""


def box_folder(root: str, box: str) -> str:
    """The directory of a box. Raises `ValueError` for what is no id."""
    if not _ID.fullmatch(box):
        raise ValueError(f"{box!r} is no id of a sandbox")
    return os.path.join(root, "boxes", box)


def read_plan(folder: str) -> BoxPlan | None:
    """The plan in a box's directory; `None` if there is none. Raises `ValueError` for one that cannot be read."""
    return _read(folder, PLAN_FILE, BoxPlan)


def read_secrets(folder: str) -> BoxSecrets:
    """The secrets in a box's directory. Raises `ValueError`."""
    return _read(folder, SECRETS_FILE, BoxSecrets) or BoxSecrets()


def write_file(folder: str, name: str, message: msgspec.Struct) -> None:
    """Puts it there in one step, for this user only. Raises `OSError`, and `ValueError` for what is too long."""
    data = msgspec.json.encode(message)
    if name == PLAN_FILE and len(data) > MAX_PLAN:
        raise ValueError(f"the network rules are too many: they take {len(data)} bytes, and {MAX_PLAN} is the most")
    path = os.path.join(folder, name)
    draft = f"{path}.{os.getpid()}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def _read(folder: str, name: str, kind: type[_T]) -> _T | None:
    try:
        descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        return msgspec.json.decode(file.read(1 << 22), type=kind)
