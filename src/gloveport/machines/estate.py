"""All machines of one user on this host: made, found, changed and cleaned up. Everything here blocks.

Each change of a machine's state happens under its lock (`locks.transition`), from any process. What a machine *is* is looked up each
time (`state.look`), never remembered; what it was asked to be is in the registry.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from ..errors import (
    OtherHostError,
    SandboxError,
    SandboxGoneError,
    SandboxNotFoundError,
)
from .driver import Driver
from .gvisor.driver import GvisorDriver
from .gvisor.roots import merged_layer
from .home import box_folder, host_name, state_root
from .images.collection import collect
from .images.layers import LIVE, MERGED, LayerStore
from .images.manifests import ImageStore
from .images.owners import Owners
from .images.trees import open_folder, remove_tree
from .locks import hold, let_go, transition
from .namespace.driver import NamespaceDriver
from .registry import Record, Registry
from .spec import UID_BASE, BoxSpec, Image, Limits
from .state import Seen
from .uppers import Uppers, layer_name

__all__ = ("Estate", "Prepare", "Woken", "doomed", "estate", "image_options", "new_id", "use_gateway")

Woken = Literal["running", "resumed", "restarted"]
"""How `wake` found a machine. `restarted`: from its files; what was in memory is lost."""
Prepare = Callable[[Record, Path], Record]
"""Adds to a new machine's folder before it starts, and gives its record, changed or not."""
_ID: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,56}[a-z0-9])?")
_DELETED: Final = ("auto-delete", "killed")


