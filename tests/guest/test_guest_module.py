"""The cache of compiled modules, and what is refused from it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gloveport.engines.wasm import module as module_
from gloveport.engines.wasm.guest import Guest
from gloveport.engines.wasm.module import GuestModule
from gloveport.errors import EngineUnavailableError

from .driver import module


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gloveport"


@pytest.fixture
def compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cached file, made from the one of this machine: compiling again would take a second each time."""
    monkeypatch.undo()
    source = module_.cache_directory() / f"guest-{module_._key(module().sha256)}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    path = module_.cache_directory() / source.name
    path.write_bytes(source.read_bytes())
    path.chmod(0o600)
    return path


def test_compiling_fills_a_private_cache(cache: Path) -> None:
    with pytest.raises(EngineUnavailableError, match="not compiled"):
        GuestModule.load(compiled_only=True)
    GuestModule.load()
    (file,) = cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert cache.stat().st_mode & 0o777 == 0o700
    Guest(GuestModule.load(compiled_only=True), memory_limit=32 << 20).close()


@pytest.mark.parametrize("damage", ["truncated", "changed", "header", "garbage"])
def test_damaged_files_are_not_loaded(compiled: Path, damage: str) -> None:
    data = bytearray(compiled.read_bytes())
    GuestModule.load(compiled_only=True)
    if damage == "truncated":
        del data[-1:]
    elif damage == "changed":
        data[len(data) // 2] ^= 1
    elif damage == "header":
        data[0] ^= 1
    else:
        data = bytearray(b"\x7fELF")
    compiled.write_bytes(data)
    with pytest.raises(EngineUnavailableError, match="not compiled"):
        GuestModule.load(compiled_only=True)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_files_that_others_may_write_are_not_loaded(compiled: Path, mode: int) -> None:
    compiled.chmod(mode)
    with pytest.raises(EngineUnavailableError, match="not compiled"):
        GuestModule.load(compiled_only=True)


def test_links_are_not_followed(compiled: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    compiled.rename(elsewhere)
    compiled.symlink_to(elsewhere)
    with pytest.raises(EngineUnavailableError, match="not compiled"):
        GuestModule.load(compiled_only=True)


@pytest.mark.skipif(os.getuid() != 0, reason="needs another owner")
def test_files_of_others_are_not_loaded(compiled: Path) -> None:
    os.chown(compiled, 65534, 65534)
    with pytest.raises(EngineUnavailableError, match="not compiled"):
        GuestModule.load(compiled_only=True)


def test_a_directory_that_others_may_write_is_not_used(compiled: Path) -> None:
    compiled.parent.chmod(0o777)
    assert module_.cache_directory() != compiled.parent


def test_a_guest_that_is_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module_, "native_directory", lambda: tmp_path)
    with pytest.raises(EngineUnavailableError, match="hatch_build"):
        GuestModule.load()
    (tmp_path / "guest.wasm").write_bytes(b"x")
    (tmp_path / "guest.json").write_text('{"format": 2, "sha256": ""}')
    with pytest.raises(EngineUnavailableError, match="format 2"):
        GuestModule.load()
    (tmp_path / "guest.json").write_text('{"format": 1, "sha256": "00"}')
    with pytest.raises(EngineUnavailableError, match="do not belong together"):
        GuestModule.load()


def test_the_description_is_that_of_the_module() -> None:
    wasm = (module_.native_directory() / "guest.wasm").read_bytes()
    assert hashlib.sha256(wasm).hexdigest() == module().sha256
    assert (module_.native_directory() / "licences" / "quickjs-ng.txt").read_text().startswith("QuickJS")


def test_small_thread_stacks_mean_traps_not_crashes() -> None:
    """The native stack of a guest follows what the threads of this process have."""
    code = """
import resource, threading
resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
threading.stack_size(512 << 10)
from tests.guest.driver import Session
def work():
    with Session() as session:
        session.run("const f = () => 'a'.replace(/a/, f); try { f() } catch (e) { return e.name }")
        print(session.last.status)
thread = threading.Thread(target=work); thread.start(); thread.join()
"""
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(root / "src"), str(root), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() in ("0", "2"), done.stderr[-500:]
