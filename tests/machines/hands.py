"""Another process that uses machines: a JSON line in, one out. Run as a program."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
from pathlib import Path

SOURCE = str(Path(__file__).parents[2] / "src")


class Hand:
    """A process that does what it is told."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((SOURCE, *filter(None, sys.path)))},
        )

    def begin(self, do, *arguments, **options):
        print(json.dumps([do, arguments, options]), file=self.process.stdin, flush=True)

    def ready(self, seconds):
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def end(self):
        return json.loads(self.process.stdout.readline())

    def __call__(self, do, *arguments, **options):
        self.begin(do, *arguments, **options)
        return self.end()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)


def status(id):  # noqa: A002
    from gloveport import Sandbox

    return next((info.status for info in Sandbox.list() if info.id == id), "deleted")


def do(what, id, *more, **options):  # noqa: A002
    from gloveport import Sandbox
    from gloveport.machines.box import Box
    from gloveport.machines.estate import estate

    found = estate()
    if what == "attach":
        command = Sandbox.connect(id).commands.attach(*more)
        command.resize(33, 99)
        command.stdin.write("stty size; exit 5\n")
        result = command.wait(20)
        return [result.stdout, result.exit_code]
    if what == "status":
        return status(id)
    if what == "create":
        return Sandbox.create(**options).id
    if what == "connect":
        return Sandbox.connect(id).found
    if what == "kill":
        return Sandbox.kill_by_id(id)
    if what == "update":
        return Sandbox.update_by_id(id, **options)
    sandbox = Sandbox(Box(found, found.record(id)))
    if what == "pause":
        return sandbox.pause()
    if what == "resume":
        return sandbox.resume()
    if what == "run":
        return sandbox.commands.run(*more, **options).stdout
    raise AssertionError(what)


def storm(count, seed):
    """So many machines, each of which is used and deleted, one way or another. Gives how many commands said what they should."""
    from gloveport import Sandbox

    dice, fine = random.Random(seed), 0
    for number in range(count):
        sandbox = Sandbox.create(f"storm-{number}", memory_mb=64, pids=32)
        if dice.random() < 0.5:
            fine += sandbox.commands.run(["echo", str(number)]).stdout == f"{number}\n"
        else:
            fine += 1
        if dice.random() < 0.3:
            sandbox.pause()
        sandbox.kill()
    return fine


def fight(id, count, seed):  # noqa: A002
    """Whatever may be done with a machine that others fight for, but to kill it. Gives the errors that nobody may get."""
    from gloveport.errors import ConflictError, SandboxPausedError

    dice, wrong = random.Random(seed), []
    for number in range(count):
        what = dice.choice(["connect", "pause", "resume", "update", "run", "run", "status"])
        try:
            if what == "run":
                said = do("run", id, ["echo", str(number)])
                if said != f"{number}\n":
                    wrong.append(f"run gave {said!r}")
            elif what == "update":
                do("update", id, metadata={"by": str(seed)}, timeout_seconds=dice.choice([None, 100]))
            else:
                do(what, id)
        except (ConflictError, SandboxPausedError):
            pass
        except Exception as error:
            wrong.append(f"{what}: {type(error).__name__}: {error}")
    return wrong


def main():
    for line in sys.stdin:
        what, arguments, options = json.loads(line)
        try:
            result = {"storm": storm, "fight": fight}.get(what, None)
            value = result(*arguments, **options) if result else do(what, *arguments, **options)
            answer = {"ok": value}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