class Estate:
    """The machines below one state directory."""

    def __init__(self, root: Path, drivers: Mapping[str, Driver]) -> None:
        self.root = root
        self.drivers = drivers
        self.registry = Registry(root / "machines.sqlite")
        self.host = host_name()
        self.layers = LayerStore(root / "layers", Owners.here(UID_BASE))
        self.images = ImageStore(root / "images")
        self.uppers = Uppers(self.registry, self.layers)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def folder(self, id: str) -> Path:  # noqa: A002
        """Of a machine. Raises `SandboxNotFoundError` for what is no id at all: it becomes a path."""
        if not isinstance(id, str) or not _ID.fullmatch(id):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SandboxNotFoundError(f"{id!r} is not the id of a machine")
        return box_folder(self.root, id)

    def record(self, id: str) -> Record:  # noqa: A002
        """What it was asked to be. Raises `SandboxNotFoundError` and `OtherHostError`."""
        self.folder(id)
        record = self.registry.get(id)
        if record is None or record.ended is not None:
            why = f"it was deleted ({record.reason})" if record else "there is no such machine"
            raise SandboxNotFoundError(f"no machine {id!r}: {why}")
        if record.host != self.host:
            raise OtherHostError(id, record.host)
        return record

    def driver(self, record: Record) -> Driver:
        """The driver of a machine."""
        try:
            return self.drivers[record.driver]
        except KeyError:
            raise SandboxError(f"the machine {record.id!r} needs the driver {record.driver!r}") from None

    def seen(self, record: Record) -> Seen:
        """How it is now."""
        return self.driver(record).look(self.folder(record.id))

    def gone(self, id: str) -> SandboxGoneError:  # noqa: A002
        """The error that says why a machine does not run."""
        record = self.registry.get(id)
        if record is None or record.ended is not None:
            return SandboxGoneError(id, record.reason if record and record.reason else "deleted", files_kept=False)
        seen = self.seen(record)
        kept = seen.condition == "stopped" and not doomed(record, seen)
        return SandboxGoneError(id, seen.reason or "deleted", files_kept=kept)

    # ── making ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, record: Record, prepare: Prepare | None = None) -> Record:
        """Make it and start it. The id is in the registry before anything else happens; when anything fails, nothing is left."""
        record = dataclasses.replace(record, starts=1)
        folder, driver = self.folder(record.id), self.driver(record)
        with transition(self.root, record.id):
            self.registry.add(record)
            try:
                folder.mkdir(mode=0o700)
                if prepare is not None:
                    _make_upper(folder)
                    record = prepare(record, folder)
                    self.registry.change(record.id, options=record.options)
                self._start(driver, record)
            except BaseException:
                self._destroy(driver, folder, record.id, "failed")
                raise
        return record

    def _start(self, driver: Driver, record: Record) -> None:
        folder = self.folder(record.id)
        driver.start(folder, driver.prepare(folder, self.spec(record)))

    def spec(self, record: Record) -> BoxSpec:
        """What its driver makes of it."""
        options = record.options
        network = bool(options.get("attached"))
        return BoxSpec(
            id=record.id,
            hostname=str(options.get("hostname") or "sandbox"),
            image=self._image(record),
            limits=Limits(**options["limits"]),
            env=options.get("base_env", {}),
            root=options.get("user") == "root",
            pause_after_ms=_ms(record.timeout),
            idle_ms=_ms(record.idle),
            delete_after_ms=None if record.auto_delete is None else _ms(record.auto_delete),
            wake=record.auto_resume,
            network=network,
            gateway_argv=tuple(_gateway(self.root)) if network else (),
            gateway_socket=str(self.root / _GATEWAY_SOCKET) if network else "",
        )

    def _image(self, record: Record) -> Image:
        image = record.options["image"]
        return Image(
            name=image["name"],
            layers=tuple(self._layer(text) for text in image["layers"]),
            binds=tuple((source, place) for source, place in image["binds"]),
            keep=tuple(image["keep"]),
            env=image["env"],
            workdir=image.get("workdir", "/workspace"),
        )

    def _layer(self, text: str) -> Path:
        return Path(text) if os.path.isabs(text) else self.root / text

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def wake(self, id: str, *, timeout: float = 60.0) -> tuple[Record, Woken]:  # noqa: A002
        """Make it run, whatever it does now. Waits for a change that is under way."""
        self.folder(id)
        with transition(self.root, id, timeout=timeout):
            record = self.record(id)
            driver, folder = self.driver(record), self.folder(id)
            seen = driver.look(folder)
            if seen.condition == "running":
                return record, "running"
            if seen.condition == "paused":
                driver.thaw(folder)
                return record, "resumed"
            if seen.condition == "absent" or doomed(record, seen):
                self._destroy(driver, folder, id, seen.reason or "lost")
                raise SandboxNotFoundError(f"no machine {id!r}: it was deleted ({seen.reason or 'its files are gone'})")
            driver.kill(folder, "restart")  # its supervisor may still be cleaning up
            driver.release(folder)
            record = self.uppers.ready(record, folder)
            self._start(driver, record)
            self.registry.change(id, starts=record.starts + 1)
            return dataclasses.replace(record, starts=record.starts + 1), "restarted"

    def pause(self, id: str, *, timeout: float = 60.0) -> None:  # noqa: A002
        """Stop all of it; memory is kept. Nothing happens when it is paused. Raises `SandboxGoneError` when it does not live."""
        self.folder(id)
        with transition(self.root, id, timeout=timeout):
            record = self.record(id)
            driver, folder = self.driver(record), self.folder(id)
            seen = driver.look(folder)
            if seen.condition == "running":
                driver.freeze(folder)
            elif seen.condition != "paused":
                raise self.gone(id)

    def kill(self, id: str, reason: str = "killed", *, timeout: float = 60.0) -> bool:  # noqa: A002
        """Delete it with its files. Gives whether there was anything to delete."""
        self.folder(id)
        known = self.registry.get(id)
        if known is None:
            return False
        if known.host != self.host:
            raise OtherHostError(id, known.host)
        with transition(self.root, id, timeout=timeout):
            record = self.registry.get(id)
            if record is None:
                return False
            folder = self.folder(id)
            if record.ended is not None and not folder.exists():
                return False
            self._destroy(self.driver(record), folder, id, reason)
            return record.ended is None

    def update(self, id: str, **changes: Any) -> Record:  # noqa: A002
        """Change what it was asked to be: `metadata`, `timeout`, `idle`, `auto_delete`, `auto_resume`. Takes effect at once.
        Of `options`, those that are given."""
        self.folder(id)
        with transition(self.root, id):
            record = self.record(id)
            if "options" in changes:
                changes["options"] = {**record.options, **changes["options"]}
            driver, folder = self.driver(record), self.folder(id)
            fresh = dataclasses.replace(record, **changes)
            timers = _timers(fresh, changes)
            if timers and driver.look(folder).condition in ("running", "paused"):
                with contextlib.suppress(SandboxError):  # it ended in this moment: the next start has the new ones
                    driver.timers(folder, **timers)
            if changes:
                self.registry.change(id, **changes)
            return fresh

    def claim(self, record: Record, *, alive: bool, **changes: Any) -> Record | None:
        """Make a machine that waits for a pool the caller's. `None`: somebody else was first, or it does not run any more.

        `alive`: the caller has seen that. The machine's clocks go on until `rearm`.
        """
        if not self.registry.change(record.id, where="pool IS NOT NULL AND ended IS NULL", pool=None, **changes):
            return None
        if not alive:
            try:
                self.wake(record.id)
            except (SandboxError, OSError):
                self.kill(record.id, "pool")
                return None
        return dataclasses.replace(record, pool=None, **changes)

    def rearm(self, record: Record) -> None:
        """The clocks of a machine that was claimed begin now."""
        with transition(self.root, record.id), contextlib.suppress(SandboxError, OSError):
            every = {"timeout": 0, "idle": 0, "auto_delete": 0, "auto_resume": 0}
            self.driver(record).timers(self.folder(record.id), **_timers(self.record(record.id), every))

    def frozen(self, id: str, act: Callable[[Record, Path], Any]) -> Any:  # noqa: A002
        """Do something with a machine's files while nothing in it moves, and let it be as it was."""
        self.folder(id)
        with transition(self.root, id):
            record = self.record(id)
            driver, folder = self.driver(record), self.folder(id)
            seen = driver.look(folder)
            if seen.condition == "absent":
                raise self.gone(id)
            if seen.condition == "stopped":
                return act(record, folder)
            with driver.still(folder):
                return act(record, folder)

    def keep_files(self, id: str) -> tuple[Record, list[str]]:  # noqa: A002
        """Its record, and the layers, the topmost first, that show its files as they are now and change no more: its own, where they can
        be frozen under a new writable layer, else a copy of that. Raises `SandboxError` for files that cannot be copied."""
        self.folder(id)
        with transition(self.root, id):
            record = self.record(id)
            driver, folder = self.driver(record), self.folder(id)
            seen = driver.look(folder)
            if seen.condition == "absent":
                raise self.gone(id)
            if seen.condition == "stopped":
                driver.kill(folder, "restart")  # its supervisor may still be cleaning up
            record, frozen = self.uppers.freeze(driver, record, folder)
            layers = list(record.options["image"]["layers"])
            if frozen:
                return record, layers
            with contextlib.nullcontext() if seen.condition == "stopped" else driver.still(folder):
                return record, [self._copied(record, folder), *layers]

    def _copied(self, record: Record, folder: Path) -> str:
        upper = open_folder(self.uppers.current(folder))
        try:
            layer = self.layers.keep_copy(upper, machine=record.id)
        except OSError as error:
            raise SandboxError(f"the files of the machine {record.id!r} cannot be copied: {error.strerror}") from error
        finally:
            os.close(upper)
        return str(self.layers.path(layer).relative_to(self.root))

    def take_files(self, id: str, place: Path) -> None:  # noqa: A002
        """Its processes end, and what it has written goes to the empty folder `place`, whole. It cannot be started afterwards."""
        with transition(self.root, id):
            record = self.record(id)
            driver, folder = self.driver(record), self.folder(id)
            driver.kill(folder, "taken")
            upper = self.uppers.current(folder)
            os.rmdir(place)
            os.rename(upper, place)

    def _destroy(self, driver: Driver, folder: Path, id: str, reason: str) -> None:  # noqa: A002
        """Leave nothing: processes, then groups, then files, then the entry. In this order it can be begun again after a crash."""
        driver.kill(folder, reason)
        driver.release(folder)
        remove_tree(folder)
        self.registry.end(id, reason)

    # ── cleaning ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def sweep(self) -> list[str]:
        """Clean up after what died: machines half made or half deleted, those whose time is over, pools without an owner.

        Gives the ids of what was deleted. Machines that somebody is changing now are left alone.
        """
        swept = list[str]()
        boxes = self.root / "boxes"
        known = {record.id: record for record in self.registry.find() if record.host == self.host}
        for id in {*known, *(entry.name for entry in os.scandir(boxes) if _ID.fullmatch(entry.name))}:  # noqa: A001
            descriptor = hold(self.root, id)
            if descriptor is None:
                continue
            try:
                with contextlib.suppress(SandboxError, OSError):  # the others are swept all the same
                    if self._sweep_one(id):
                        swept.append(id)
            finally:
                let_go(descriptor, id)
        self.registry.forget()
        self.collect()
        return swept

    def collect(self, *, everything: bool = False, young: float = 3600.0) -> list[str]:
        """Remove copies of files on which no machine, image or snapshot stands any more, with `everything` other layers, too. Gives
        their ids. Those that are younger than so many seconds stay: somebody may be about to use them."""
        machines = self.registry.find()
        used = {merged_layer(self._image(record)) for record in machines if record.driver == GvisorDriver.name}
        for record in (*machines, *self.registry.snapshots()):
            used |= {layer_name(text) for text in record.options["image"]["layers"]}
        if everything:
            from .images.host import host_image

            used |= {layer.parent.name for layer in host_image(self.root).layers}
        return collect(self.layers, self.images, used, young=young, prefix="" if everything else (LIVE, MERGED))

    def _sweep_one(self, id: str) -> bool:  # noqa: A002
        record, folder = self.registry.get(id), box_folder(self.root, id)
        if record is not None and record.host != self.host:
            return False
        driver = self.drivers.get(record.driver if record else "namespace")
        if driver is None:
            return False
        seen = driver.look(folder)
        reason = self._why_delete(record, seen)
        if reason is not None:
            self._destroy(driver, folder, id, reason)
            return True
        if seen.condition == "stopped":
            driver.release(folder)
            if record is not None:
                self.uppers.settle(record, folder)  # before `collect` looks for layers that nobody uses
        return False

    def _why_delete(self, record: Record | None, seen: Seen) -> str | None:
        if record is None:
            return "orphan"
        if record.ended is not None:
            return record.reason or "deleted"
        if seen.condition == "absent" or seen.reason == "not-started":
            return "never-started"
        if record.pool is not None:
            key = f"pool {record.pool}"
            owner = hold(self.root, key)
            if owner is not None:  # nobody holds it: the pool's process is gone
                let_go(owner, key)
                return "pool-closed"
        # What was paused to disk may have nobody beside it who would look at its clock.
        unwatched = seen.condition == "stopped" or seen.reason in ("crashed", "reboot")
        if unwatched and doomed(record, seen):
            return "auto-delete"
        return None


