"""Debian, made of its packages: fetched and verified by this system's own `apt-get`, unpacked by us.

What `dpkg` does after unpacking (the packages' own scripts) runs in a machine afterwards (`CONFIGURE`), never on the host.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Final

from .layers import LayerStore, Staging
from .owners import Owners
from .trees import give_tree, open_folder
from .unpacking import unpack

__all__ = ("CONFIGURE", "DEFAULT_PACKAGES", "unpacked_layer")

DEFAULT_PACKAGES: Final = (
    "apt",
    "ca-certificates",
    "curl",
    "git",
    "less",
    "procps",
    "python3",
    "python3-pip",
    "python3-venv",
)
"""Beside Debian's essential ones."""

CONFIGURE: Final = (
    "export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
    # Services are not started: there is no init (Debian policy, 9.3.3.1).
    "printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d\n"
    # Twice: a package may need one that comes after it.
    "dpkg --force-depends --configure -a || dpkg --force-depends --configure -a\n"
)
"""A shell script that ends the installation, for a machine's root."""

_TIMEOUT: Final = 900
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9+.-]+(?::[a-z0-9-]+)?(?:=[A-Za-z0-9.+~:-]+)?")
_LINKS: Final = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")
_USER: Final = ("user:x:1000:1000:user:/home/user:/bin/bash\n", "user:x:1000:\n")
Said = Callable[[str], None]


def unpacked_layer(
    layers: LayerStore, packages: Sequence[str] = DEFAULT_PACKAGES, *, sources: str = "", say: Said = lambda _: None
) -> str:
    """A layer with Debian's essential packages and `packages`, unpacked and not yet configured.

    `sources`: where from, as the text of a `.sources` file (sources.list(5)); by default what this system's own release is fetched
    from. Takes as long as the downloads, and some seconds; the same versions of the same packages are unpacked once. Raises
    `FileNotFoundError` where there is no `apt-get`, and `RuntimeError` with what it said when it fails.
    """
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise FileNotFoundError(
                f"a Debian image is made with this system's `{program}`, which is missing: import a root file system instead"
            )
    for package in packages:
        if not _NAME.fullmatch(package):
            raise ValueError(f"{package!r} is no name of a Debian package")
    text = sources or _own_sources()
    with tempfile.TemporaryDirectory(prefix="gloveport-debian-") as scratch:
        archives = _download(Path(scratch), text, packages, say)
        name = hashlib.sha256("\n".join([text, *(path.name for path in archives)]).encode()).hexdigest()[:32]

        def make(staging: Staging) -> None:
            _unpack_all(archives, staging.tree, layers.owners, text, say)

        return layers.made_once(f"debian-{name}", make, source=f"{len(archives)} Debian packages")


def _own_sources(folder: Path = Path("/etc/apt"), release: Path = Path("/etc/os-release")) -> str:
    """The sources of this system's own release, without those that others have added."""
    names = _pairs(release.read_text("utf-8").splitlines())
    codename = names.get("VERSION_CODENAME", "").strip('"')
    found: list[str] = []
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    for path in (path for path in files if path.is_file()):
        text = path.read_text("utf-8", "replace")
        if path.suffix == ".sources":
            found += [part.strip() for part in re.split(r"\n\s*\n", text) if _is_of(part, codename)]
        else:
            found += [stanza for line in text.splitlines() if (stanza := _stanza(line, codename))]
    if not codename or not found:
        raise RuntimeError(
            "this system's package sources name no release of its own: give `sources`, the text of a .sources file (sources.list(5))"
        )
    return "\n\n".join(found) + "\n"


def _is_of(stanza: str, codename: str) -> bool:
    fields = _fields(stanza)
    suites = fields.get("Suites", "").split()
    return "deb" in fields.get("Types", "").split() and any(_of_release(suite, codename) for suite in suites)


def _pairs(texts: Iterable[str]) -> dict[str, str]:
    """`key=value` each; what has no `=` is left out."""
    return {key: value for text in texts for key, sign, value in [text.partition("=")] if sign}


def _fields(stanza: str) -> dict[str, str]:
    """The fields of a stanza, their first lines."""
    found: list[tuple[str, str]] = re.findall(r"^([\w-]+):[ \t]*(.*)$", stanza, re.MULTILINE)
    return dict(found)


def _of_release(suite: str, codename: str) -> bool:
    return suite == codename or suite.startswith((f"{codename}-", f"{codename}/"))


def _stanza(line: str, codename: str) -> str:
    """A line of the old form as a stanza of the new one."""
    match = re.fullmatch(
        r"\s*deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<parts>[^#]*).*", line
    )
    if match is None or not _of_release(match["suite"], codename):
        return ""
    options = _pairs((match["options"] or "").split())
    lines = [
        "Types: deb",
        f"URIs: {match['uri']}",
        f"Suites: {match['suite']}",
        f"Components: {match['parts'].strip()}",
    ]
    lines += [f"Signed-By: {options['signed-by']}"] if "signed-by" in options else []
    return "\n".join(lines)


