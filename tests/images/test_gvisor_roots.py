"""The one folder that is the root of a machine of gVisor: made of layers that a guest may have written, and kept while it is used."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gloveport.errors import SandboxError
from gloveport.machines.estate import Estate, image_options
from gloveport.machines.gvisor.bundle import AGENT, NET, RUN
from gloveport.machines.gvisor.roots import merged
from gloveport.machines.home import host_name, state_root
from gloveport.machines.images.trees import remove_tree
from gloveport.machines.registry import Record
from gloveport.machines.spec import Image


def _layer(tmp_path: Path) -> Path:
    layer = tmp_path / "guest" / "tree"
    layer.mkdir(parents=True)
    return layer


@pytest.mark.parametrize("at", [".gloveport", ".gloveport/run", ".gloveport/box", "usr"])
def test_links_of_an_image_are_not_followed_on_the_host(tmp_path: Path, at: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    victim.chmod(0o755)
    layer = _layer(tmp_path)
    (layer / at).parent.mkdir(exist_ok=True)
    (layer / at).symlink_to(victim)
    tree = merged(tmp_path / "state", Image(name="evil", layers=(layer,), binds=(("/usr/lib", "/usr/lib"),)))
    assert (stat.S_IMODE(victim.stat().st_mode), os.listdir(victim)) == (0o755, [])
    own = tree / ".gloveport"
    assert not own.is_symlink() and stat.S_IMODE(own.stat().st_mode) == 0o700
    for place in (RUN, NET):
        assert (tree / place[1:]).is_dir() and not (tree / place[1:]).is_symlink()
    assert (tree / AGENT[1:]).is_file() and not (tree / AGENT[1:]).is_symlink()
    if at != "usr":
        assert (tree / "usr/lib").is_dir()  # the control: places are made where no link is
    remove_tree(tmp_path / "state")


def test_what_is_kept_of_an_image_is_not_of_the_host(tmp_path: Path) -> None:
    """`runsc` opens it there."""
    layer = _layer(tmp_path)
    (layer / "usr").mkdir()
    (layer / "usr" / "local").symlink_to("/etc")
    with pytest.raises(SandboxError, match="no folder /usr/local"):
        merged(tmp_path / "state", Image(name="evil", layers=(layer,), keep=("/usr/local",)))
    (layer / "usr" / "local").unlink()
    (layer / "usr" / "local").mkdir()
    assert merged(tmp_path / "state", Image(name="good", layers=(layer,), keep=("/usr/local",))).is_dir()


def test_the_root_of_a_machine_is_in_use(tmp_path: Path) -> None:
    estate = Estate(state_root(tmp_path / "state"), {})
    layer = estate.root / "layers" / "base-1" / "tree"
    layer.mkdir(parents=True)
    image = Image(name="base", layers=(layer,))
    tree = merged(estate.root, image)
    record = Record(
        id="one",
        name="one",
        owner="",
        host=host_name(),
        driver="gvisor",
        created=0.0,
        metadata={},
        options={"image": image_options(estate.root, image)},
        timeout=None,
        idle=None,
        auto_delete=None,
        auto_resume=True,
    )
    estate.registry.add(record)
    estate.collect(everything=True, young=0)
    assert tree.is_dir() and layer.is_dir()
    estate.registry.end("one", "killed")
    assert tree.parent.name in estate.collect(everything=True, young=0)  # the control
    assert not tree.exists()
    estate.registry.close()
