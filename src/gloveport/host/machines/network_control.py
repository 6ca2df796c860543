"""The host's hand on a sandbox's network: rules that change, the log, the reasons, and ports that lead in. By id: any process may."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import secrets as randomness
import socket
from collections.abc import Callable, Generator, Mapping
from typing import Final, Literal

import msgspec

from ...egress.evaluator import Decision
from ...egress.gateway.boxes.commands import Command
from ...egress.gateway.boxes.journal import NetworkLogRow, read_rows
from ...egress.gateway.boxes.plans import PLAN_FILE, BoxPlan, Preview, box_folder, read_plan, write_file
from ...egress.gateway.boxes.previews import TOKEN_NAME
from ...egress.gateway.launching import DaemonClient
from ...errors import EngineUnavailableError
from ...policy import NetworkRules, check_count
from .network import Network, network_rules
from .network_secrets import NetworkSecret, SecretFiles, prepare_secrets

__all__ = ("PreviewPort", "SandboxNetwork")

Verdict = Literal["allowed", "blocked", "failed"]
_LOCK: Final = "network.lock"
_TRIES: Final = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreviewPort:
    """A port of a sandbox on this machine's loopback."""

    port: int
    """In the sandbox."""
    host_port: int
    """On 127.0.0.1."""
    token: str = dataclasses.field(default="", repr=False)
    """For a private one: what a client shows, as the query parameter `gloveport_token`, which becomes a cookie, or as the header
    `X-Gloveport-Token`."""

    @property
    def url(self) -> str:
        """Where it is; with the token, if it is private."""
        return f"http://127.0.0.1:{self.host_port}/" + (f"?{TOKEN_NAME}={self.token}" if self.token else "")


