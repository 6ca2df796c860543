"""Mounting a widget for good before it is called good: one worker in a jail of its own for each."""

from __future__ import annotations

from typing import Final

import anyio
import anyio.to_thread

from ...errors import EngineUnavailableError, TypeScriptSandboxTimeoutError, WidgetError
from ...policy import MIB, SandboxMode
from ..deno.pool import WorkerPool
from ..deno.process import OFFLINE, Program, start
from ..deno.worker import DenoWorker
from ..toolbox.process import program
from .client import NATIVE, bury
from .spoken import Mounted
from .talk import Ended, Nonsense, Talk

__all__ = ("MAX_VERDICT", "Mounting", "mount_program")

MEMORY: Final = 256 * MIB
"""Bytes of private memory beyond what the program takes by itself."""
HEAP: Final = 192 * MIB
_PROGRAM: Final = "/gloveport"
"""Where a jailed worker sees its program: a widget's stacks, which it may show, name no directory of the host."""
MAX_VERDICT: Final = 256 * 1024
"""Bytes of what a worker may say. It has 20 notes of 1,000 characters at most."""


def mount_program() -> Program:
    """The worker's program. Raises `EngineUnavailableError` when a part is missing."""
    deno, bundle, code = program(), NATIVE / "mount.js", NATIVE / "mount-program.js"
    if not bundle.is_file() or not code.is_file():
        raise EngineUnavailableError(
            "the workers of widgets are not built: reinstall gloveport from its source or wheel"
        )
    # The page's policy does not allow code from strings, so a widget that makes some has to fail here as well.
    v8 = f"--v8-flags=--max-old-space-size={HEAP // MIB},--disallow-code-generation-from-strings"
    mounts = tuple((f"{_PROGRAM}/{path.name}", str(path)) for path in (deno, bundle, code))
    # Its own path is where it is found without a mount namespace.
    readable = f"--allow-read={_PROGRAM}/{code.name},{code}"
    return Program("a widget's worker", (str(deno), "run", *OFFLINE, readable, v8, str(bundle)), MEMORY, mounts=mounts)


class Mounting:
    """Workers with a document that are started and jailed before they are wanted, and used once."""

    def __init__(self, *, sandbox: SandboxMode = "require", spares: int = 1) -> None:
        self._pool = WorkerPool(mount_program, sandbox, name="widget", spares=spares)
        self._sandbox: SandboxMode = sandbox
        self.warm = False
        """A worker was started before, so that others are ready or will soon be."""

    async def begin(self) -> Talk:
        """A worker. Usually one is ready; the first takes a third of a second."""
        if self.warm:
            return Talk(await self._pool.take_async(), MAX_VERDICT)
        # Abandoned when cancelled: the worker that then comes is dropped, which ends it.
        return Talk(await anyio.to_thread.run_sync(self._first, abandon_on_cancel=True), MAX_VERDICT)

    def _first(self) -> DenoWorker:
        """Not from the pool, which at once would start its spares as well, while the builder starts and the widget waits for both."""
        worker = DenoWorker(start(mount_program(), self._sandbox, warn=True), bury)
        self.warm = True
        return worker

    async def mount(self, code: str, *, timeout: float, talk: Talk | None = None) -> Mounted:
        """Mounts what the builder made in a worker of its own (`talk`: one that `begin` gave).

        Raises:
            WidgetError: the worker died of it: `stage` is `"memory"` or `"crash"`.
            TypeScriptSandboxTimeoutError: it did not come to rest within `timeout` seconds, waiting for a worker excluded.
            EngineUnavailableError: no worker started.
            SandboxUnavailableError: `sandbox="require"` and there is no jail.
        """
        talk = talk or await self.begin()
        try:
            with anyio.fail_after(timeout):
                await talk.send({"code": code}, size=len(code))
                return await talk.receive(Mounted)
        except TimeoutError:
            text = "the widget did not come to rest in time: is there an endless loop in its rendering or in an effect?"
            raise TypeScriptSandboxTimeoutError(text) from None
        except Ended as error:
            # One that is alive would be waited for.
            ended = not isinstance(error, Nonsense)
            if ended and await anyio.to_thread.run_sync(talk.worker.ran_out_of_memory):
                raise WidgetError("the widget needs more memory than it may have", stage="memory") from None
            raise WidgetError("the widget ended the process that mounted it", stage="crash") from None
        finally:
            talk.close()
            self._pool.prepare()

    def settle(self, timeout: float = 10.0) -> None:
        """Waits until a spare is ready; for measurements."""
        self._pool.settle(timeout)

    def close(self) -> None:
        """Ends the spares."""
        self._pool.close()
