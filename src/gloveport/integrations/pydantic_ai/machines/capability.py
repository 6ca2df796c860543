"""`MachineSandbox`: the workspace of an agent's runs is a machine of gloveport."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError
from pydantic_ai.tools import AgentDepsT, RunContext
from pydantic_ai.workspaces import WorkspaceRef

from ....host.machines.sandbox import AsyncSandbox
from ....machines.filing import checked_path
from .backend import MachineBackend
from .refs import PROVIDER, Signer

__all__ = ("MachineSandbox",)

_WEEK = 7 * 86400.0


@dataclasses.dataclass(kw_only=True)
class MachineSandbox(AbstractCapability[AgentDepsT]):
    """Each conversation has an isolated Linux machine as its workspace.

    The first command or file of a run makes it; `conversation=` or a history alone finds it again, also in another process and after
    it was paused. It gives execution only: tools come from `MachineTools`, from the harness, or from your own that use `ctx.workspace`.
    Without a network rule it reaches nothing. Nothing deletes it at the end of a run: it pauses when it has nothing to do, and is
    deleted a week later, unless `auto_delete_seconds` says otherwise. All other options are those of `Sandbox.create`.
    """

    id: str | None = "machine_sandbox"

    name: str = "agent"
    image: str | None = None
    from_template: str | None = None
    from_snapshot: str | None = None
    working_dir: str = "/workspace"
    """Where commands start and relative paths lead."""
    env_vars: Mapping[str, str] | None = dataclasses.field(default=None, repr=False)
    network: Any = None
    user: str | None = None
    memory_mb: int | None = None
    """MiB; `None`: the default of `Sandbox.create`, as for the next three."""
    pids: int | None = None
    cpus: float | None = None
    disk_mb: int | None = None
    timeout_seconds: float | None = 3600.0
    """Of being awake, after which it is paused. The next command wakes it."""
    idle_seconds: float | None = 300.0
    """Without a command, after which it is paused."""
    auto_delete_seconds: float | None = _WEEK
    """Of being paused, after which it is deleted with its files."""
    metadata: Mapping[str, str] | None = None
    driver: str | None = None
    require: Any = None
    owner: str | None = None
    """Whose machines these are, for applications with several tenants: a reference of one owner is refused for another."""
    ref_key: bytes | None = dataclasses.field(default=None, repr=False)
    """Signs references; needed when several hosts' histories mix. `None`: a key of this user on this host."""

    def __post_init__(self) -> None:
        checked_path(self.working_dir, "working_dir")
        self._signer = Signer(self.ref_key, self.owner)
        if self.defer_loading:
            raise UserError(
                "MachineSandbox cannot be deferred: a run's workspace is chosen when it starts. Defer `MachineTools`."
            )

    @classmethod
    def combine(cls, capabilities: Sequence[AbstractCapability[AgentDepsT]]) -> AbstractCapability[AgentDepsT]:
        """The last one, whole: merging field by field would widen what it allows."""
        return capabilities[-1]

    def get_workspace(self, ctx: RunContext[AgentDepsT], *, ref: WorkspaceRef | None) -> MachineBackend | None:
        """The workspace of a run: of this reference, or a new one. References of other providers are left to them."""
        del ctx
        return None if ref is not None and ref.provider != PROVIDER else self.backend(ref)

    def backend(self, ref: WorkspaceRef | None = None) -> MachineBackend:
        """The machine behind a reference (`result.workspace.ref`), or a new one, outside of a run. Does nothing yet.

        `await capability.backend(ref).sandbox()` is its `AsyncSandbox`.
        """
        return MachineBackend(self._signer, self._create, ref=ref, working_dir=self.working_dir)

    async def destroy(self, ref: WorkspaceRef) -> bool:
        """Delete the machine behind a reference. Gives whether there was one. Raises `WorkspaceUnavailableError` for a reference that
        was not made by this application for this owner."""
        return await AsyncSandbox.kill_by_id(self._signer.id_of(ref))

    async def _create(self) -> AsyncSandbox:
        given = {name: getattr(self, name) for name in _OPTIONS}
        return await AsyncSandbox.create(
            **{name: value for name, value in given.items() if name in _NONE or value is not None}
        )


_NONE = ("timeout_seconds", "idle_seconds", "auto_delete_seconds")
"""Options for which `None` says something."""
_OPTIONS = (
    "name", "image", "from_template", "from_snapshot", "env_vars", "network", "user", "memory_mb", "pids", "cpus", "disk_mb",
    "metadata", "driver", "require", "owner", *_NONE,
)  # fmt: skip