class SandboxNetwork:
    """The network of one sandbox. Blocking, and quick (a millisecond; 0.1 s where the gateway has to be started): any thread may use it.

    Args:
        root: the directory of state.
        box: the sandbox's id.
    """

    def __init__(self, root: str, box: str) -> None:
        self._folder = box_folder(root, box)
        self._box = box
        self._client = DaemonClient(root)

    # ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(
        self, network: Network, *, secrets: Mapping[str, NetworkSecret] | None = None, proxy: bool = False
    ) -> SecretFiles | None:
        """Writes down what a new sandbox gets, before it starts. `proxy` is for those that have no namespace to share.

        Raises `TypeError` and `ValueError` for rules and secrets that cannot be read, `EngineUnavailableError` for secrets without
        the extra `encryption`.
        """
        rules = network_rules(network)
        files = prepare_secrets(self._folder, secrets) if secrets else None
        write_file(self._folder, PLAN_FILE, BoxPlan(self._box, rules=rules, proxy=proxy))
        return files

    @property
    def rules(self) -> NetworkRules | None:
        """Those that hold now; `None` for no network."""
        return self._plan().rules

    def update(self, network: Network) -> None:
        """Other rules, at once: connections that they do not allow end. A sandbox that was made without a network gets none by this.

        Raises `TypeError`, `ValueError`, and `EngineUnavailableError` if the gateway does not take them.
        """
        rules = network_rules(network)
        with self._changing() as change:
            change(lambda plan: msgspec.structs.replace(plan, rules=rules))
        self._load(start=False)

    # ── what happened ────────────────────────────────────────────────────────────────────────────────────────────────

    def log(
        self,
        limit: int = 100,
        *,
        before: float | str | None = None,
        since: float | None = None,
        verdict: Verdict | None = None,
    ) -> list[NetworkLogRow]:
        """Rows of the log, newest first, also of a sandbox that has ended. About 2 MiB are kept.

        Args:
            limit: at most so many, 1 to 10,000.
            before: those that began before then (seconds since the epoch), or before the row with that id.
            since: those that began then or later.
            verdict: only these.
        """
        check_count("limit", limit, least=1, most=10_000)
        if verdict not in (None, "allowed", "blocked", "failed"):
            raise ValueError(f"`verdict` is allowed, blocked, failed or None, not {verdict!r}")
        rows = sorted(read_rows(self._folder), key=lambda row: (row.ts, row.id), reverse=True)
        if isinstance(before, str):
            at = next((n for n, row in enumerate(rows) if row.id == before), None)
            if at is None:
                raise ValueError(f"the log has no row {before!r} (any more)")
            rows = rows[at + 1 :]
        elif before is not None:
            rows = [row for row in rows if row.ts < before]
        kept = (row for row in rows if (since is None or row.ts >= since) and verdict in (None, row.verdict))
        return [row for _, row in zip(range(limit), kept, strict=False)]

    def why(self, host: str, port: int) -> str | None:
        """Why the last connection there failed; `None` if none did within a minute, as far as the gateway knows."""
        said = self._client.ask(Command("why", self._box, host=host, port=port))
        return (said.why if said else "") or None

    def decisions(self) -> tuple[Decision, ...]:
        """The last 256 that the gateway which runs now has made, oldest first."""
        said = self._client.ask(Command("decisions", self._box))
        return tuple(said.decisions) if said else ()

    # ── ports that lead in ───────────────────────────────────────────────────────────────────────────────────────────

    def preview(self, port: int, *, host_port: int | None = None, private: bool = False) -> PreviewPort:
        """Makes a port of the sandbox one of this machine's loopback, until the sandbox ends; also without a network.

        A port that there is already stays as it is, unless it is asked for otherwise. Raises `ValueError`, and
        `EngineUnavailableError` if `host_port` is somebody else's.
        """
        check_count("port", port, least=1, most=65535)
        if host_port is not None:
            check_count("host_port", host_port, least=1, most=65535)
        token = randomness.token_urlsafe(24) if private else ""
        error: EngineUnavailableError | None = None
        for _ in range(_TRIES if host_port is None else 1):
            before = self._find(port)
            if before and bool(before.token) == private and host_port in (None, before.host_port):
                self._load(start=True)
                return _shown(before)
            made = Preview(port, host_port or _free_port(), token)
            self._replace(port, made)
            try:
                self._load(start=True)
                return _shown(made)
            except EngineUnavailableError as failure:
                error = failure
                self._replace(port, before)
        assert error is not None
        raise error

    def close_preview(self, port: int) -> None:
        """Takes it away, with its connections. Idempotent."""
        if self._find(port) is not None:
            self._replace(port, None)
            self._load(start=False)

    @property
    def previews(self) -> tuple[PreviewPort, ...]:
        """All there are."""
        return tuple(map(_shown, self._plan().previews))

    def _find(self, port: int) -> Preview | None:
        return next((preview for preview in self._plan().previews if preview.port == port), None)

    def _replace(self, port: int, made: Preview | None) -> None:
        def replaced(plan: BoxPlan) -> BoxPlan:
            others = tuple(preview for preview in plan.previews if preview.port != port)
            return msgspec.structs.replace(plan, previews=(*others, *([made] if made else [])))

        with self._changing() as change:
            change(replaced)

    # ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _plan(self) -> BoxPlan:
        return read_plan(self._folder) or BoxPlan(self._box)

    @contextlib.contextmanager
    def _changing(self) -> Generator[Callable[[Callable[[BoxPlan], BoxPlan]], None]]:
        """Nobody else changes the plan meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(os.path.join(self._folder, _LOCK), flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield lambda change: write_file(self._folder, PLAN_FILE, change(self._plan()))
        finally:
            os.close(descriptor)

    def _load(self, *, start: bool) -> None:
        # Where there is no gateway, the next one will read what was written.
        said = self._client.ask(Command("load", self._box), start=start)
        if said is not None and said.error:
            raise EngineUnavailableError(f"the network gateway refuses: {said.error}")


def _shown(preview: Preview) -> PreviewPort:
    return PreviewPort(port=preview.port, host_port=preview.host_port, token=preview.token)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])