def doomed(record: Record, seen: Seen) -> bool:
    """Whether a stopped machine's files are not to be kept any longer."""
    if seen.reason in _DELETED:  # deleted by its supervisor, or by somebody who died before the files were gone
        return True
    return record.auto_delete is not None and time.time() >= (seen.since or record.created) + record.auto_delete


def _ms(seconds: float | None) -> int:
    return 0 if seconds is None else max(1, round(seconds * 1000))


def _timers(record: Record, changes: Mapping[str, Any]) -> dict[str, int]:
    timers = dict[str, int]()
    if "timeout" in changes:
        timers["pause_after_ms"] = _ms(record.timeout)
    if "idle" in changes:
        timers["idle_ms"] = _ms(record.idle)
    if "auto_delete" in changes:
        timers["delete_after_ms"] = _ms(record.auto_delete)
    if "auto_resume" in changes:
        timers["wake"] = int(record.auto_resume)
    return timers


def image_options(root: Path, image: Image) -> dict[str, Any]:
    """An image as it is kept in the registry: layers of the state directory by their name in it."""
    layers = [str(layer.relative_to(root)) if layer.is_relative_to(root) else str(layer) for layer in image.layers]
    return {
        "name": image.name,
        "layers": layers,
        "binds": [list(bind) for bind in image.binds],
        "keep": list(image.keep),
        "env": dict(image.env),
        "workdir": image.workdir,
    }


