"""Layers and manifests under several processes, and after some that died."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from gloveport.machines.images.collection import collect
from gloveport.machines.images.layers import LayerStore, Staging
from gloveport.machines.images.manifests import Image, ImageStore, image_name
from gloveport.machines.images.owners import Owners
from gloveport.machines.images.trees import open_folder


def _store(tmp_path: Path) -> LayerStore:
    return LayerStore(tmp_path / "layers", Owners(None))


def test_the_same_content_is_one_layer(tmp_path: Path) -> None:
    store = _store(tmp_path)
    made: list[str] = []
    for text in ("a", "a", "b"):
        with store.staging() as staging:
            (staging.tree / "file").write_text(text)
            made.append(store.commit(staging, source="test"))
    assert made[0] == made[1] != made[2]
    assert store.ids() == [made[0], made[2]]
    about = store.about(made[0])
    assert about["entries"] == 1 and about["source"] == "test"
    assert sorted(os.listdir(store.folder)) == sorted({*made})


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    store = _store(tmp_path)
    with pytest.raises(RuntimeError, match="no"), store.staging() as staging:
        (staging.tree / "file").touch()
        raise RuntimeError("no")
    assert os.listdir(store.folder) == []


def test_made_once_by_several_at_the_same_time(tmp_path: Path) -> None:
    store = _store(tmp_path)
    barrier = threading.Barrier(4)
    ids: list[str] = []

    def make(staging: Staging) -> None:
        (staging.tree / "file").touch()
        barrier.wait(10)

    threads = [threading.Thread(target=lambda: ids.append(store.made_once("skeleton-1", make))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 1 and len(ids) == 4
    assert os.listdir(store.folder) == [ids[0]]
    assert store.made_once("skeleton-1", lambda _: pytest.fail("it is there")) == ids[0]


def test_the_sweep_takes_only_what_makers_have_left(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.folder.mkdir()
    for name, age in ((".staging-old", 1000), (".staging-new", 0), (".staging-held", 1000)):
        folder = store.folder / name
        folder.mkdir()
        stamp = folder.stat().st_mtime - age
        os.utime(folder, (stamp, stamp))
    held = os.open(store.folder / ".staging-held", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert store.sweep() == 1
    assert sorted(os.listdir(store.folder)) == [".staging-held", ".staging-new"]
    os.close(held)
    assert store.sweep() == 1


def test_a_tree_is_adopted_or_copied(tmp_path: Path) -> None:
    store = _store(tmp_path)
    upper = tmp_path / "upper"
    upper.mkdir()
    (upper / "file").write_text("x")
    folder = open_folder(upper)
    copied = store.put_copy(folder, machine="m-1")
    os.close(folder)
    adopted = store.adopt(upper)
    assert not upper.exists()
    for layer in (copied, adopted):
        assert (store.path(layer) / "file").read_text() == "x"
    store.remove(adopted)
    store.remove(adopted)
    assert store.ids() == [copied]
    for wrong in ("../x", "", "a/b"):
        with pytest.raises(ValueError, match="no id"):
            store.path(wrong)


def test_images_by_name(tmp_path: Path) -> None:
    images = ImageStore(tmp_path / "images")
    assert images.get("none") is None
    images.put(Image(name="team/tools:1.2", layers=["a"], env={"A": "1"}))
    images.put(Image(name="snap", kind="snapshot", layers=["b", "a"], machine="m-1"))
    images.put(Image(name="snap", kind="snapshot", layers=["c", "a"], machine="m-1"))
    assert [image.name for image in images.all()] == ["team/tools:1.2", "snap"]
    snap = images.get("snap")
    assert snap is not None and snap.layers == ["c", "a"] and snap.made > 0
    assert [image.name for image in images.all("snapshot")] == ["snap"]
    assert images.remove("snap") and not images.remove("snap")
    (images.folder / "broken.json").write_text("{")
    assert [image.name for image in images.all()] == ["team/tools:1.2"]


@pytest.mark.parametrize("name", ["", "Upper", "../x", "a..b", "/a", "a/", "a b", "x" * 300, "a:b:c", "é"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="no name of an image"):
        image_name(name)


def test_owners() -> None:
    shifted = Owners(1000, 10)
    assert [shifted.outside(uid) for uid in (0, 9, 10, -1)] == [1000, 1009, 66534, 66534]
    assert [shifted.inside(uid) for uid in (1000, 1009, 1010, 0)] == [0, 9, 65534, 65534]
    assert Owners(None).outside(5) == -1
    assert Owners(None).key != shifted.key


def test_collecting_what_nothing_uses(tmp_path: Path) -> None:
    store, images = _store(tmp_path), ImageStore(tmp_path / "images")
    ids: list[str] = []
    for text in "abc":
        with store.staging() as staging:
            (staging.tree / "file").write_text(text)
            ids.append(store.commit(staging))
    images.put(Image(name="kept", layers=[ids[0]]))
    assert collect(store, images, [ids[1]]) == []  # it is young
    assert collect(store, images, [ids[1]], young=0) == [ids[2]]
    assert store.ids() == ids[:2]
    images.remove("kept")
    assert sorted(collect(store, images, [], young=0)) == sorted(ids[:2])
