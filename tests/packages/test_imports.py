"""What a module may import, where it comes from, and in which version."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from gloveport.permissions import Packages

from .registry import just_now


def values(results: Any) -> list[Any]:
    return [result.value if result.ok else result.error for result in results]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("import h from 'npm:hello'; h.hello(1)", "hello 1"),
        ("import h from 'npm:hello@1.0.0'; h.version", "1.0.0"),
        ("import h from 'hello@^1.0.0'; h.version", "1.2.0"),
        ("import { hello } from 'hello'; hello(1)", "hello 1"),
        ("import { greet } from '@team/greet'; greet(1)", "greet 1"),
        ("import { greet } from 'npm:@team/greet@2'; greet(1)", "greet 1"),
        ("import o from 'outer'; o", "hello outer"),
        ("const { default: h } = await import('hello'); h.hello(2)", "hello 2"),
        ("import { sum } from 'jsr:@std/sums'; sum(1, 2, 3)", 6),
        ("import { sum } from 'jsr:@std/sums@0.3'; sum(1)", 1),
        ("import { a } from '%s/mods/a.ts'; a", 2),
        ("import d from '%s/mods/data.json' with { type: 'json' }; d.secret", 1),
        ("export { hello as run } from 'hello'", "hello undefined"),
        ("import type { X } from 'nothing-there'; 1", 1),
        ("import fs from 'fs'; typeof fs.readFileSync", "function"),
        ("import { join } from 'path/posix'; join('a', 'b')", "a/b"),
    ],
)
def test_imports(run: Any, packages: Any, registry: Any, source: str, value: Any):
    source = source.replace("%s", registry.url)
    (result,) = run(packages(), source)
    assert result.value == value, result.error


def test_without_the_option_nothing_is_fetched(run: Any, registry: Any):
    result, control = run(False, "import h from 'hello'; 1", "1 + 1")
    assert result.exit_reason == "refused" and "allow_package_imports" in result.error
    assert control.value == 2 and registry.asked == []


def test_what_is_known_is_not_asked_for_again(run: Any, packages: Any, registry: Any):
    allowed = packages()
    first, second = run(allowed, "import h from 'hello'; h.version", "import h from 'hello'; [h.version]")
    asked = len(registry.asked)
    (third,) = run(allowed, "import h from 'hello'; {h}; h.version")
    assert (first.value, second.value, third.value) == ("1.2.0", ["1.2.0"], "1.2.0")
    assert len(registry.asked) == asked > 0


def test_a_version_stays_what_it_was(run: Any, packages: Any, registry: Any):
    allowed = packages()
    run(allowed, "import h from 'hello'; 1")
    registry.npm("hello", "1.9.0", "module.exports = {version: '1.9.0'}")
    before, exact, after = run(
        allowed,
        "import h from 'hello'; h.version",
        "import h from 'hello@1.9.0'; h.version",
        "import h from 'hello'; h.version",
    )
    assert values([before, exact, after]) == ["1.2.0", "1.9.0", "1.2.0"]


def test_packages_fetched_later_do_not_spoil_earlier_ones(run: Any, packages: Any, registry: Any):
    allowed = packages()
    assert values(run(allowed, "import o from 'outer'; o")) == ["hello outer"]
    registry.npm("hello", "1.9.0", "module.exports = {hello: () => 'new', version: '1.9.0'}")
    assert values(run(allowed, "import h from 'hello@1.9.0'; h.version", "import o from 'outer'; o"))[0] == "1.9.0"
    assert run(allowed, "import o from 'outer'; o")[0].ok


@pytest.mark.parametrize("wanted", ["1", "1.x", "^1", "^1.0", "~1.2", "1.2.x", "^1.1.0", "*", "latest"])
def test_a_range_stays_what_it_was_however_it_is_written(
    run: Any, packages: Any, registry: Any, tmp_path: Path, wanted: str
):
    source = f"import h from 'hello@{wanted}'; h.version"
    assert values(run(packages(), source)) == ["1.2.0"]
    registry.npm("hello", "1.2.9", "module.exports = {version: '1.2.9'}")
    assert values(run(packages(), source)) == ["1.2.0"]
    assert values(run(packages(offline=True), source)) == ["1.2.0"]
    control = packages(cache=str(tmp_path / "other"))
    assert values(run(control, source)) == ["1.2.9"]


def test_a_version_that_is_too_young_is_not_taken(run: Any, packages: Any, registry: Any, tmp_path: Path):
    registry.npm("hello", "1.9.0", "module.exports = {version: '1.9.0'}", age=just_now())
    source = "import h from 'hello'; h.version"
    assert values(run(packages(), source)) == ["1.2.0"]
    assert values(run(packages(min_age=0, cache=str(tmp_path / "other")), source)) == ["1.9.0"]


def test_a_lock_holds_the_versions(run: Any, packages: Any, registry: Any, tmp_path: Path):
    first = packages(cache=str(tmp_path / "one"))
    run(first, "import h from 'hello'; 1")
    lock = tmp_path / "deno.lock"
    lock.write_bytes((tmp_path / "one" / "deno.lock").read_bytes())
    registry.npm("hello", "1.9.0", "module.exports = {version: '1.9.0'}")
    locked = packages(lock=str(lock), cache=str(tmp_path / "two"))
    known, unknown = run(locked, "import h from 'hello'; h.version", "import g from '@team/greet'; 1")
    assert known.value == "1.2.0", known.error
    assert unknown.exit_reason == "refused"
    assert json.loads(lock.read_bytes())["specifiers"] == {"npm:hello@*": "1.2.0"}, "nobody writes to it"


def test_a_tampered_package_is_refused(run: Any, packages: Any, registry: Any):
    registry.files["/npm/hello/-/hello-1.2.0.tgz"] = registry.files["/npm/hello/-/hello-1.0.0.tgz"]
    bad, control = run(packages(), "import h from 'hello'; 1", "import * as g from '@team/greet'; 1")
    assert bad.exit_reason == "refused" and control.value == 1


def test_offline(run: Any, packages: Any, registry: Any, tmp_path: Path):
    run(packages(), "import h from 'hello'; 1")
    registry.close()
    bundle = packages(offline=True)
    there, missing = run(bundle, "import h from 'hello'; h.version", "import g from '@team/greet'; 1")
    assert there.value == "1.2.0"
    assert missing.exit_reason == "refused" and "cache" in missing.error


def test_the_cache_has_a_limit(run: Any, packages: Any, registry: Any):
    """What there was no room for is not there: it would take the room of the next one."""
    registry.npm("large", "1.0.0", f"module.exports = 1 // {'x' * 300_000}")
    allowed = packages(max_bytes=250_000)
    before, refused, after, again = run(
        allowed,
        "import h from 'hello'; 1",
        "import l from 'large'; 1",
        "import { greet } from '@team/greet'; greet('x')",
        "import h from 'hello'; h.version",
    )
    assert before.ok, before.error
    assert refused.exit_reason == "refused" and "max_bytes" in refused.error
    assert (after.value, again.value) == ("greet x", "1.2.0")


def test_what_is_in_a_full_cache_can_be_imported(run: Any, packages: Any, registry: Any):
    registry.npm("large", "1.0.0", f"module.exports = 1 // {'x' * 200_000}")
    run(packages(), "import l from 'large'; l")
    known, refused = run(packages(max_bytes=200_000), "import l from 'large'; l", "import * as g from '@team/greet'; 1")
    assert known.value == 1, known.error
    assert refused.exit_reason == "refused" and "max_bytes" in refused.error


def test_a_small_archive_of_something_large_is_noticed(run: Any, packages: Any, registry: Any, tmp_path: Path):
    """50 MB of one letter are 50 KB on the way; no file of it is over the limit by itself."""
    registry.npm("bomb", "1.0.0", "module.exports = 1", parts={f"part{n}.txt": "x" * 5_000_000 for n in range(10)})
    refused, control = run(packages(max_bytes=20_000_000), "import b from 'bomb'; b", "1 + 1")
    assert refused.exit_reason == "refused" and "max_bytes" in refused.error and control.value == 2
    allowed = packages(cache=str(tmp_path / "larger"), max_bytes=200_000_000)
    assert run(allowed, "import b from 'bomb'; b")[0].value == 1


def test_an_address_that_is_not_public_has_to_be_named(run: Any, packages: Any, registry: Any):
    port = registry.url.rpartition(":")[2]
    by_name = {"npm_registry": f"http://localhost:{port}/npm/", "jsr_registry": f"http://localhost:{port}/jsr/"}
    (refused,) = run(packages(**by_name), "import h from 'hello'; 1")
    assert "Packages(private=" in refused.error and registry.asked == []


def test_who_waits_for_the_cache_does_not_wait_for_ever(run: Any, packages: Any, registry: Any, tmp_path: Path):
    impatient = packages(timeout=1, cache=str(tmp_path / "busy"))
    run(packages(cache=str(tmp_path / "busy")), "import h from 'hello'; 1")
    (lock,) = (tmp_path / "busy").glob("**/.lock")
    registry.npm("other", "1.0.0", "module.exports = 1")
    with open(lock, encoding="ascii") as held:  # as another process would
        fcntl.flock(held, fcntl.LOCK_EX)
        (refused,) = run(impatient, "import o from 'other'; o")
    assert refused.exit_reason == "refused" and "busy" in refused.error
    assert run(packages(cache=str(tmp_path / "busy")), "import o from 'other'; o")[0].value == 1


def test_a_registry_that_does_not_answer_has_a_deadline(run: Any, packages: Any, registry: Any):
    registry.delay = 3.0
    (late,) = run(packages(timeout=1), "import h from 'hello'; 1")
    registry.delay = 0.0
    (control,) = run(packages(timeout=30), "import h from 'hello'; 1")
    assert "within 1 s" in late.error and control.value == 1


@pytest.mark.parametrize(
    ("allow", "deny", "good", "bad"),
    [
        (["npm:hello"], [], "hello", "outer"),
        (["npm:@team/*"], [], "@team/greet", "hello"),
        (["npm:*"], ["npm:hello"], "@team/greet", "hello"),
        (["npm:*"], ["npm:@team/*"], "hello", "@team/greet"),
        (["jsr:@std/sums"], [], "jsr:@std/sums", "hello"),
        (["npm:*"], [], "hello", "jsr:@std/sums"),
    ],
)
def test_rules(run: Any, packages: Any, allow: list[str], deny: list[str], good: str, bad: str):
    allowed, refused = run(
        packages(allow=allow, deny=deny), f"import * as x from '{good}'; 1", f"import * as x from '{bad}'; 1"
    )
    assert allowed.value == 1, allowed.error
    assert refused.error_type == "ImportRefused" and refused.line == 1 and "may be imported" in refused.error


def test_what_does_not_exist_is_said(run: Any, packages: Any):
    missing, version = run(packages(), "\nimport x from 'nothing-there'; 1", "import h from 'hello@^7'; 1")
    assert "nothing-there" in missing.error and missing.exit_reason == "refused"
    assert "hello" in version.error and version.exit_reason == "refused"


@pytest.mark.parametrize(
    "options",
    [
        {"allow": "npm:*"},
        {"allow": ["lodash"]},
        {"allow": ["https://example.com"]},
        {"allow": ["npm:../x"]},
        {"allow": ["ftp://example.com/"]},
        {"allow": ["https://user@example.com/"]},
        {"min_age": -1},
        {"max_bytes": 0},
        {"timeout": 0},
        {"npm_registry": "registry.example"},
        {"private": ["nowhere"]},
    ],
    ids=str,
)
def test_rules_that_mean_nothing_are_refused(options: dict[str, Any]):
    with pytest.raises((TypeError, ValueError)):
        Packages(**options)


@pytest.mark.registry
def test_npm_itself(run: Any, tmp_path: Path):
    """The real registry, by whatever address this machine reaches it."""
    import socket

    tmp_path.chmod(0o755)
    address = socket.gethostbyname("registry.npmjs.org")
    allowed = Packages(cache=str(tmp_path / "cache"), private=[address])
    (result,) = run(allowed, "import { z } from 'npm:zod@3.25.76'; z.string().safeParse(5).success")
    assert result.value is False, result.error