def new_id() -> str:
    """Of a machine: a DNS label, and no other like it on any host."""
    return f"box-{secrets.token_hex(10)}"


def _make_upper(folder: Path) -> None:
    """The writable layer, as `box` makes it when it is missing."""
    upper = folder / "upper"
    upper.mkdir()
    upper.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(upper, UID_BASE, UID_BASE)


_GATEWAY_SOCKET: Final = "gateway.sock"


def _no_gateway(_: Path) -> Sequence[str]:
    raise SandboxError("nobody said how the gateway of machines' networks is started (`use_gateway`)")


_gateway: Callable[[Path], Sequence[str]] = _no_gateway


def use_gateway(command: Callable[[Path], Sequence[str]]) -> None:
    """What gives the command that starts the gateway of a state directory. Said once, by the code above that knows it."""
    global _gateway
    _gateway = command


@functools.cache
def _estate(root: Path) -> Estate:
    return Estate(root, {"namespace": NamespaceDriver(), "gvisor": GvisorDriver()})


_SWEPT: Final[dict[tuple[Path, int], float]] = {}
_SWEEP_EVERY: Final = 60.0


def estate(root: str | os.PathLike[str] | None = None) -> Estate:
    """That of a state directory (`state_root`). Cleaned up when a process first uses it, and each minute that it is used in."""
    found = _estate(state_root(root))
    key, now = (found.root, os.getpid()), time.monotonic()
    if now - _SWEPT.get(key, -_SWEEP_EVERY) >= _SWEEP_EVERY:
        _SWEPT[key] = now
        found.sweep()
    return found
