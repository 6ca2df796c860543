"""Attacks on machines, as a program: for whoever runs it, with one driver. Prints what was said, as JSON.

`python3 runner.py DRIVER FOLDER`; the cases lie beside it. Nothing of the tests is imported: an ordinary user may not read them.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import socket
import subprocess
import sys
import threading
from pathlib import Path

PREFIX = "only-the-host-knows-"
SECRET = PREFIX + secrets.token_hex(8)
HERE = Path(__file__).parent


def load(path):
    """The head and the text of a case."""
    code = path.read_text("utf-8")
    return json.loads(code.partition("\n")[0].removeprefix("# ")), code


CASES = {f"{path.parent.name}/{path.stem}": load(path) for path in sorted(HERE.glob("*/*.py"))}


def plan(driver, user):
    """What is done in the machine that all share: pairs of a case and a function."""
    for name, (head, code) in CASES.items():
        if "limits" in head or not meant(head, driver, user):
            continue
        yield name, "attack"
        if "works" in head:
            yield name, "control"


def meant(head, driver, user):
    return (
        user in head.get("users", ("user", "root"))
        and driver in head.get("drivers", ("namespace", "gvisor"))
        and head.get("machine", platform.machine()) == platform.machine()
    )


class Host:
    """What is attacked: files, processes, sockets, and who came."""

    def __init__(self, folder):
        self.came = 0
        self.file = folder / "host.txt"
        self.file.write_text(SECRET)
        self.process = subprocess.Popen(["sleep", "600"])
        self.listeners = [socket.create_server(("127.0.0.1", 0))]
        self.abstract = f"gloveport-{secrets.token_hex(8)}"
        self.path = str(folder / "host.sock")
        for address in ("\0" + self.abstract, self.path):
            one = socket.socket(socket.AF_UNIX)
            one.bind(address)
            one.listen()
            self.listeners.append(one)
        for one in self.listeners:
            threading.Thread(target=self.accept, args=(one,), daemon=True).start()

    def accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                listener.accept()[0].close()
                self.came += 1

    def given(self):
        return {
            "file": str(self.file),
            "pid": self.process.pid,
            "port": self.listeners[0].getsockname()[1],
            "abstract": self.abstract,
            "socket": self.path,
            "prefix": PREFIX,
            "disk": os.stat("/").st_dev,
        }

    def well(self):
        """Whether nothing of it was touched."""
        return self.process.poll() is None and self.file.read_text() == SECRET and os.uname().nodename != "intruder"

    def close(self):
        self.process.kill()
        self.process.wait()
        for one in self.listeners:
            one.close()


def lines(text):
    """What was said, by case and function."""
    said = {}
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            name, function, told = json.loads(line)
            said.setdefault(name, {})[function] = told
    return said


def asked(pairs, given):
    pairs = list(pairs)
    return json.dumps({"files": {name: CASES[name][1] for name, _ in pairs}, "given": given, "plan": pairs})


def inside(sandbox, pairs, given, *, timeout=300):
    """Runs cases in a machine. Gives what they said, and the result of the command."""
    sandbox.files.write("/tmp/kit/kit.py", (HERE / "kit.py").read_text())
    sandbox.files.write("/tmp/kit/asked.json", asked(pairs, given))
    result = sandbox.commands.run(["python3", "-B", "/tmp/kit/kit.py", "/tmp/kit/asked.json"], timeout_seconds=timeout)
    return lines(result.stdout), result


def outside(folder, driver, given):
    """Runs attacks on the host, as whoever runs this: so they work where nothing is in their way."""

    def function(code):
        return "outside" if "\ndef outside" in code else "attack"

    pairs = [
        (name, function(code))
        for name, (head, code) in CASES.items()
        if "outside" in head
        and (head.get("as") != "root" or os.geteuid() == 0)
        and meant(head, driver, head.get("users", ["user"])[0])
    ]
    file = folder / "asked.json"
    file.write_text(asked(pairs, given))
    command = [sys.executable, "-B", str(HERE / "kit.py"), str(file)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return {name: next(iter(said.values())) for name, said in lines(done.stdout).items()}


def alone(driver, other, user, given):
    """Attacks that use up what a machine has: each in one of its own, which goes on afterwards."""
    from gloveport import GloveportError, Sandbox, SandboxGoneError

    said = {}
    for name, (head, _) in CASES.items():
        if "limits" not in head or not meant(head, driver, user):
            continue
        with Sandbox.create(driver=driver, user=user, **head["limits"]) as sandbox:
            told = inside(sandbox, [(name, "control")], given)[0].get(name, {})
            try:
                found, result = inside(sandbox, [(name, "attack")], given)
            except SandboxGoneError as error:
                said[name] = told | {"attack": f"gone {error.reason}"}
                continue
            told["attack"] = f"limit {result.limit}" if result.limit else found.get(name, {}).get("attack", "no answer")
            if head["limits"].keys() == {"memory_mb"} and told["attack"] == "SIGKILL":
                told["attack"] = (
                    "limit memory"  # whether the kernel takes the attacker, or who tells of it, is its choice
                )
            if "other" in head:
                told |= inside(other, [(name, "other")], given)[0].get(name, {})
            with contextlib.suppress(GloveportError):
                sandbox.commands.run("rm -rf /workspace/*")
            told["well"] = usable(sandbox)
        said[name] = told
    return said


def usable(sandbox):
    """Whether a machine still does what it is told, shortly after whatever happened to it."""
    for _ in range(20):
        with contextlib.suppress(Exception):
            if sandbox.commands.run("echo x >/workspace/f && cat /workspace/f").stdout == "x\n":
                return True
    return False


def shared(driver, user, host, state):
    """All other attacks, in one machine; what they leave is looked for in another."""
    from gloveport import Sandbox

    sleeps = f"600.{secrets.randbelow(10**6)}"
    with Sandbox.create(driver=driver, user=user) as own, Sandbox.create(driver=driver, user=user) as other:
        other.commands.start(["sleep", sleeps])
        boxes = state / "boxes"
        given = host.given() | {
            "sleeps": sleeps,
            "state": str(state),
            "own": str(boxes / own.id),
            "other": str(boxes / other.id),
        }
        given["agent"] = "agent.sock"
        said, result = inside(own, plan(driver, user), given)
        pairs = [
            (n, "other")
            for n, (head, _) in CASES.items()
            if "other" in head and "limits" not in head and meant(head, driver, user)
        ]
        for name, told in inside(other, pairs, given)[0].items():
            said[name] |= told
        came = host.came
        found = {
            "said": said | alone(driver, other, user, given),
            "stderr": result.stderr[-2000:],
            "came": came,
            "well": {"own": usable(own), "other": usable(other), "host": host.well()},
        }
        found["leaked"] = SECRET in json.dumps(found) or SECRET in result.stdout
        return found, given


def main():
    driver, folder = sys.argv[1], Path(sys.argv[2])
    state = folder / "state"
    os.environ |= {"GLOVEPORT_STATE": str(state), "GLOVEPORT_CANARY": SECRET}
    from gloveport import Sandbox

    has = Sandbox.capabilities(driver)
    if has.isolation == "none":
        print(json.dumps({"skipped": has.problem}))
        return
    host, told = Host(folder), {"capabilities": has.as_dict()}
    try:
        for user in ("user", "root"):
            host.came = 0
            told[user], given = shared(driver, user, host, state)
        # a machine that is there, for the controls
        with Sandbox.create(driver=driver) as one:
            one.commands.start(["sleep", given["sleeps"]])
            boxes = str(state / "boxes" / one.id)
            told["outside"] = outside(folder, driver, given | {"own": boxes, "other": boxes})
        told["left"] = sorted(os.listdir(state / "boxes"))
    finally:
        host.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