def _download(scratch: Path, sources: str, packages: Sequence[str], say: Said) -> list[Path]:
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True)
    (scratch / "status").touch()
    (scratch / "from.sources").write_text(sources, "utf-8")
    options = {
        "Dir::State": f"{scratch}/state",
        "Dir::State::status": f"{scratch}/status",
        "Dir::Cache": f"{scratch}/cache",
        "Dir::Etc::sourcelist": f"{scratch}/from.sources",
        "Dir::Etc::sourceparts": "-",
        "APT::Sandbox::User": "root",  # else root's apt gives the files to a user who cannot read our folder
        "Debug::NoLocking": "1",
        "APT::Install-Recommends": "0",
        "APT::Get::Assume-Yes": "1",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
    }
    command = ["apt-get", "-q", *(part for key, value in options.items() for part in ("-o", f"{key}={value}"))]
    say("reading the package lists")
    _run([*command, "update"])
    say("downloading packages")
    _run([*command, "install", "--download-only", "?essential", *packages])
    archives = sorted((scratch / "cache" / "archives").glob("*.deb"))
    if not archives:
        raise RuntimeError("apt-get fetched no package")
    return archives


def _run(command: list[str]) -> str:
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", env=environment, timeout=_TIMEOUT, check=False
    )
    if done.returncode:
        said = "\n".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-12:])
        raise RuntimeError(f"`{command[0]}` failed (exit {done.returncode}): {said}")
    return done.stdout


def _unpack_all(archives: list[Path], tree: Path, owners: Owners, sources: str, say: Said) -> None:
    for name in _LINKS[: 4 if os.uname().machine == "x86_64" else 3]:
        (tree / "usr" / name).mkdir(parents=True)
        os.symlink(f"usr/{name}", tree / name)
    info = tree / "var" / "lib" / "dpkg" / "info"
    info.mkdir(parents=True)
    stanzas: list[str] = []
    for number, archive in enumerate(archives, 1):
        say(f"unpacking {number} of {len(archives)}")
        with tempfile.TemporaryFile(prefix="gloveport-deb-") as packed:
            listing = _file_tree(archive, packed)
            unpack(packed, tree, owners)
        stanzas.append(_register(archive, listing, info))
    (info / "format").write_text("1\n")
    (info.parent / "status").write_text("\n".join(stanzas), "utf-8")
    (info.parent / "available").touch()
    _accounts(tree)
    listed = tree / "etc" / "apt" / "sources.list.d"
    listed.mkdir(parents=True, exist_ok=True)
    (listed / "debian.sources").write_text(sources, "utf-8")
    if owners.base is None:
        # A machine that has one user: apt would look whether it has become `_apt`, which it cannot.
        settings = tree / "etc" / "apt" / "apt.conf.d"
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "90one-user").write_text('APT::Sandbox::User "root";\n', "utf-8")
    else:
        folder = open_folder(tree)
        try:
            give_tree(folder, owners.base)
        finally:
            os.close(folder)


def _register(archive: Path, listing: list[str], info: Path) -> str:
    """What dpkg knows of an unpacked package: its control files, the list of its files, and a stanza of the status file."""
    conffiles: list[str] = []
    with tempfile.TemporaryDirectory(prefix="gloveport-deb-") as scratch:
        _run(["dpkg-deb", "--control", str(archive), scratch])
        control = (Path(scratch) / "control").read_text("utf-8").rstrip("\n")
        fields = _fields(control)
        name = fields["Package"] + (f":{fields['Architecture']}" if fields.get("Multi-Arch") == "same" else "")
        for path in Path(scratch).iterdir():
            if path.name != "control":
                shutil.copy(path, info / f"{name}.{path.name}")
            if path.name == "conffiles":
                conffiles = [line for line in path.read_text("utf-8").splitlines() if line.startswith("/")]
    (info / f"{name}.list").write_text("\n".join(listing) + "\n", "utf-8")
    tree = info.parents[3]
    hashed = [(conffile, tree / conffile.lstrip("/")) for conffile in conffiles]
    known = [f" {conffile} {_md5(path)}" for conffile, path in hashed if path.is_file()]
    head, _, rest = control.partition("\n")
    stanza = f"{head}\nStatus: install ok unpacked\n{rest}\n"
    return stanza + ("Conffiles:\n" + "\n".join(known) + "\n" if known else "")


def _file_tree(archive: Path, into: IO[bytes]) -> list[str]:
    """The files of a package as a tar archive, and their names as dpkg lists them."""
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=into, timeout=_TIMEOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"dpkg-deb could not unpack {archive.name}")
    into.seek(0)
    with tarfile.open(fileobj=into, mode="r|") as opened:
        names = ["/" + member.name.removeprefix(".").strip("/") for member in opened]
    into.seek(0)
    return ["/." if name == "/" else name for name in names]


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _accounts(tree: Path) -> None:
    """Debian's own accounts, which packages need before any script has run, and the one whose commands are by default."""
    for kind, line in zip(("passwd", "group"), _USER, strict=True):
        master = tree / "usr" / "share" / "base-passwd" / f"{kind}.master"
        given = master.read_text("utf-8") if master.is_file() else ""
        (tree / "etc" / kind).write_text(given + line, "utf-8")
