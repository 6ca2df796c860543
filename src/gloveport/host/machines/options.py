"""Options of a machine, checked once, and what of them is written down."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from ...errors import RemoteUnsupportedError, ValidationError
from ...machines.estate import Estate, new_id
from ...machines.registry import Record
from ...machines.spec import Limits, checked_env
from ...policy import NetworkRules
from .bases import ImageSource, base_of
from .network import Network, network_rules

__all__ = (
    "DEFAULT_TIMEOUT_SECONDS",
    "UNSET",
    "Unset",
    "checked_changes",
    "checked_network",
    "checked_seconds",
    "refuse_remote",
    "record_of",
    "shown_rules",
)


class Unset:
    """The type of `UNSET`."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()
"""Leaves a setting as it is, where `None` clears it."""
DEFAULT_TIMEOUT_SECONDS: Final = 3600.0
"""Active time after which a machine is paused when nobody said otherwise: whoever forgets one does not pay for it for ever."""
_MOST_SECONDS: Final = 365 * 86400.0
_MOST_METADATA: Final = 64
_MOST_TEXT: Final = 4096
_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}|[0-9]{1,9}(?::[0-9]{1,9})?")


def refuse_remote(base_url: str | None, api_key: str | None) -> None:
    """Raises `RemoteUnsupportedError` when a server is named: this release has none, and would run on this host what was meant for
    another."""
    if base_url or api_key:
        raise RemoteUnsupportedError("`base_url` and `api_key` name a server, and this release speaks to none")


def checked_seconds(name: str, value: float | None, *, zero: bool = False) -> float | None:
    """A number of seconds, or `None`. Raises `ValidationError`."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValidationError(f"`{name}` must be a number of seconds or None, not {value!r}")
    if value < 0 or (value == 0 and not zero) or value > _MOST_SECONDS:
        raise ValidationError(
            f"`{name}` must be {'at least 0' if zero else 'above 0'} and at most a year, not {value!r}"
        )
    return float(value)


def checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Texts by names. Raises `ValidationError`."""
    found = dict(metadata or {})
    if len(found) > _MOST_METADATA:
        raise ValidationError(f"`metadata` has {len(found)} entries; the limit is {_MOST_METADATA}")
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, str) or len(name) + len(value) > _MOST_TEXT:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValidationError(f"`metadata` maps short texts to texts; {name!r} does not")
    return found


def checked_name(name: str | None) -> str:
    """What people call it. Raises `ValidationError`."""
    if name is None:
        return "sandbox"
    if not isinstance(name, str) or not 1 <= len(name) <= 64 or not name.isprintable():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValidationError(f"`name` must have 1 to 64 printable characters, not {name!r}")
    return name


def checked_user(user: str | None) -> str | None:
    """A user of the machine. Raises `ValidationError`."""
    if user is not None and not (isinstance(user, str) and _USER.fullmatch(user)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValidationError(f"`user` must be a name, `uid` or `uid:gid` in the machine, not {user!r}")
    return user


def checked_changes(
    *,
    metadata: Mapping[str, str] | Unset | None = UNSET,
    timeout_seconds: float | Unset | None = UNSET,
    idle_seconds: float | Unset | None = UNSET,
    auto_delete_seconds: float | Unset | None = UNSET,
    auto_resume: bool | Unset = UNSET,
) -> dict[str, Any]:
    """What `Estate.update` takes. Raises `ValidationError`."""
    changes = dict[str, Any]()
    if not isinstance(metadata, Unset):
        changes["metadata"] = checked_metadata(metadata)
    if not isinstance(timeout_seconds, Unset):
        changes["timeout"] = checked_seconds("timeout_seconds", timeout_seconds)
    if not isinstance(idle_seconds, Unset):
        changes["idle"] = checked_seconds("idle_seconds", idle_seconds)
    if not isinstance(auto_delete_seconds, Unset):
        changes["auto_delete"] = checked_seconds("auto_delete_seconds", auto_delete_seconds, zero=True)
    if not isinstance(auto_resume, Unset):
        changes["auto_resume"] = bool(auto_resume)
    return changes


def record_of(
    estate: Estate,
    *,
    name: str | None,
    timeout_seconds: float | Unset | None = UNSET,
    auto_delete_seconds: float | None = None,
    idle_seconds: float | None = None,
    auto_resume: bool = True,
    metadata: Mapping[str, str] | None = None,
    env_vars: Mapping[str, str] | None = None,
    network: Network = None,
    image: ImageSource | None = None,
    from_template: str | None = None,
    from_snapshot: str | None = None,
    user: str | None = None,
    owner: str | None = None,
    driver: str | None = None,
    memory_mb: int | Unset | None = UNSET,
    pids: int | Unset | None = UNSET,
    cpus: float | Unset | None = UNSET,
    disk_mb: int | Unset | None = UNSET,
    open_files: int | Unset | None = UNSET,
) -> Record:
    """What is asked for, as the registry keeps it. Raises `ValidationError` and what the image does not exist for."""
    timeout = DEFAULT_TIMEOUT_SECONDS if isinstance(timeout_seconds, Unset) else timeout_seconds
    given = {"memory_mb": memory_mb, "pids": pids, "cpus": cpus, "disk_mb": disk_mb, "open_files": open_files}
    chosen: dict[str, Any] = {key: value for key, value in given.items() if not isinstance(value, Unset)}
    driver = driver or "namespace"
    if driver not in estate.drivers:
        raise ValidationError(f"`driver` must be one of {', '.join(estate.drivers)}, not {driver!r}")
    limits = Limits(**chosen)
    rules = checked_network(network)
    base = base_of(estate, image, from_template, from_snapshot)
    label = checked_name(name)
    options = {
        "image": base["image"],
        "limits": {field: getattr(limits, field) for field in given},
        "env": {**base.get("env", {}), **checked_env("env_vars", env_vars)},
        "user": checked_user(user) or base.get("user"),
        "hostname": _hostname(label),
        "attached": rules is not None,
        "network": None if rules is None else shown_rules(rules),
    }
    return Record(
        id=new_id(),
        name=label,
        owner=owner or _owner(),
        host=estate.host,
        driver=driver,
        created=_now(),
        metadata=checked_metadata(metadata),
        options=options,
        timeout=checked_seconds("timeout_seconds", timeout),
        idle=checked_seconds("idle_seconds", idle_seconds),
        auto_delete=checked_seconds("auto_delete_seconds", auto_delete_seconds, zero=True),
        auto_resume=bool(auto_resume),
    )


def checked_network(network: Network) -> NetworkRules | None:
    """The rules. Raises `ValidationError`."""
    try:
        return network_rules(network)
    except (TypeError, ValueError) as error:
        raise ValidationError(str(error)) from error


def shown_rules(rules: NetworkRules) -> dict[str, Any]:
    """As plain data, for the registry and for whoever asks."""
    return {
        "allow": [str(rule) for rule in rules.allow],
        "deny": [str(rule) for rule in rules.deny],
        "private": list(rules.private),
    }


def _hostname(name: str) -> str:
    text = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:58].strip("-")
    return text or "sandbox"


def _owner() -> str:
    return os.environ.get("GLOVEPORT_OWNER") or f"uid-{os.geteuid()}"


def _now() -> float:
    import time

    return time.time()
