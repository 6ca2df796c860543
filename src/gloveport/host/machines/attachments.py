"""What a machine has of the network when it begins: its rules and secrets, written into its folder before its first process runs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from ...egress.gateway.boxes.plans import PLAN_FILE, SECRETS_FILE, read_plan, read_secrets, write_file
from ...errors import ValidationError
from ...machines.estate import Prepare
from ...machines.registry import Record
from ...machines.spec import UID_BASE
from ...policy import NetworkRules
from .network import Network
from .network_control import SandboxNetwork
from .network_secrets import NetworkSecret
from .options import checked_network

__all__ = ("Attachment", "attachment_of", "copied_network")

_FOLDER_MODE: Final = 0o755


@dataclasses.dataclass(frozen=True)
class Attachment:
    """The network that a new machine is to have. Both empty: none."""

    rules: NetworkRules | None
    secrets: Mapping[str, NetworkSecret]
    proxy: bool = False
    """Whether the machine reaches the gateway by a proxy (`Capabilities.net`)."""

    def prepare(self, record: Record, folder: Path) -> Record:
        """Write it into the machine's folder, and say what the machine's environment gets."""
        if self.rules is None:
            return record
        network = SandboxNetwork(str(folder.parents[1]), record.id)
        files = network.prepare(self.rules, secrets=self.secrets, proxy=self.proxy)
        if files is None:
            return record
        for path, content in files.files.items():
            _put(folder / "upper", path, content)
        # A snapshot remembers the placeholders of another machine: those are never what a secret of this one is found by.
        placeholders = {name: files.environment[name] for name in self.secrets}
        environment = {**files.environment, **record.options["env"], **placeholders}
        options = {**record.options, "env": environment}
        return dataclasses.replace(record, options=options)


def attachment_of(network: Network, secrets: Mapping[str, NetworkSecret] | None, *, proxy: bool = False) -> Attachment:
    """From `network=` and `secrets=`. Raises `ValidationError`."""
    rules = checked_network(network)
    found = dict(secrets or {})
    if found and rules is None:
        raise ValidationError(
            "`secrets` are put into requests, and there is no network", hint="allow their hosts: network=[…]"
        )
    for name, secret in found.items():
        if not isinstance(secret, NetworkSecret):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValidationError(f"`secrets[{name!r}]` must be a `NetworkSecret`, not {type(secret).__name__}")
    return Attachment(rules, found, proxy)


def copied_network(source: Path) -> Prepare:
    """That of another machine, with its secrets, for one that is forked from it. Ports that lead in are not copied: a port of the host
    leads to one machine."""
    plan, secrets = read_plan(str(source)), read_secrets(str(source))

    def prepare(record: Record, folder: Path) -> Record:
        if plan is not None:
            if secrets.secrets:
                write_file(str(folder), SECRETS_FILE, secrets)
            write_file(str(folder), PLAN_FILE, msgspec.structs.replace(plan, box=record.id, previews=()))
        return record

    return prepare if plan is not None else (lambda record, _: record)


def _put(upper: Path, path: str, content: bytes) -> None:
    """A file of the machine's root in its writable layer, which nobody but us has seen yet."""
    place = upper
    for part in ("", *Path(path).parent.parts[1:]):
        place = place / part
        if not place.is_dir():
            place.mkdir()
            place.chmod(_FOLDER_MODE)
            _give(place)
    place = place / Path(path).name
    place.write_bytes(content)
    place.chmod(0o644)
    _give(place)


def _give(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, UID_BASE, UID_BASE, follow_symlinks=False)
