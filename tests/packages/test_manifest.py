"""`package.json` and `deno.lock`, read as if their authors were hostile."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.errors import PackageError
from gloveport.host.packages.lockfile import LockFile
from gloveport.host.packages.manifest import Manifest, inside
from gloveport.host.packages.ranges import noted


def exported(exports: Any, subpath: str = ".", *, require: bool = False) -> str | None:
    try:
        return Manifest({"name": "p", "exports": exports}).exported(subpath, require=require)
    except PackageError:
        return None


@pytest.mark.parametrize(
    ("exports", "subpath", "wanted"),
    [
        ("./a.js", ".", "a.js"),
        (["./a.js"], ".", "a.js"),
        ({"node": "./n.js", "default": "./a.js"}, ".", "a.js"),
        ({"module": "./m.js", "import": "./i.js"}, ".", "m.js"),
        ({"import": "./i.js", "browser": "./b.js"}, ".", "i.js"),  # the order is the package's
        ({"require": "./r.js"}, ".", None),
        ({"worker": {}, "browser": {"node": "./n.js"}, "default": "./a.js"}, ".", "a.js"),
        ({"browser": {"import": None}, "default": "./a.js"}, ".", None),
        ({"browser": [None], "default": "./a.js"}, ".", "a.js"),
        ({".": "./a.js"}, "./a.js", None),
        ({"./*": "./src/*.js", "./x/*": "./y/*.js", "./x/secret": None}, "./x/a", "y/a.js"),
        ({"./*": "./src/*.js", "./x/*": "./y/*.js", "./x/secret": None}, "./x/secret", None),
        ({"./*": "./src/*.js", "./x/*": None}, "./x/a", None),
        ({"./*.js": "./*.mjs", "./*": "./*"}, "./a.js", "a.mjs"),
        ({"./*.js": "./*.mjs"}, "./.js", None),
        ({"./*": "./*/*.js"}, "./a", "a/a.js"),
        ({"./f/": "./g/"}, "./f/a/b.js", "g/a/b.js"),
        ({"./f/": "./g/"}, "./f/", None),
        ({"./*": "./src/*"}, "./../../x", None),
        ({"./*": "./src/*"}, "./%2e%2e/x", None),
        ({"./*": "./src/*"}, "./a\\..\\x", None),
        ("./../a.js", ".", None),
        ("./a/../../b.js", ".", None),
        ("./node_modules/a.js", ".", None),
        ("./NODE_MODULES/a.js", ".", None),
        ("/etc/passwd", ".", None),
        ("file:///etc/passwd", ".", None),
        ("other", ".", None),
        (5, ".", None),
        ({}, ".", None),
        ({"./*": "./" + "*" * 2000}, "./" + "a" * 100, None),
        ({"./*": "./" + "*" * 5}, "./ab", "ababababab"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_exports(exports: Any, subpath: str, wanted: str | None):
    assert exported(exports, subpath) == wanted


def test_require_has_a_condition_of_its_own():
    assert exported({"import": "./i.js", "require": "./r.js"}) == "i.js"
    assert exported({"import": "./i.js", "require": "./r.js"}, require=True) == "r.js"


def test_depth_is_bounded():
    deep: Any = "./a.js"
    for _ in range(20):
        deep = {"default": deep}
    assert exported(deep) == "a.js"
    for _ in range(900):
        deep = {"default": deep}
    assert exported(deep) is None


@pytest.mark.parametrize(
    ("path", "plain"),
    [("a/./b.js", "a/b.js"), ("a/../b.js", "b.js"), ("./a", "a"), (".", ""), ("a/..", "")],
)
def test_paths_inside_of_a_package(path: str, plain: str):
    assert inside(path) == plain


@pytest.mark.parametrize("path", ["..", "../a", "a/../../b", "/a", "//a", "a%2f..", "%2e%2e/a", "a\\b", "a\0b"])
def test_paths_that_are_none(path: str):
    with pytest.raises(PackageError):
        inside(path)


@given(st.text(alphabet="./a%\\", max_size=20))
def test_no_path_leads_out(path: str):
    try:
        plain = inside(path)
    except PackageError:
        return
    assert not plain.startswith("/") and ".." not in plain.split("/")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
_FIELDS = st.sampled_from(["name", "exports", "imports", "browser", "main", "module", "sideEffects"])


@given(st.dictionaries(_FIELDS, _JSON) | _JSON, st.text(max_size=8))
def test_any_json_is_read(content: Any, text: str):
    manifest = Manifest(content)
    for call in (manifest.exported, manifest.imported):
        try:
            found = call(text, require=False)
        except PackageError:
            continue
        assert ".." not in found.split("/")
    assert isinstance(manifest.has_side_effects(text), bool)
    assert all(isinstance(main, str) for main in manifest.mains(require=True))
    said = manifest.in_browsers(text)
    assert said is None or said is False or isinstance(said, str)


@given(_JSON, st.text(max_size=8))
def test_any_lock_is_read(content: Any, key: str):
    whole = LockFile({"npm": content, "specifiers": content, "jsr": content, "remote": content, "redirects": content})
    with pytest.raises(PackageError):
        whole.npm(f"{key}/../x")
    assert all(isinstance(text, str) for text in whole.specifiers.values())


def test_dependencies_of_a_lock():
    content = {
        "specifiers": {"npm:a@1": "1.0.0_p@2.0.0"},
        "npm": {
            "a@1.0.0_p@2.0.0": {"integrity": "x", "dependencies": ["b", "c@2.0.0", "d@npm:b@1.0.0", "p"]},
            "b@1.0.0": {"optionalDependencies": ["absent", "c@1.0.0"]},
            "c@1.0.0": {},
            "c@2.0.0": {"integrity": "y"},
            "@s/p@1.0.0": {"integrity": "z"},
            "p@2.0.0": {"integrity": "z", "optionalPeers": ["@s/p"]},
        },
    }
    lock = LockFile(content)
    found = lock.npm_of("npm:a@1")
    assert (found.name, found.version) == ("a", "1.0.0")
    assert found.dependencies == {"b": "b@1.0.0", "c": "c@2.0.0", "d": "b@1.0.0", "p": "p@2.0.0"}
    assert lock.npm("p@2.0.0").dependencies == {"@s/p": "@s/p@1.0.0"}
    other = json.loads(json.dumps(content).replace('"y"', '"changed"'))
    assert lock.digest([found.key], []) == LockFile(content).digest([found.key], [])
    assert lock.digest([found.key], []) != LockFile(other).digest([found.key], [])
    assert lock.digest(["p@2.0.0"], []) == LockFile(other).digest(["p@2.0.0"], [])


@pytest.mark.parametrize(
    ("written", "in_lock", "same"),
    [
        *[(text, "1", True) for text in ("1", "1.x", "1.*", "1.X.x", "^1", "^1.0", "^1.0.0", "~1")],
        *[(text, "1.0", True) for text in ("1.0", "~1.0", "~1.0.0", "1.0.x")],
        *[("^0.9.0", "0.9", True), ("^0.0.3", "0.0.3", True), ("x", "*", True), ("^1.1", "^1.1.0", True)],
        *[("1", "1.0", False), ("^1.1", "1", False), ("latest", "1", False), ("*", "1", False), ("1", "latest", False)],
        *[("^1.1.0-beta.1", "^1.1.0", False), ("2", "1", False), ("^1.0", "1.0", False)],
    ],
)
def test_ranges_that_mean_the_same(written: str, in_lock: str, same: bool):
    found = noted(f"npm:@s/a@{written}", {f"npm:@s/b@{written}": "wrong", f"npm:@s/a@{in_lock}": "right"})
    assert found == ("right" if same else None)
