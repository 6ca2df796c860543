"""What `Sandbox` and `AsyncSandbox` are made of: everything that blocks, once."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ...errors import CapabilityError, SandboxError, SandboxNotFoundError, ValidationError
from ...machines import copies
from ...machines.box import Box
from ...machines.driver import Capabilities
from ...machines.estate import Estate, Prepare, Woken, estate, new_id, use_gateway
from ...machines.registry import Record
from .info import SandboxInfo, info_of
from .network import Network
from .options import (
    UNSET,
    Unset,
    checked_changes,
    checked_network,
    checked_seconds,
    record_of,
    refuse_remote,
    shown_rules,
)
from .progress import OnProgress, reporting

if TYPE_CHECKING:
    from .network_control import PreviewPort, SandboxNetwork
    from .network_secrets import NetworkSecret

__all__ = (
    "Draft",
    "Requirement",
    "attach",
    "capabilities",
    "create",
    "find",
    "fork",
    "kill",
    "network_of",
    "pause_now",
    "preview",
    "refuse_remote",
    "required",
    "update",
    "usage",
)

Requirement = Mapping[str, Any] | Callable[[Capabilities], bool] | str | Sequence[str] | None
_STATUSES: Final = ("active", "paused", "stopped")


def attach(id: str) -> tuple[Box, Woken]:  # noqa: A002
    """A machine by its id, awake."""
    found = estate()
    record, how = found.wake(id)
    return Box(found, record), how


def create(
    *,
    require: Requirement = None,
    base_url: str | None = None,
    api_key: str | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Box:
    """A new machine. Nothing is left when it raises."""
    refuse_remote(base_url, api_key)
    found = estate()
    with reporting(on_progress):
        draft = Draft(found, **options)
        required(require, found, draft.record.driver)
        return draft.create()


class Draft:
    """Checked options, from which machines can be made."""

    def __init__(self, found: Estate, *, secrets: Mapping[str, NetworkSecret] | None = None, **options: Any) -> None:
        self._found, self._options = found, options
        self.record = record_of(found, **options)
        """As the next one will be; its id is used once."""
        self._prepare: Prepare | None = None
        if self.record.options["attached"] or secrets:
            from .attachments import attachment_of

            net = capabilities(found, self.record.driver).net
            self._prepare = attachment_of(options.get("network"), secrets, proxy=net == "proxy").prepare
            if net == "none":
                raise CapabilityError(
                    "machines have no network on this host", missing=("net",), hint="create it without `network`"
                )

    def create(self, **changes: Any) -> Box:
        """A machine like this, but for `changes` of its record."""
        record = dataclasses.replace(self.record, id=new_id(), created=time.time(), **changes)
        made = self._found.create(record, self._prepare)
        try:
            return Box(self._found, made)
        except BaseException:
            self._found.kill(made.id, "failed")
            raise


def capabilities(found: Estate, driver: str | None = None) -> Capabilities:
    """What a driver gives here."""
    chosen = found.drivers.get(driver or "namespace")
    if chosen is None:
        raise ValidationError(f"`driver` must be one of {', '.join(found.drivers)}, not {driver!r}")
    return chosen.probe(found.root)


def required(require: Requirement, found: Estate, driver: str) -> None:
    """Raises `CapabilityError` when this host does not give what is required; what is not known counts as missing."""
    if require is None:
        return
    has = capabilities(found, driver)
    if callable(require):
        if not require(has):
            raise CapabilityError("this host does not give what `require` asks for")
        return
    if isinstance(require, str):
        require = (require,)
    wanted = dict(require) if isinstance(require, Mapping) else dict.fromkeys(require, True)
    missing = tuple(name for name, value in wanted.items() if not _gives(has, name, value))
    if missing:
        raise CapabilityError(f"this host does not give: {', '.join(missing)}", missing=missing)


def _gives(has: Capabilities, name: str, value: Any) -> bool:
    data: Any = has.as_dict()
    for part in name.split("."):
        if not isinstance(data, Mapping) or part not in data:
            raise ValidationError(
                f"`require` has {name!r}, which is no capability", hint="see `gloveport.Capabilities`"
            )
        data = cast("Mapping[str, Any]", data)[part]
    if value is True:
        return data is True or (isinstance(data, str) and data not in ("none", ""))
    if isinstance(value, (list, tuple, set, frozenset)):
        return data in value
    return data == value


def find(
    *,
    metadata: Mapping[str, str] | None = None,
    status: str | Sequence[str] | None = None,
    owner: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[SandboxInfo]:
    """Machines of this user on this host, the oldest first."""
    wanted = (status,) if isinstance(status, str) else tuple(status) if status is not None else _STATUSES
    unknown = set(wanted) - set(_STATUSES)
    if unknown or not wanted:
        raise ValidationError(
            f"`status` must be some of {', '.join(_STATUSES)}, not {', '.join(sorted(unknown)) or 'none'}"
        )
    if (limit is not None and limit < 0) or offset < 0:
        raise ValidationError("`limit` and `offset` must not be negative")
    found, told = estate(), list[SandboxInfo]()
    for record in found.registry.find():
        if record.pool is not None or record.host != found.host:
            continue
        if owner is not None and record.owner != owner:
            continue
        if any(record.metadata.get(name) != value for name, value in (metadata or {}).items()):
            continue
        seen = found.seen(record)
        if seen.condition == "absent":
            continue
        info = info_of(record, seen)
        if info.status in wanted:
            told.append(info)
    return told[offset : None if limit is None else offset + limit]


def kill(id: str) -> bool:  # noqa: A002
    """Delete a machine. Gives whether there was one; to delete it again is no error."""
    try:
        return estate().kill(id)
    except SandboxNotFoundError:
        return False


def update(found: Estate, id: str, *, network: Network | Unset = UNSET, **changes: Any) -> Record:  # noqa: A002
    """Change settings; does not wake it."""
    checked = checked_changes(**changes)
    if isinstance(network, Unset):
        return found.update(id, **checked)
    rules = checked_network(network)
    record = found.record(id)
    if not record.options.get("attached"):
        if rules is not None:
            raise ValidationError(
                f"the machine {id!r} was made without a network, and cannot get one",
                hint="create it with `network=[]` to add rules later",
            )
        return found.update(id, **checked)
    _network(str(found.root), id).update(rules)
    options = {"network": None if rules is None else shown_rules(rules)}
    return found.update(id, options=options, **checked)


def fork(found: Estate, id: str, n: int, *, memory: bool = False) -> list[Record]:  # noqa: A002
    """Copies of a machine, with its network."""
    if memory and capabilities(found, found.record(id).driver).fork != "memory":
        raise CapabilityError(
            "machines of this driver cannot be forked with what is in their memory",
            missing=("fork",),
            hint="`fork()` copies files; start what has to run in each copy",
        )
    if not found.record(id).options["attached"]:
        return copies.fork(found, id, n)
    from .attachments import copied_network

    return copies.fork(found, id, n, copied_network(found.folder(id)))


def network_of(box: Box) -> SandboxNetwork:
    """The hand on its network. Raises `SandboxGoneError` when it was deleted."""
    if box.ended is not None:
        raise box.ended
    return _network(str(box.estate.root), box.id)


@contextlib.contextmanager
def _deleted(box: Box) -> Generator[None]:
    """What fails because the machine was deleted by somebody else meanwhile says so, with `SandboxNotFoundError`."""
    try:
        yield
    except (OSError, SandboxError):
        box.estate.record(box.id)
        raise


def usage(box: Box) -> dict[str, int]:
    """What it uses now."""
    with _deleted(box):
        return box.estate.driver(box.record).usage(box.folder)


def preview(box: Box, port: int, host_port: int | None, private: bool) -> PreviewPort:
    """One of its ports as one of this machine's."""
    with _deleted(box):
        return network_of(box).preview(port, host_port=host_port, private=private)


def _network(root: str, id: str) -> SandboxNetwork:  # noqa: A002
    from .network_control import SandboxNetwork  # a third of the time that `Sandbox` takes to be imported

    return SandboxNetwork(root, id)


def _gateway(root: Path) -> Sequence[str]:
    from ...egress.gateway.launching import daemon_command

    return daemon_command(str(root))


use_gateway(_gateway)


def pause_now(box: Box, timeout: float) -> None:
    """Pause it and let go of what is idle: a connection would only be closed by the machine."""
    checked_seconds("timeout", timeout)
    box.estate.pause(box.id, timeout=timeout)
    box.channel.drop()
