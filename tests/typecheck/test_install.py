"""Fetching the compiler, finding it again, and doing without."""

from __future__ import annotations

import os
import stat

import pytest

from gloveport import AgentSandbox, TypeCheckUnavailableError
from gloveport.cli import main
from gloveport.engines.checker import install


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gloveport"


@pytest.mark.registry
def test_it_is_fetched_once_and_found_without_the_registry(elsewhere, monkeypatch, capsys):
    assert install.find() is None
    assert main(["install", "typecheck"]) == 0
    assert "fetching" in capsys.readouterr().out
    monkeypatch.setattr(install, "_fetch", lambda work: pytest.fail("it was fetched again"))
    assert main(["install", "typecheck"]) == 0
    assert install.require().program.is_file()
    assert sorted(path.name for path in elsewhere.iterdir()) == [install.require().folder.name]


@pytest.mark.registry
def test_another_content_is_refused(elsewhere, monkeypatch):
    wrong = dict.fromkeys(install._INTEGRITY, "sha512-" + "A" * 86 + "==")
    monkeypatch.setattr(install, "_INTEGRITY", wrong)
    with pytest.raises(TypeCheckUnavailableError, match="could not be fetched"):
        install.install(lambda text: None)
    assert install.find() is None
    assert list(elsewhere.iterdir()) == []


@pytest.mark.registry
def test_a_program_that_was_changed_is_not_started(elsewhere):
    compiler = install.install(lambda text: None)
    install._verified.cache_clear()
    with open(compiler.program, "r+b") as file:
        file.seek(1000)
        file.write(b"changed")
    assert install.find() is None
    with pytest.raises(TypeCheckUnavailableError, match="gloveport install typecheck"):
        install.require()
    assert install.install(lambda text: None).program.is_file()


@pytest.mark.registry
def test_one_that_others_may_write_is_not_started(elsewhere):
    compiler = install.install(lambda text: None)
    install._verified.cache_clear()
    compiler.folder.chmod(0o777)
    assert install.find() is None
    compiler.folder.chmod(0o755)
    assert install.find() is not None


@pytest.mark.registry
def test_prune(elsewhere, capsys):
    folder = install.install(lambda text: None).folder
    old = elsewhere / "typecheck-6.0.0-linux-x64"
    old.mkdir()
    assert main(["prune"]) == 0
    assert (folder.exists(), old.exists()) == (True, False)
    assert main(["prune", "--typecheck", "--dry-run"]) == 0
    assert folder.exists()
    assert main(["prune", "--typecheck"]) == 0
    assert not folder.exists()
    assert str(folder) in capsys.readouterr().out


def test_only_who_asks_for_it_needs_it(elsewhere):
    with AgentSandbox({}, isolation="inline") as session:
        assert session.run("return 1") == 1
        with pytest.raises(TypeCheckUnavailableError, match="run `gloveport install typecheck`"):
            session.check("return 1")
    for mode in ("warn", "block"):
        with pytest.raises(TypeCheckUnavailableError, match="run `gloveport install typecheck`"):
            AgentSandbox({}, isolation="inline", typecheck=mode)


def test_a_platform_without_it(elsewhere, monkeypatch):
    monkeypatch.setattr(install.platform, "machine", lambda: "riscv64")
    with pytest.raises(TypeCheckUnavailableError, match="only on linux-x64"):
        install.install()
    assert install.find() is None


@pytest.fixture
def private_umask():
    before = os.umask(0o077)
    yield
    os.umask(before)


def modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}


def fetched(work):
    """What the client of the registry leaves under a private umask."""
    (work / "made" / "lib").mkdir(parents=True)
    (work / "made" / "lib" / "tsc").write_text("the program")
    (work / "made" / "lib" / "lib.d.ts").write_text("declarations")
    (work / "made" / "link").symlink_to("/etc/passwd")
    return work / "made"


READABLE = {"lib": 0o755, "tsc": 0o755, "lib.d.ts": 0o644, install._NOTE: 0o644}


def test_every_user_can_read_what_was_installed_under_a_private_umask(elsewhere, private_umask, monkeypatch):
    monkeypatch.setattr(install, "_fetch", fetched)
    passwd = os.stat("/etc/passwd").st_mode
    folder = install.install(lambda text: None).folder
    (folder / "link").unlink()
    assert modes(folder) == {folder.name: 0o755, **READABLE}
    assert os.stat("/etc/passwd").st_mode == passwd


def test_what_was_installed_so_before_is_mended(elsewhere, monkeypatch):
    monkeypatch.setattr(install, "_fetch", fetched)
    folder = install.install(lambda text: None).folder
    (folder / "link").unlink()
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700 if path.is_dir() or path.name == "tsc" else 0o600)
    install._verified.cache_clear()
    assert install.find() is not None
    assert modes(folder) == {folder.name: 0o755, **READABLE}
