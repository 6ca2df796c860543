"""`gloveport sandbox …`: machines on the command line. `exec` and `shell` end as the command did."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import EXIT_HOST, EXIT_OK, EXIT_USAGE
from .progress import Progress
from .telling import as_json, as_line

if TYPE_CHECKING:
    from ..host.machines.sync import Sandbox

__all__ = ("arguments", "run")


def arguments(verb: argparse.ArgumentParser) -> None:
    """Its command line."""
    verbs = verb.add_subparsers(dest="what", metavar="VERB", required=True)
    _create_arguments(verbs.add_parser("create", help="a new machine; prints its id"))
    listing = verbs.add_parser("list", help="machines, the oldest first")
    listing.add_argument("--status", action="append", choices=("active", "paused", "stopped"))
    listing.add_argument("--metadata", action="append", type=_pair, default=[], metavar="NAME=VALUE")
    listing.add_argument("--json", action="store_true")
    _exec_arguments(verbs.add_parser("exec", help="run a command; ends with its exit code"))
    shell = _of(verbs, "shell", "an interactive shell")
    shell.add_argument("--user")
    shell.add_argument("command", nargs="*", help="instead of /bin/bash or /bin/sh")
    for name, text in (
        ("info", "what is known of a machine"),
        ("pause", "stop all of it; its memory is kept"),
        ("resume", "let it go on; one that was stopped is started from its files"),
    ):
        _of(verbs, name, text)
    fork = _of(verbs, "fork", "machines with the files that this one has now; prints their ids")
    fork.add_argument("-n", type=int, default=1, help="how many (default 1)")
    kill = verbs.add_parser("kill", help="delete machines with their files")
    kill.add_argument("machines", nargs="+", metavar="ID")
    kill.add_argument("--json", action="store_true")
    logs = _of(verbs, "logs", "what was connected to; with --command what a command has written")
    logs.add_argument("--command", type=int, metavar="N", help="the number of a command (`ps`)")
    logs.add_argument("--limit", type=int, default=100)
    _of(verbs, "ps", "the commands that the machine knows")
    copy = verbs.add_parser("cp", help="copy files and directories: one of both is ID:/PATH")
    copy.add_argument("source")
    copy.add_argument("target")
    copy.add_argument("--user")
    copy.add_argument("--json", action="store_true")
    snapshot = _of(verbs, "snapshot", "a frozen copy of its files; prints its id")
    snapshot.add_argument("name", nargs="?")
    snapshot.add_argument("--template", action="store_true", help="as a template of that name, for `create --template`")
    prune = verbs.add_parser("prune", help="clean up: what died, and layers that nothing uses")
    prune.add_argument("--older-than", type=float, default=1.0, metavar="DAYS", help="of layers (default %(default)g)")
    prune.add_argument("--json", action="store_true")


def _of(verbs: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=text)
    parser.add_argument("machine", metavar="ID", help="its id, the beginning of it, or its name if no other has it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _create_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?")
    base = parser.add_mutually_exclusive_group()
    base.add_argument("--image", help="host (default), debian, or the path of an archive")
    base.add_argument("--template")
    base.add_argument("--snapshot")
    parser.add_argument("--user", help="who its commands are: `root`")
    parser.add_argument("--driver", help="namespace (default), or gvisor where `runsc` is installed")
    parser.add_argument(
        "--network", action="append", metavar="RULE", help="what may be reached; `internet`: all public hosts"
    )
    for name, kind in (("memory-mb", int), ("pids", int), ("cpus", float), ("disk-mb", int), ("open-files", int)):
        parser.add_argument(f"--{name}", type=kind)
    for name in ("timeout", "idle", "auto-delete"):
        parser.add_argument(f"--{name}", type=float, metavar="SECONDS")
    parser.add_argument("--env", action="append", type=_pair, default=[], metavar="NAME=VALUE")
    parser.add_argument("--metadata", action="append", type=_pair, default=[], metavar="NAME=VALUE")
    parser.add_argument("--json", action="store_true")


def _exec_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("machine", metavar="ID")
    parser.add_argument("--cwd")
    parser.add_argument("--user")
    parser.add_argument("--env", action="append", type=_pair, default=[], metavar="NAME=VALUE")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="then it is killed, and the exit code is 124")
    parser.add_argument("-i", "--stdin", action="store_true", help="it reads our standard input")
    parser.add_argument("--detach", action="store_true", help="start it, print its number (for `logs --command`)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of its output")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="program and arguments")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def run(options: argparse.Namespace) -> int:
    """Do it."""
    return _DOERS[options.what](options)


def _sandbox(text: str) -> Sandbox:
    """By id, its beginning, or name. It is not woken. Raises `SandboxNotFoundError`."""
    from ..errors import SandboxNotFoundError
    from ..host.machines.sync import Sandbox
    from ..machines.box import Box
    from ..machines.estate import estate

    found = estate()
    known = Sandbox.list()
    fits = [info.id for info in known if info.id == text] or [
        info.id for info in known if info.name == text or (len(text) > 4 and info.id.startswith(text))
    ]
    if len(fits) > 1:
        raise SandboxNotFoundError(f"{text!r} may be any of {', '.join(fits)}", hint="write more of the id")
    return Sandbox(Box(found, found.record(fits[0] if fits else text)))


def _create(options: argparse.Namespace) -> int:
    from ..host.machines.sync import Sandbox

    given: dict[str, Any] = {
        "image": options.image,
        "from_template": options.template,
        "from_snapshot": options.snapshot,
        "user": options.user,
        "driver": options.driver,
        "network": "internet" if options.network == ["internet"] else options.network,
        "idle_seconds": options.idle,
        "auto_delete_seconds": options.auto_delete,
        "timeout_seconds": options.timeout,
        "env_vars": dict(options.env),
        "metadata": dict(options.metadata),
    }
    limits = {name: getattr(options, name) for name in ("memory_mb", "pids", "cpus", "disk_mb", "open_files")}
    given |= {name: value for name, value in limits.items() if value is not None}
    if options.timeout is None:
        del given["timeout_seconds"]
    progress = Progress()
    try:
        sandbox = Sandbox.create(options.name, on_progress=progress, **given)
    finally:
        progress.close()
    return _print(options, _plain(sandbox.get_info()), sandbox.id)


def _list(options: argparse.Namespace) -> int:
    from ..host.machines.sync import Sandbox

    infos = Sandbox.list(status=options.status, metadata=dict(options.metadata))
    lines = [f"{i.id}  {i.status:7}  {i.created_at:%Y-%m-%d %H:%M}  {i.image}  {i.name}" for i in infos]
    return _print(options, [_plain(info) for info in infos], *(lines or ["no machines"]))


def _exec(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        print("gloveport: no command: gloveport sandbox exec ID -- COMMAND", file=sys.stderr)
        return EXIT_USAGE
    sandbox = _sandbox(options.machine)
    given: dict[str, Any] = {"cwd": options.cwd, "user": options.user, "env": dict(options.env)}
    if options.detach:
        started = sandbox.commands.start(command, timeout_seconds=options.timeout, **given)
        return _print(options, {"command": started.id, "pid": started.pid}, str(started.id))
    stdin = sys.stdin.buffer.read() if options.stdin else None
    if options.json:
        result = sandbox.commands.run(command, timeout_seconds=options.timeout, stdin=stdin, **given)
        print(as_json(dataclasses.asdict(result)))
    else:
        result = sandbox.commands.run(
            command, timeout_seconds=options.timeout, stdin=stdin, on_data=_copy_output, **given
        )
        if result.note:
            print(f"gloveport: {result.note}", file=sys.stderr)
    return result.exit_code


def _copy_output(piece: tuple[int, bytes]) -> None:
    out = sys.stdout if piece[0] == 1 else sys.stderr
    out.flush()
    out.buffer.write(piece[1])
    out.buffer.flush()


def _shell(options: argparse.Namespace) -> int:
    from .shell import interact

    return interact(_sandbox(options.machine), options.command, options.user)


def _info(options: argparse.Namespace) -> int:
    info = _plain(_sandbox(options.machine).get_info())
    return _print(options, info, *(f"{name}: {value}" for name, value in info.items() if value not in (None, "", {})))


def _pause(options: argparse.Namespace) -> int:
    sandbox = _sandbox(options.machine)
    sandbox.pause()
    return _print(options, {"id": sandbox.id, "status": "paused"}, sandbox.id)


def _resume(options: argparse.Namespace) -> int:
    sandbox = _sandbox(options.machine)
    sandbox.resume()
    if sandbox.found == "restarted":
        print("gloveport: it was started from its files: what was in memory is lost", file=sys.stderr)
    return _print(options, {"id": sandbox.id, "status": "active", "found": sandbox.found}, sandbox.id)


def _fork(options: argparse.Namespace) -> int:
    ids = [fork.id for fork in _sandbox(options.machine).fork(options.n)]
    return _print(options, ids, *ids)


def _kill(options: argparse.Namespace) -> int:
    from ..errors import SandboxNotFoundError

    killed, code = list[str](), EXIT_OK
    for text in options.machines:
        try:
            sandbox = _sandbox(text)
            sandbox.kill()
            killed.append(sandbox.id)
        except SandboxNotFoundError as error:
            print(f"gloveport: {error}", file=sys.stderr)
            code = EXIT_HOST
    _print(options, killed, *killed)
    return code


def _logs(options: argparse.Namespace) -> int:
    sandbox = _sandbox(options.machine)
    if options.command is not None:
        command = sandbox.commands.attach(options.command)
        for stream, text in command.output():
            print(text, end="", file=sys.stdout if stream == "stdout" else sys.stderr, flush=True)
        return command.wait().exit_code
    rows = [_plain(row) for row in reversed(sandbox.get_network_log(options.limit))]
    lines = [
        f"{_time(row['ts'])}  {row['verdict']:7}  {row['kind']}  {row['host']}:{row['port']}  {row['method']} {row['path']}"
        f"  {row['reason']}".rstrip()
        for row in rows
    ]
    return _print(options, rows, *lines)


def _ps(options: argparse.Namespace) -> int:
    infos = _sandbox(options.machine).commands.list()
    lines = [f"{i.id}  {i.state if i.exit_code is None else f'exited {i.exit_code}'}  {i.command}" for i in infos]
    return _print(options, [_plain(info) for info in infos], *lines)


def _cp(options: argparse.Namespace) -> int:
    (from_box, source), (to_box, target) = _place(options.source), _place(options.target)
    if (from_box is None) == (to_box is None):
        print("gloveport: one of both, and not both, must be in a machine: ID:/PATH", file=sys.stderr)
        return EXIT_USAGE
    if to_box is not None:
        _upload(_sandbox(to_box), Path(source), target, options.user)
    elif from_box is not None:
        _download(_sandbox(from_box), source, Path(target), options.user)
    return _print(options, {"source": options.source, "target": options.target})


def _place(text: str) -> tuple[str | None, str]:
    box, colon, path = text.partition(":")
    return (box, path) if colon and path.startswith("/") and "/" not in box else (None, text)


def _upload(sandbox: Sandbox, source: Path, target: str, user: str | None) -> None:
    from ..host.machines.files import pieces_of

    files = sandbox.files
    if target.endswith("/") or (files.exists(target, user=user) and files.stat(target, user=user).type == "directory"):
        target = f"{target.rstrip('/')}/{source.absolute().name}"
    if source.is_dir():
        files.upload_dir(source, target, user=user)
        return
    with source.open("rb") as file:
        files.write(target, pieces_of(file), mode=source.stat().st_mode & 0o777, user=user)


def _download(sandbox: Sandbox, source: str, target: Path, user: str | None) -> None:
    info = sandbox.files.stat(source, user=user)
    if target.is_dir():
        target = target / source.rstrip("/").rpartition("/")[2]
    if info.type == "directory":
        skipped = getattr(sandbox.files.download_dir(source, target, user=user), "skipped", ())
        for entry in skipped:
            print(f"gloveport: left out: {entry}", file=sys.stderr)
        return
    fresh = target.with_name(f".{target.name}.part")
    with fresh.open("wb") as file:
        for piece in sandbox.files.read_stream(source, user=user):
            file.write(piece)
    fresh.replace(target)


def _snapshot(options: argparse.Namespace) -> int:
    sandbox = _sandbox(options.machine)
    if options.template:
        sandbox.save_template(options.name or sandbox.name)
        return _print(options, {"template": options.name or sandbox.name}, options.name or sandbox.name)
    made = sandbox.snapshot(options.name)
    return _print(options, _plain(made), made.id)


def _prune(options: argparse.Namespace) -> int:
    from ..machines.estate import estate

    found = estate()
    machines, layers = found.sweep(), found.collect(everything=True, young=options.older_than * 86400)
    report = {"machines": machines, "layers": layers}
    return _print(options, report, f"removed {len(machines)} machines and {len(layers)} layers")


def _plain(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        data: Mapping[str, Any] = dataclasses.asdict(value)
    else:
        import msgspec

        data = msgspec.to_builtins(value)
    return {name: item.isoformat() if isinstance(item, dt.datetime) else item for name, item in data.items()}


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.timezone.utc).isoformat(timespec="seconds")


def _print(options: argparse.Namespace, data: Any, *lines: str) -> int:
    if options.json:
        print(as_json(data))
    else:
        for line in lines:
            print(as_line(line))
    return EXIT_OK


_DOERS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "create": _create,
    "list": _list,
    "exec": _exec,
    "shell": _shell,
    "info": _info,
    "pause": _pause,
    "resume": _resume,
    "fork": _fork,
    "kill": _kill,
    "logs": _logs,
    "ps": _ps,
    "cp": _cp,
    "snapshot": _snapshot,
    "prune": _prune,
}
