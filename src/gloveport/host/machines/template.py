"""`Template`: an image that is made by steps, each a layer that is made once."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, cast

from anyio.to_thread import run_sync

from ...errors import TemplateBuildError, TemplateNotFoundError, ValidationError
from ...machines.estate import Estate, estate, image_options
from ...machines.filing import checked_path
from ...machines.images.layers import Staging
from ...machines.images.manifests import Image, image_name
from ...machines.images.trees import digest_tree, open_folder
from ...machines.result import CommandResult
from ...machines.spec import Image as Root
from ...machines.spec import checked_env
from .base import Draft, kill
from .bases import ImageSource, base_of
from .commands import Commands
from .files import Files
from .network import Network, network_rules
from .options import checked_seconds, checked_user
from .progress import reporting

__all__ = ("AsyncTemplate", "CopyStep", "EnvStep", "RunStep", "Step", "Template", "UserStep", "WorkdirStep")

_BUILD_SECONDS: Final = 1800.0
_LEFT_SECONDS: Final = 6 * 3600.0
"""After which a machine of a build is paused, and then deleted, when whoever made it has died."""
_OURS: Final = ("host", "debian")
_DIGEST: Final = 24


@dataclasses.dataclass(frozen=True)
class RunStep:
    """A shell command, as the user and in the directory that earlier steps have set (root and the image's directory at first)."""

    command: str
    timeout_seconds: float | None = _BUILD_SECONDS


@dataclasses.dataclass(frozen=True)
class EnvStep:
    """A variable, for later steps and for every command of the machines."""

    name: str
    value: str


@dataclasses.dataclass(frozen=True)
class WorkdirStep:
    """The directory of later steps and of every command of the machines. It is made."""

    path: str


@dataclasses.dataclass(frozen=True)
class UserStep:
    """The user of later steps and of the machines: a name, `uid` or `uid:gid`. It has to exist in the image."""

    name: str


@dataclasses.dataclass(frozen=True)
class CopyStep:
    """A file or a directory of the host, to a path of the machine. What is in it decides whether the layer is made anew."""

    source: str | os.PathLike[str]
    path: str


Step = RunStep | EnvStep | WorkdirStep | UserStep | CopyStep
_WORDS: Final[Mapping[str, type[Any]]] = {
    "run": RunStep,
    "env": EnvStep,
    "workdir": WorkdirStep,
    "user": UserStep,
    "copy": CopyStep,
}


@dataclasses.dataclass(frozen=True)
class Template:
    """What machines can begin with: `Sandbox.create(from_template=template.name)`."""

    name: str
    layers: int
    """How many it stands on."""
    env: Mapping[str, str]
    workdir: str
    user: str
    created_at: datetime.datetime
    source: str

    @classmethod
    def create(
        cls,
        name: str,
        steps: Sequence[Step | Mapping[str, Any]] = (),
        *,
        from_: ImageSource = "host",
        network: Network = None,
        memory_mb: int | None = 2048,
        disk_mb: int | None = 8192,
        rebuild: bool = False,
        on_log: Callable[[str], object] | None = None,
    ) -> Self:
        """Make it, or take what is made already. One of the same name is replaced when all has gone well.

        Args:
            name: lower-case words with `.`, `_`, `-` and `/`, and a tag behind a colon, if any.
            steps: in order. A mapping is a step, too: `{"run": "pip install numpy"}`, `{"env": {"A": "1", "B": "2"}}`,
                `{"workdir": "/app"}`, `{"user": "user"}`, `{"copy": ["./app", "/app"]}`.
            from_: `"host"`, `"debian"`, a template, or the path of an archive.
            network: of the machines that run the steps, as for `Sandbox.create`. The template gives none to machines made of it.
            memory_mb, disk_mb: of those machines.
            rebuild: whether to run steps again that have been run with the same layers below.
            on_log: is called with text as the steps print it, and with a line for each step.

        Each `RunStep` and `CopyStep` is a layer: it is run in a machine of its own, which is deleted, and only again when something
        before it or in it is different. Raises `TemplateBuildError` with the output of a step that fails, `ValidationError`, and what
        `Sandbox.create` raises.
        """
        found = estate()
        log = on_log or _quiet
        with reporting(lambda text: log(f"{text}\n")):
            build = _Build(found, _checked_name(name), from_, network, memory_mb, disk_mb, rebuild, log)
        return cls._of(build.make(_steps(steps)))

    @classmethod
    def list(cls) -> list[Self]:
        """All templates, the oldest first."""
        return [cls._of(image) for image in estate().images.all("template")]

    @classmethod
    def get(cls, name: str) -> Self:
        """The template of that name. Raises `TemplateNotFoundError`."""
        found = estate().images.get(_checked_name(name))
        if found is None:
            known = ", ".join(image.name for image in estate().images.all("template"))
            raise TemplateNotFoundError(f"no template {name!r}", hint=f"there are: {known or 'none'}")
        return cls._of(found)

    @classmethod
    def delete_by_name(cls, name: str) -> bool:
        """Forget it. Machines made of it stay as they are. Gives whether there was one."""
        found = estate()
        removed = found.images.remove(_checked_name(name))
        found.collect(everything=True)
        return removed

    def delete(self) -> bool:
        """As `delete_by_name`."""
        return self.delete_by_name(self.name)

    @classmethod
    def _of(cls, image: Image) -> Self:
        made = datetime.datetime.fromtimestamp(image.made, datetime.timezone.utc)
        user = image.user or "user"
        return cls(image.name, len(image.layers), dict(image.env), image.workdir, user, made, image.source)


class AsyncTemplate(Template):
    """`Template` for event loops: `create` in a thread."""

    @classmethod
    async def create(cls, name: str, steps: Sequence[Step | Mapping[str, Any]] = (), **options: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As `Template.create`. When this is cancelled, the build goes on to its end."""
        return cls(**vars(await run_sync(functools.partial(Template.create, name, steps, **options))))


class _Build:
    def __init__(
        self,
        found: Estate,
        name: str,
        source: ImageSource,
        network: Network,
        memory_mb: int | None,
        disk_mb: int | None,
        rebuild: bool,
        say: Callable[[str], object],
    ) -> None:
        self._found, self._rebuild, self._say = found, rebuild, say
        by_name = source == "host" or not isinstance(source, str) or "/" in source or os.path.lexists(source)
        options = base_of(found, source if by_name else None, None if by_name else str(source), None)
        base = options["image"]
        self._base = base
        self._image = Image(
            name=name,
            kind="template",
            layers=[Path(text).parent.name for text in base["layers"]],
            binds=[place for _, place in base["binds"]],
            keep=list(base["keep"]),
            env=dict(base["env"]),
            workdir=base.get("workdir", "/workspace"),
            user=options.get("user") or "",
            source=f"{base['name']} and steps",
        )
        self._rules = network_rules(network)
        self._draft = Draft(
            found,
            name="template",
            user="root",
            network=network,
            timeout_seconds=_LEFT_SECONDS,
            auto_delete_seconds=60,
            metadata={"template": name},
            memory_mb=memory_mb,
            disk_mb=disk_mb,
        )
        self._user = "root"

    def make(self, steps: list[Step]) -> Image:
        """All steps, then the image under its name."""
        for number, step in enumerate(steps, 1):
            self._say(f"[{number}/{len(steps)}] {_shown(step)}\n")
            match step:
                case EnvStep(name, value):
                    self._image.env = {**self._image.env, **checked_env("env", {name: value})}
                case UserStep(name):
                    self._user = self._image.user = checked_user(name) or ""
                case WorkdirStep(path):
                    self._image.workdir = checked_path(path, "workdir")
                    self._layer(number, ("workdir", path), lambda commands, files: files.make_dir(path))
                case CopyStep():
                    self._layer(number, ("copy", step.path, _digest(step)), functools.partial(_copy, step, self._user))
                case RunStep():
                    self._layer(number, ("run", step.command), functools.partial(self._run, number, step), self._user)
        self._image.made = 0.0
        return self._found.images.put(self._image)

    def _layer(
        self, number: int, what: tuple[str, ...], act: Callable[[Commands, Files], object], user: str = "root"
    ) -> None:
        """`user`: whose the machine is in which it is made: one of an ordinary user of the host knows no other."""
        image = self._image
        about = [
            what,
            image.layers,
            image.binds,
            dict(sorted(image.env.items())),
            image.workdir,
            self._user,
            repr(self._rules),
        ]
        digest = hashlib.sha256(json.dumps(about).encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST]
        name = f"step-{digest}"
        if self._rebuild:
            name = f"step-{hashlib.sha256(os.urandom(32)).hexdigest()[:_DIGEST]}"
        layers = self._found.layers
        if f"{name}-{layers.owners.key}" in layers:
            self._say("as before\n")
        layer = layers.made_once(
            name, lambda staging: self._made(staging, act, user), why=f"{image.name}, step {number}"
        )
        self._image.layers = [layer, *image.layers]

    def _made(self, staging: Staging, act: Callable[[Commands, Files], object], user: str) -> None:
        """Act in a machine, and take what it has written."""
        image, layers = self._image, self._found.layers
        root = Root(
            name=image.name,
            layers=tuple(map(layers.path, image.layers)),
            binds=tuple((source, place) for source, place in self._base["binds"]),
            keep=tuple(image.keep),
            env=image.env,
            workdir=image.workdir if image.workdir == self._base.get("workdir") else "/",
        )
        options = {**self._draft.record.options, "image": image_options(self._found.root, root), "user": user}
        box = self._draft.create(options=options)
        try:
            act(Commands(box), Files(box))
            box.channel.drop()
            self._found.take_files(box.id, staging.tree)
        finally:
            box.channel.drop()
            kill(box.id)

    def _run(self, number: int, step: RunStep, commands: Commands, files: Files) -> None:
        result = commands.run(
            step.command,
            cwd=self._image.workdir,
            user=self._user,
            timeout_seconds=checked_seconds("timeout_seconds", step.timeout_seconds),
            on_stdout=self._say,
            on_stderr=self._say,
        )
        if not result.ok:
            raise _failed(number, step, result)


def _failed(number: int, step: RunStep, result: CommandResult) -> TemplateBuildError:
    return TemplateBuildError(f"step {number} ({_shown(step)!r}) failed", result, step=number)


def _copy(step: CopyStep, user: str, commands: Commands, files: Files) -> None:
    source, path = Path(step.source), checked_path(step.path, "copy")
    if source.is_dir():
        files.upload_dir(source, path, user=user)
        return
    with source.open("rb") as file:
        files.write(
            path, iter(functools.partial(file.read, 1 << 20), b""), mode=source.stat().st_mode & 0o777, user=user
        )


def _digest(step: CopyStep) -> str:
    source = Path(step.source)
    try:
        if not source.is_dir():
            with source.open("rb") as file:
                return f"file {source.stat().st_mode & 0o777:o} {hashlib.file_digest(file, 'sha256').hexdigest()}"
        tree = open_folder(source)
    except OSError as error:
        raise ValidationError(f"`copy` names {str(source)!r}, which cannot be read: {error.strerror}") from error
    try:
        return digest_tree(tree)
    finally:
        os.close(tree)


def _steps(given: Sequence[Step | Mapping[str, Any]]) -> list[Step]:
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValidationError(f"`steps` must be a list of steps, not {given!r}")
    steps = list[Step]()
    for step in given:
        if isinstance(step, Mapping):
            steps += _of_mapping(step)
        elif isinstance(step, (RunStep, EnvStep, WorkdirStep, UserStep, CopyStep)):  # pyright: ignore[reportUnnecessaryIsInstance]
            steps.append(step)
        else:
            raise ValidationError(f"{step!r} is no step", hint='write RunStep("pip install numpy"), or {"run": …}')
    return steps


def _of_mapping(step: Mapping[str, Any]) -> list[Step]:
    if len(step) != 1 or next(iter(step)) not in _WORDS:
        raise ValidationError(f"{dict(step)!r} is no step", hint=f"write one of {', '.join(_WORDS)} and what it is for")
    ((word, value),) = step.items()
    if word == "env" and isinstance(value, Mapping):
        return [EnvStep(name, text) for name, text in checked_env("env", cast("Mapping[str, str]", value)).items()]
    values: list[Any] = list(cast("list[Any]", value)) if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(part, str) for part in values) or len(values) != (2 if word in ("env", "copy") else 1):
        raise ValidationError(
            f"{dict(step)!r} is no step", hint='as in {"run": "make"} and {"copy": ["./app", "/app"]}'
        )
    return [_WORDS[word](*values)]


def _shown(step: Step) -> str:
    match step:
        case RunStep(command):
            text = re.sub(r"\s+", " ", command.strip())
            return f"run {text if len(text) <= 100 else text[:99] + '…'}"
        case EnvStep(name):
            return f"env {name}"  # a value may be a secret
        case WorkdirStep(path):
            return f"workdir {path}"
        case UserStep(name):
            return f"user {name}"
        case CopyStep(source, path):
            return f"copy {os.fspath(source)} {path}"


def _checked_name(name: str) -> str:
    try:
        image_name(name)
    except (ValueError, TypeError) as error:
        raise ValidationError(str(error)) from error
    if name in _OURS:
        raise ValidationError(f"{name!r} is an image of gloveport itself", hint="take another name")
    return name


def _quiet(_: str) -> None:
    pass
