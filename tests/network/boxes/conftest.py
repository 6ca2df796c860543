"""Boxes as the gateway sees them: sockets of a namespace, a supervisor that attaches them, a directory."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec
import pytest

from gloveport.egress.gateway.boxes.commands import Command
from gloveport.egress.gateway.boxes.journal import read_rows
from gloveport.egress.gateway.boxes.plans import PLAN_FILE, SECRETS_FILE, BoxPlan, write_file
from gloveport.egress.gateway.launching import DaemonClient, daemon_command
from gloveport.host.machines.network import network_rules
from gloveport.machines.images.host import host_image
from gloveport.machines.namespace.driver import NamespaceDriver
from gloveport.machines.spec import BoxSpec, Limits

from ...box.client import Connection

HERE = Path(__file__).parent
SOURCE = str(HERE.parents[2] / "src")
PLAIN_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}


class World:
    """A directory of state, and the daemon that belongs to it."""

    def __init__(self, folder, command):
        self.folder = folder
        self.root = str(folder / "state")
        self.command = command
        self.client = DaemonClient(self.root, command)
        self.seen = 0

    def reached(self):
        lines = (self.folder / "log").read_text().splitlines()
        new, self.seen = lines[self.seen :], len(lines)
        return [(line.split()[0], int(line.split()[1])) for line in new]

    def ask(self, do, **more):
        return self.client.ask(Command(do, **more))

    @property
    def pid(self):
        said = self.ask("status")
        return said.pid if said else None

    def kill(self):
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        return pid

    def close(self):
        said = self.ask("status")
        if said is not None:
            self.ask("end")
            for _ in range(500):
                if not Path(f"/proc/{said.pid}").exists():
                    break
                time.sleep(0.01)
            else:
                os.kill(said.pid, signal.SIGKILL)


class Box:
    """What a supervisor and the host do for a box, and a namespace in its place."""

    interpreter = sys.executable

    def __init__(self, world, name, network, *, watched=True, namespace=True, **plan):
        self.world, self.id = world, name
        self.folder = os.path.join(world.root, "boxes", name)
        os.makedirs(self.folder, mode=0o700)
        self.lock = self._locked()
        self.plan = BoxPlan(name, rules=network_rules(network), **plan)
        self.write()
        self.fds, self.guest, self.channel, self.errors = [], None, None, []
        self.hung_up = 0
        self.closed = threading.Event()
        if namespace:
            self._start(watched)
            self.attach()
            self._watch = threading.Thread(target=self._supervise, daemon=True)
            self._watch.start()

    def _locked(self):
        lock = os.open(os.path.join(self.folder, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def write(self):
        write_file(self.folder, PLAN_FILE, self.plan)

    def change(self, **what):
        """Writes another plan, and says so."""
        if "network" in what:
            what["rules"] = network_rules(what.pop("network"))
        self.plan = msgspec.structs.replace(self.plan, **what)
        self.write()
        said = self.world.client.ask(Command("load", self.id), start=True)
        assert not said.error, said.error

    def secrets(self, secrets):
        write_file(self.folder, SECRETS_FILE, secrets)

    def _start(self, watched):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        files = os.path.join(self.folder, "files")
        os.mkdir(files)
        self.guest = subprocess.Popen(
            [sys.executable, str(HERE / "box_guest.py"), str(theirs.fileno()), files, "watched" if watched else "not"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": SOURCE},
        )
        theirs.close()
        with ours:
            _, ancillary, _, _ = ours.recvmsg(16, socket.CMSG_LEN(4 * 64))
        self.fds = list(struct.unpack(f"{len(ancillary[0][2]) // 4}i", ancillary[0][2]))

    def attach(self):
        if self.channel is not None:
            self.channel.close()
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given = [theirs.fileno(), *self.fds]
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(given)}i", *given))]
        with theirs:
            for _ in range(100):
                with contextlib.suppress(FileNotFoundError, ConnectionError), self.world.client.connect() as sock:
                    sock.sendmsg([Path(self.folder, PLAN_FILE).read_bytes()], rights)
                    break
                subprocess.run(self.world.command, check=True)
        self.answer = json.loads(self.channel.recv(1 << 16) or b'{"error": "it hung up"}')

    def _supervise(self):
        """Attaches again whenever the gateway is gone."""
        while not self.closed.is_set():
            with contextlib.suppress(OSError):
                if self.channel.recv(4096):
                    continue
                self.hung_up += 1
            if self.closed.is_set():
                return
            try:
                subprocess.run(self.world.command, check=True)
                self.attach()
            except Exception as error:
                self.errors.append(error)
                time.sleep(0.05)

    def run(self, *argv, timeout=60, env=None, cwd="/"):
        """Code, stdout and stderr of a command in the box; a code of None if it took too long."""
        order = {"argv": argv, "timeout": timeout, "env": {**PLAIN_ENVIRONMENT, **(env or {})}, "cwd": str(cwd)}
        self.guest.stdin.write(json.dumps(order) + "\n")
        self.guest.stdin.flush()
        return tuple(json.loads(self.guest.stdout.readline()))

    def python(self, code, **more):
        return self.run(self.interpreter, "-I", "-c", code, **more)

    def put(self, name, content):
        """A file that the box can read: where it is there."""
        path = os.path.join(self.folder, name)
        Path(path).write_bytes(content)
        return path

    def curl(self, *arguments, **more):
        return self.run("curl", "-sS", "--max-time", "20", *arguments, **more)

    def rows(self, **wanted):
        """Those of its log, which says that something has ended a moment after its client knows."""
        for _ in range(100):
            found = read_rows(self.folder)
            rows = [row for row in found if all(getattr(row, name) == value for name, value in wanted.items())]
            if all(row.ended or row.kind == "connection" for row in rows):
                break
            time.sleep(0.01)
        return rows

    def close(self):
        self.closed.set()
        self.world.ask("close", box=self.id)
        if self.guest:
            self.channel.shutdown(socket.SHUT_RDWR)
            self._watch.join(10)
            self.channel.close()
            self.guest.stdin.close()
            self.guest.wait(10)
            self.guest.stdout.close()
        for fd in (*self.fds, self.lock):
            os.close(fd)


class RealBox(Box):
    """The box itself, by its program and its driver."""

    interpreter = "/usr/bin/python3"

    def _locked(self):
        return -1

    def _start(self, watched):
        assert watched
        image = host_image(Path(self.world.root))
        spec = BoxSpec(
            id=self.id,
            hostname="sandbox",
            image=image,
            limits=Limits(),
            env={},
            root=False,
            network=True,
            gateway_argv=tuple(self.world.command),
            gateway_socket=os.path.join(self.world.root, "gateway.sock"),
        )
        self.driver, self.spec = NamespaceDriver(), spec
        self.driver.start(Path(self.folder), self.driver.prepare(Path(self.folder), spec))

    def pause(self):
        self.driver.freeze(Path(self.folder))

    def resume(self):
        self.driver.thaw(Path(self.folder))

    def start_again(self):
        """From its files, as `connect` does when its processes have died."""
        self.driver.kill(Path(self.folder), "killed")
        self.driver.release(Path(self.folder))
        self.driver.start(Path(self.folder), self.driver.prepare(Path(self.folder), self.spec))

    def attach(self):
        """Its supervisor does."""

    def _supervise(self):
        """Its supervisor does."""

    @property
    def supervisor(self):
        said = Path(self.folder, "state").read_text().split()
        return int(dict(part.split("=", 1) for part in said)["supervisor"])

    def run(self, *argv, timeout=60, env=None, cwd="/tmp", **fields):  # noqa: S108
        variables = [f"{name}={value}" for name, value in {**PLAIN_ENVIRONMENT, **(env or {})}.items()]
        with Connection(Path(self.folder), timeout=timeout + 20) as agent:
            done = agent.run(*argv, cwd=str(cwd), env=variables, timeout_ms=timeout * 1000, **fields)
        code = None if done.get("timed_out") else done["exit_code"]
        return code, done["stdout"].decode("utf-8", "replace"), done["stderr"].decode("utf-8", "replace")

    def put(self, name, content):
        path = name if name.startswith("/") else f"/var/tmp/{name}"
        with Connection(Path(self.folder)) as agent:
            agent.write(path, content, user="root", parents=1, mode=0o644)
        return path

    def close(self):
        self.closed.set()
        if hasattr(self, "driver"):
            self.driver.kill(Path(self.folder), "killed")
            self.driver.release(Path(self.folder))
        self.world.ask("close", box=self.id)


@functools.cache
def boxes_start():
    """Whether there are boxes on this machine."""
    with tempfile.TemporaryDirectory(prefix="gloveport-test-") as folder:
        for name in ("boxes", "layers"):
            os.mkdir(os.path.join(folder, name), 0o700)
        return NamespaceDriver().probe(Path(folder)).isolation != "none"


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    pytest.importorskip("cryptography")
    from ...egress.conftest import Authority

    folder = tmp_path_factory.mktemp("authority")
    made = Authority(folder)
    made.folder = folder
    made.server_context("open.test", "other.test", "six.test", "wild.open.test", "files.test", "pypi.test")
    (folder / "authority.pem").write_text(made._pem(made._certificate))
    made.pem = folder / "authority.pem"
    made.server = folder / "open.test1.pem"
    return made


@pytest.fixture(scope="session")
def box_world(tmp_path_factory, request):
    """The daemon in a world where every address answers; session-wide."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs to be root, also of a user namespace: unshare -Urn python -m pytest")
    folder = Path(tempfile.mkdtemp(prefix="gloveport-test-"))
    (folder / "state").mkdir(mode=0o700)
    (folder / "log").touch()
    (folder / "served").mkdir()
    certificate, bundle = "", None
    with contextlib.suppress(pytest.skip.Exception):
        authority = request.getfixturevalue("authority")
        certificate, bundle = str(authority.server), str(authority.pem)
    names = {
        "files": ["files.test", "pypi.test"],
        "certificate": certificate,
        "directory": str(folder / "served"),
        "trusted": bundle,
    }
    (folder / "world.json").write_text(json.dumps(names))
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    try:
        command = [*daemon_command(str(folder / "state"), program="box_world", idle=30), str(folder)]
    finally:
        del sys.path[:2]
    world = World(folder, command)
    world.authority = request.getfixturevalue("authority") if certificate else None
    world.served = folder / "served"
    yield world
    world.close()
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture
def box(box_world):
    """Makes boxes."""
    made = []
    box_world.client.start()
    box_world.reached()

    def make(network, **more):
        real = more.get("watched", True) and more.get("namespace", True) and not more.pop("by_hand", False)
        kind = RealBox if real and boxes_start() else Box
        made.append(kind(box_world, f"b{time.monotonic_ns()}", network, **more))
        return made[-1]

    make.world = box_world
    yield make
    for one in made:
        one.close()
        subprocess.run(["rm", "-rf", one.folder], check=True)
