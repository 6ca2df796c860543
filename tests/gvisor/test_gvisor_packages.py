"""Programs that fetch, in machines of gVisor: by the proxy of their box, in the world of `tests/network/boxes`."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from gloveport.machines.gvisor.driver import GvisorDriver
from gloveport.machines.images.host import host_image
from gloveport.machines.spec import BoxSpec, Limits

from ..network.boxes.box_registries import TEXT, fill
from ..network.boxes.conftest import RealBox, authority, box_world  # noqa: F401
from ..network.boxes.test_box_packages import PLAIN, TLS, apt, base, curl, git, npm, pip  # noqa: F401


class GvisorBox(RealBox):
    """The same as `RealBox`, but for its driver."""

    def _start(self, watched):
        assert watched
        spec = BoxSpec(
            id=self.id,
            hostname="sandbox",
            image=host_image(Path(self.world.root)),
            limits=Limits(),
            env={},
            root=False,
            network=True,
            gateway_argv=tuple(self.world.command),
            gateway_socket=os.path.join(self.world.root, "gateway.sock"),
        )
        self.driver = GvisorDriver()
        self.driver.start(Path(self.folder), self.driver.prepare(Path(self.folder), spec))


@pytest.fixture(scope="module")
def boxes(box_world, runsc):  # noqa: F811
    """One for each set of rules: to start one takes a while."""
    if not (box_world.served / "simple").exists():
        fill(box_world.served)
    patch = pytest.MonkeyPatch()
    patch.setenv("GLOVEPORT_RUNSC", str(runsc))
    box_world.client.start()
    made = {}

    def make(*rules):
        if rules not in made:
            b = made[rules] = GvisorBox(box_world, f"b{time.monotonic_ns()}", list(rules), proxy=True)
            b.environment = {"HOME": "/home/user"}
            if box_world.authority:
                path = b.put("authority.pem", box_world.authority.pem.read_bytes())
                for name in ("PIP_CERT", "NPM_CONFIG_CAFILE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE"):
                    b.environment[name] = path
        b = made[rules]
        b.run("sh", "-c", "rm -rf /root/* /home/user/*", user="root")
        b.since = time.time()
        box_world.reached()
        return b

    yield make
    for b in made.values():
        b.close()
        subprocess.run(["rm", "-rf", b.folder], check=True)
    patch.undo()


def rows(b, verdict):
    return [row for row in b.rows(verdict=verdict) if row.ts >= b.since]


@pytest.mark.parametrize("program", [pip, npm, git, apt, curl])
def test_by_a_rule_for_the_domain(boxes, program, base):  # noqa: F811
    b = boxes(PLAIN, TLS)
    done, got = program(b, base)
    assert done[0] == 0, done
    assert got.strip() == TEXT
    assert {row.host for row in rows(b, "allowed")} == {"files.test"}
    assert rows(b, "blocked") == []


@pytest.mark.parametrize("program", [pip, npm, git, apt, curl])
def test_without_one_they_end_with_the_reason_in_the_log(boxes, program, base):  # noqa: F811
    b = boxes("other.test")
    done, got = program(b, base)
    assert done[0] not in (0, None), done  # None: it hung
    assert got.strip() != TEXT
    row = rows(b, "blocked")[0]
    assert row.host == "files.test"
    assert "network=['files.test:" in row.reason
    assert b.world.reached() == []
