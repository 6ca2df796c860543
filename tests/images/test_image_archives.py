"""Archives of strangers: what they hold stays inside, and what they claim is checked."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gloveport.machines.images.layers import LayerStore
from gloveport.machines.images.oci import import_archive
from gloveport.machines.images.owners import Owners
from gloveport.machines.images.trees import OPAQUE
from gloveport.machines.images.unpacking import ArchiveTooLargeError, unpack

OURS = Owners(None)


def _tar(*members: tuple[str, Any] | tarfile.TarInfo) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            name, content = member
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
            elif isinstance(content, bytes):
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content
                archive.addfile(info)
    return made.getvalue()


def _unpacked(tmp_path: Path, archive: bytes, **options: Any) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir(exist_ok=True)
    unpack(io.BytesIO(archive), tree, OURS, **options)
    return tree


@pytest.mark.parametrize(
    "members",
    [
        [("../../escaped", b"x")],
        [("/escaped", b"x")],
        [("link", (tarfile.SYMTYPE, "../..")), ("link/escaped", b"x")],
        [("link", (tarfile.SYMTYPE, "/")), ("link/escaped", b"x")],
        [("a", (tarfile.SYMTYPE, "b")), ("b", (tarfile.SYMTYPE, "../../..")), ("a/escaped", b"x")],
    ],
    ids=["parent", "absolute", "relative-link", "absolute-link", "chain"],
)
def test_nothing_is_written_outside(tmp_path: Path, members: list[Any]) -> None:
    tree = _unpacked(tmp_path, _tar(*members))
    assert (tree / "escaped").read_bytes() == b"x"  # the root of the tree is as far up as names go
    assert sorted(os.listdir(tmp_path)) == ["tree"]


def test_a_hard_link_takes_nothing_in(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    for target in ("../secret", str(tmp_path / "secret")):
        with pytest.raises(ValueError, match="no tar archive"):
            _unpacked(tmp_path, _tar(("stolen", (tarfile.LNKTYPE, target))))
    tree = _unpacked(tmp_path, _tar(("own", b"x"), ("linked", (tarfile.LNKTYPE, "own"))))
    assert (tree / "own").stat().st_nlink == 2


def test_a_file_in_place_of_a_link_does_not_write_through_it(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    tree = _unpacked(tmp_path, _tar(("file", (tarfile.SYMTYPE, str(victim))), ("file", b"new")))
    assert victim.read_text() == "kept"
    assert (tree / "file").read_bytes() == b"new"


def test_folders_that_are_links_stay_links(tmp_path: Path) -> None:
    tree = _unpacked(
        tmp_path, _tar(("usr/bin", None), ("bin", (tarfile.SYMTYPE, "usr/bin")), ("bin", None), ("bin/tool", b"x"))
    )
    assert (tree / "bin").is_symlink()
    assert (tree / "usr" / "bin" / "tool").read_bytes() == b"x"


def test_devices_are_left_out_and_modes_and_times_kept(tmp_path: Path) -> None:
    device = tarfile.TarInfo("null")
    device.type, device.devmajor, device.devminor = tarfile.CHRTYPE, 1, 3
    closed = tarfile.TarInfo("closed")
    closed.type, closed.mode, closed.mtime = tarfile.DIRTYPE, 0o555, 1000
    tree = _unpacked(tmp_path, _tar(device, closed, ("closed/file", b"x")))
    assert not (tree / "null").exists()
    assert stat.S_IMODE((tree / "closed").stat().st_mode) == 0o555
    assert (tree / "closed").stat().st_mtime == 1000


def test_whiteouts(tmp_path: Path) -> None:
    archive = _tar(("a/.wh.gone", b""), ("b/.wh..wh..opq", b""))
    tree = _unpacked(tmp_path, archive, whiteouts=True)
    assert stat.S_ISCHR((tree / "a" / "gone").lstat().st_mode)
    assert os.getxattr(tree / "b", OPAQUE) == b"y"
    plain = tmp_path / "plain"
    plain.mkdir()
    unpack(io.BytesIO(archive), plain, OURS)  # a root file system's own files may be called that
    assert (plain / "a" / ".wh.gone").is_file()
    with pytest.raises(ValueError, match="hides nothing"):
        _unpacked(tmp_path, _tar(("a/.wh...", b"")), whiteouts=True)


def test_limits(tmp_path: Path) -> None:
    bomb = _tar(("big", bytes(2 << 20)))
    with pytest.raises(ArchiveTooLargeError):
        _unpacked(tmp_path, bomb, max_bytes=1 << 20)
    _unpacked(tmp_path, bomb, max_bytes=2 << 20)
    for broken in (b"", b"not a tar", bomb[: 1 << 20]):
        with pytest.raises(ValueError, match="no tar archive"):
            _unpacked(tmp_path, broken)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only root gives files away")
def test_owners_are_shifted(tmp_path: Path) -> None:
    member = tarfile.TarInfo("file")
    member.uid, member.gid = 1000, 70000
    tree = tmp_path / "tree"
    tree.mkdir()
    unpack(io.BytesIO(_tar(member)), tree, Owners(1 << 20))
    status = (tree / "file").stat()
    assert (status.st_uid, status.st_gid) == ((1 << 20) + 1000, (1 << 20) + 65534)


# ── images ───────────────────────────────────────────────────────────────────────────────────────────────────────────

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _layout(folder: Path, layers: list[bytes], config: dict[str, Any], *, packed: bool = True) -> Path:
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return f"sha256:{digest}"

    diffs = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    written = [{"digest": put(gzip.compress(layer) if packed else layer)} for layer in layers]
    described = put(
        json.dumps({"os": "linux", "architecture": MACHINE, "rootfs": {"diff_ids": diffs}, **config}).encode()
    )
    manifest = put(json.dumps({"config": {"digest": described}, "layers": written}).encode())
    entry = {"digest": manifest, "platform": {"architecture": MACHINE, "os": "linux"}}
    other = {"digest": "sha256:" + "0" * 64, "platform": {"architecture": "s390x", "os": "linux"}}
    (folder / "index.json").write_text(json.dumps({"manifests": [other, entry]}))
    (folder / "oci-layout").write_text("{}")
    return folder


BASE = _tar(("bin", None), ("bin/sh", b"#!"), ("etc/old", b"x"))
TOP = _tar(("etc/.wh.old", b""), ("etc/new", b"y"))
CONFIG = {"config": {"Env": ["PATH=/opt/bin", "EMPTY="], "WorkingDir": "/srv", "User": "app"}}


@pytest.mark.parametrize("form", ["folder", "archive", "plain-layers", "docker"])
def test_an_image_of_another_tool(tmp_path: Path, form: str) -> None:
    source = _layout(tmp_path / "layout", [BASE, TOP], CONFIG, packed=form != "plain-layers")
    if form == "archive":
        source = _archived(source, tmp_path / "image.tar")
    if form == "docker":
        source = _docker(tmp_path)
    layers = LayerStore(tmp_path / "layers", OURS)
    image = import_archive(source, "imported:1", layers)
    assert image.env == {"PATH": "/opt/bin", "EMPTY": ""}
    assert (image.workdir, image.user) == ("/srv", "app")
    top, base = (layers.path(layer) for layer in image.layers)
    assert stat.S_ISCHR((top / "etc" / "old").lstat().st_mode)
    assert (base / "bin" / "sh").read_bytes() == b"#!"
    before = layers.ids()
    import_archive(source, "imported:2", layers)
    assert layers.ids() == before
    assert not [name for name in os.listdir(layers.folder) if name.startswith(".")]


def _archived(folder: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as archive:
        for part in sorted(folder.rglob("*")):
            archive.add(part, str(part.relative_to(folder)), recursive=False)
    return path


def _docker(tmp_path: Path) -> Path:
    folder = tmp_path / "docker"
    folder.mkdir()
    diffs = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in (BASE, TOP)]
    config = {"os": "linux", "architecture": MACHINE, "rootfs": {"diff_ids": diffs}, **CONFIG}
    (folder / "config.json").write_text(json.dumps(config))
    for i, layer in enumerate((BASE, TOP)):
        (folder / f"{i}.tar").write_bytes(layer)
    (folder / "manifest.json").write_text(json.dumps([{"Config": "config.json", "Layers": ["0.tar", "1.tar"]}]))
    return _archived(folder, tmp_path / "docker.tar")


def test_what_an_image_claims_is_checked(tmp_path: Path) -> None:
    layers = LayerStore(tmp_path / "layers", OURS)
    changed = _layout(tmp_path / "changed", [BASE], CONFIG)
    largest = max((changed / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes())  # control: the same content
    import_archive(changed, "a", layers)
    layers.remove(layers.ids()[0])
    for blob in list((changed / "blobs" / "sha256").iterdir()):
        content = blob.read_bytes()
        blob.write_bytes(gzip.compress(TOP) if content.startswith(b"\x1f\x8b") else content + b" ")
        with pytest.raises(ValueError, match="digest differs"):
            import_archive(changed, "a", layers)
        blob.write_bytes(content)
    assert layers.ids() == []
    foreign = _layout(tmp_path / "foreign", [BASE], {**CONFIG, "architecture": "s390x"})
    with pytest.raises(ValueError, match=f"this is linux/{MACHINE}"):
        import_archive(foreign, "b", layers)


@pytest.mark.parametrize("digest", ["sha256:../../../../etc/passwd", "md5:" + "0" * 32, "sha256:" + "0" * 64])
def test_digests_are_no_paths(tmp_path: Path, digest: str) -> None:
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "index.json").write_text(json.dumps({"manifests": [{"digest": digest}]}))
    with pytest.raises(ValueError, match="no SHA-256 digest|lacks"):
        import_archive(folder, "a", LayerStore(tmp_path / "layers", OURS))


def test_a_root_file_system(tmp_path: Path) -> None:
    layers = LayerStore(tmp_path / "layers", OURS)
    path = tmp_path / "root.tar.gz"
    path.write_bytes(gzip.compress(BASE))
    image = import_archive(path, "root", layers)
    assert (layers.path(image.layers[0]) / "bin" / "sh").is_file()
    path.write_bytes(_tar(("readme", b"x")))
    with pytest.raises(ValueError, match="no root file system"):
        import_archive(path, "root", layers)
    path.write_bytes(b"\x28\xb5\x2f\xfd....")
    with pytest.raises(ValueError, match="zstd"):
        import_archive(path, "root", layers)


SHAPES = [
    "null",
    "[]",
    "{}",
    "[[]]",
    '"x"',
    "1",
    "[null]",
    '{"manifests": {}}',
    '{"manifests": ["x"]}',
    '{"manifests": [{}]}',
]
SHAPES += [
    '{"manifests": [{"digest": 5}]}',
    '{"layers": 1, "config": {}}',
    '[{"Config": 5, "Layers": []}]',
    "[" * 100_000,
    "\xff",
]
SHAPES += [
    '[{"Config": "config.json", "Layers": [7]}]',
    '{"rootfs": [], "config": {}}',
    '{"config": {"Env": [1]}}',
    '{"rootfs": null}',
]


@pytest.mark.parametrize("where", ["index.json", "manifest.json", "config.json"])
@pytest.mark.parametrize("shape", SHAPES)
def test_documents_of_any_shape_are_refused(tmp_path: Path, where: str, shape: str) -> None:
    _docker(tmp_path)
    (tmp_path / "docker" / where).write_bytes(shape.encode("latin-1"))
    layers = LayerStore(tmp_path / "layers", OURS)
    with pytest.raises(
        ValueError, match=where.replace(".", r"\.") + "|no image|disagree|no manifest|has nothing|no SHA-256"
    ):
        import_archive(tmp_path / "docker", "a", layers)
    assert layers.ids() == []


def test_what_is_damaged_or_no_file_is_refused(tmp_path: Path) -> None:
    layers = LayerStore(tmp_path / "layers", OURS)
    large = _tar(("bin", None), ("bin/sh", hashlib.shake_128(b"").digest(50_000)))
    whole = gzip.compress(large)
    path = tmp_path / "root.tar.gz"
    for damaged in (whole[: len(whole) // 2], whole[:200] + b"\0" * 50 + whole[250:], whole[:12], b"", large[:9000]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged|can be read|no root"):
            import_archive(path, "root", layers)
    folder = _layout(tmp_path / "layout", [BASE], CONFIG)
    for blob in (folder / "blobs" / "sha256").iterdir():
        content = blob.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            blob.write_bytes(content[:-20])
            with pytest.raises(ValueError, match="damaged|digest differs|can be read"):
                import_archive(folder, "a", layers)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        import_archive(tmp_path / "pipe", "a", layers)
    assert layers.ids() == []
