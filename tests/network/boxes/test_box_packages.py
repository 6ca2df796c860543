"""Programs that fetch, inside of a box: they work by a rule for the domain, and say quickly what is wrong without one."""

from __future__ import annotations

import functools

import pytest

from .box_registries import NAME, TEXT, fill

PLAIN, TLS = "http://files.test:8000", "https://files.test:8001"


@pytest.fixture
def fetching(box):
    """A box with a rule for `files.test`, or for another host."""
    if not (box.world.served / "simple").exists():
        fill(box.world.served)

    def make(*rules):
        b = box(list(rules) or [PLAIN, TLS])
        if b.interpreter != "/usr/bin/python3":
            pytest.skip("needs boxes")
        b.environment = {"HOME": "/home/user"}
        if box.world.authority:
            path = b.put("authority.pem", box.world.authority.pem.read_bytes())
            for name in ("PIP_CERT", "NPM_CONFIG_CAFILE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE"):
                b.environment[name] = path
        return b

    make.world = box.world
    return make


def has(b, program):
    if b.run("sh", "-c", f"command -v {program}")[0]:
        pytest.skip(f"needs {program}")


@pytest.fixture(params=[PLAIN, TLS])
def base(request, box_world):
    if request.param == TLS and not box_world.authority:
        pytest.skip("needs cryptography")
    return request.param


def pip(b, base):
    has(b, "pip3")
    folder = "/home/user/found"
    more = ["--trusted-host", "files.test"] if base == PLAIN else []
    command = ["pip", "install", "-q", "--no-input", "--target", folder, "-i", f"{base}/simple/", *more, NAME]
    done = b.run("/usr/bin/python3", "-m", *command, env=b.environment)
    return done, b.python(f"import sys; sys.path.append({folder!r}); import hello_box; print(hello_box.TEXT)")[1]


def npm(b, base):
    has(b, "npm")
    registry = f"{base}/npm/{'plain' if base == PLAIN else 'tls'}/"
    made = "mkdir -p /home/user/npm && cd /home/user/npm && echo '{}' > package.json"
    install = f"{made} && npm install --no-audit --no-fund --loglevel=error --registry={registry} {NAME}"
    done = b.run("sh", "-c", install, env=b.environment)
    return done, b.run("node", "-p", f"require('/home/user/npm/node_modules/{NAME}')")[1]


def git(b, base):
    has(b, "git")
    done = b.run("git", "clone", "-q", f"{base}/git/hello.git", "/home/user/hello", env=b.environment)
    return done, b.run("cat", "/home/user/hello/hello")[1]


def apt(b, base):
    has(b, "apt-get")
    options = (
        "-o Dir::State=/root/s -o Dir::Cache=/root/c -o Dir::Etc::SourceList=/root/list -o Dir::Etc::SourceParts=- "
        "-o Dir::State::Status=/root/status -o APT::Sandbox::User=root -o Acquire::https::CaInfo=$CURL_CA_BUNDLE"
    )
    made = f"mkdir -p s/lists/partial c/archives/partial && touch status && echo 'deb [trusted=yes] {base}/debian ./' > list"
    fetch = f"cd /root && {made} && apt-get -q {options} update && apt-get -q {options} download {NAME}"
    done = b.run("sh", "-c", f"{fetch} && dpkg-deb -x {NAME}_1.0_all.deb out", env=b.environment, user="root")
    return done, b.run("cat", "/root/out/usr/share/hello-box/hello", user="root")[1]


def curl(b, base):
    done = b.curl("-f", "-o", "/home/user/hello", f"{base}/git/work/hello", env=b.environment)
    return done, b.run("cat", "/home/user/hello")[1]


@pytest.mark.parametrize("program", [pip, npm, git, apt, curl])
def test_by_a_rule_for_the_domain(fetching, program, base):
    b = fetching()
    done, got = program(b, base)
    assert done[0] == 0, done
    assert got.strip() == TEXT
    assert {row.host for row in b.rows(verdict="allowed")} == {"files.test"}
    assert b.rows(verdict="blocked") == []


SHOWN = {
    pip: (
        "/usr/bin/python3",
        "-c",
        "import sys; sys.path.append('/home/user/found'); import hello_box; print(hello_box.TEXT)",
    ),
    npm: ("node", "-p", f"require('/home/user/npm/node_modules/{NAME}')"),
    git: ("sh", "-c", "cd /home/user/hello && git status --porcelain && git log --oneline >/dev/null && cat hello"),
    apt: ("cat", "/root/out/usr/share/hello-box/hello"),
}


@pytest.mark.parametrize("program", list(SHOWN))
def test_what_was_installed_is_there_after_pauses_and_a_restart(fetching, program):
    b = fetching()
    shown = functools.partial(b.run, *SHOWN[program], **({"user": "root"} if program is apt else {}))
    has(b, SHOWN[program][0])
    assert shown()[1].strip() != TEXT  # the control
    assert program(b, PLAIN)[0][0] == 0
    for _ in range(2):
        b.pause()
        b.resume()
        assert shown()[1].strip() == TEXT
    b.start_again()
    assert shown()[1].strip() == TEXT
    assert b.curl("-f", f"{PLAIN}/git/work/hello")[1].strip() == TEXT  # and its network


@pytest.mark.parametrize("program", [pip, npm, git, apt, curl])
def test_without_one_they_end_with_the_reason_in_the_log(fetching, program, base):
    b = fetching("other.test")
    done, got = program(b, base)
    assert done[0] not in (0, None), done  # None: it hung
    assert got.strip() != TEXT
    row = b.rows(verdict="blocked")[-1]
    assert row.host == "files.test"
    assert "network=['files.test:" in row.reason
    assert fetching.world.reached() == []
