"""Fetching packages: a trusted Deno, which runs nothing of them, fills a cache that workers only read.

A worker is started with that cache and `--cached-only`: whatever its module imports, nothing leaves it for the network. What a module
imports is known before it runs, from its source; a specifier that is put together while it runs is found in the cache or refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import resource
import subprocess
import threading
import time
from collections.abc import Container, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import anyio.to_thread

from ...egress.gateway import GatewayLimits, Proxy
from ...engines.modules.profile import PackageCache
from ...engines.toolbox.process import program
from ...engines.wasm.module import cache_directory
from ...errors import PackageError
from ...permissions import Packages
from ...policy import NetworkRules
from ..gateway import gateway
from .ranges import noted
from .specifiers import root_of

__all__ = ("Resolver", "resolver_for", "split_root")

_MAX_ROOTS: Final = 100
_MAX_SAID: Final = 2000
_LOCK: Final = "deno.lock"
_TURN: Final = ".lock"
"""Whose turn it is to fetch."""
_LOOK: Final = 0.5
"""Seconds between two looks at how large the cache has become."""
_KEPT: Final = 1024


class Resolver:
    """The cache of one `Packages`, and how it is filled. Any thread may use it; processes that share it take turns."""

    def __init__(self, packages: Packages) -> None:
        self.packages: Final = packages
        self.directory: Final = Path(packages.cache) if packages.cache is not None else _own_directory(packages)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, ...], dict[str, str]] = {}
        self._state: bytes | None = None
        self._before: dict[str, int] = {}
        """Of the fetch under way: what was there."""

    @property
    def cache(self) -> PackageCache:
        """What a worker is given to read."""
        packages = self.packages
        registries = packages.npm_registry, packages.jsr_registry
        return PackageCache(str(self.directory), *registries, _minutes(packages), packages.lock)

    @property
    def lock_file(self) -> Path:
        """Where the versions are noted."""
        return self.directory / _LOCK if self.packages.lock is None else Path(self.packages.lock)

    def prepare(self) -> None:
        """Makes the directory, which a worker has to find. Raises `PackageError`."""
        try:
            for folder in self.cache.folders:
                os.makedirs(folder, exist_ok=True)
                os.chmod(folder, 0o755)  # noqa: S103  # workers are another user
        except OSError as error:
            raise PackageError(f"the cache of packages cannot be used: {error.strerror}") from error

    async def resolve(self, specifiers: Sequence[str]) -> dict[str, str]:
        """What a worker is to import for each specifier, fetched if need be. Raises `PackageError` for the model to read."""
        roots = {specifier: root_of(specifier, self.packages) for specifier in specifiers}
        if len(roots) > _MAX_ROOTS:
            raise PackageError(f"a module cannot import {len(roots)} packages, at most {_MAX_ROOTS}")
        if not roots:
            return {}
        wanted = tuple(sorted(set(roots.values())))
        found = self._known.get(wanted)
        if found is None or self._state != self._mark():
            # Abandoned when cancelled: it ends by its own timeout, and what it fetched is there for the next one.
            found = await anyio.to_thread.run_sync(self._fetch, wanted, abandon_on_cancel=True, limiter=_threads())
        return {specifier: found[root] for specifier, root in roots.items()}

    # ── in a thread ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _fetch(self, roots: tuple[str, ...]) -> dict[str, str]:
        with self._alone():
            if (
                self._state != self._mark()
            ):  # somebody fetched something: versions may have come that are not there in whole
                self._known.clear()
            if not self.packages.offline:
                self._fill(roots)
            exact = self._exact(roots)
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[roots] = exact
            self._state = self._mark()
            return exact

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Of all threads and processes. Whoever waits does so no longer than a fetch of its own may take."""
        give_up = time.monotonic() + self.packages.timeout
        if not self._lock.acquire(timeout=self.packages.timeout):
            raise PackageError(_BUSY)
        try:
            self.prepare()
            with open(self.directory / _TURN, "w", encoding="ascii") as file:
                while not _locked(file.fileno()):
                    if time.monotonic() >= give_up:
                        raise PackageError(_BUSY)
                    time.sleep(0.05)
                yield
        except OSError as error:
            raise PackageError(f"the cache of packages cannot be used: {error.strerror}") from error
        finally:
            self._lock.release()

    def _fill(self, roots: tuple[str, ...]) -> None:
        """Fetch what is missing. What there is no room for leaves nothing behind: it would take the room of all that is imported later."""
        self._before, lock = self._files(), self._noted()
        try:
            try:
                self._cache(roots)
            except PackageError:
                self._check_size()
                raise
            self._check_size()
        except _Full as full:
            self._remove_all_but(self._before)
            if lock is not None and self.packages.lock is None:  # what it notes, Deno takes for fetched
                (self.directory / _LOCK).write_bytes(lock)
            raise PackageError(str(full)) from None

    def _noted(self) -> bytes | None:
        """The lock, if anything was fetched."""
        with suppress(FileNotFoundError):
            return (self.directory / _LOCK).read_bytes()
        return None

    def _remove_all_but(self, kept: Container[str]) -> None:
        """And the folders that are empty then: Deno takes the folder of a package for the package (seen with 2.9.8)."""
        for path in self._files():
            if path not in kept:
                os.unlink(path)
        for top in self.cache.folders:
            for folder, _, _ in os.walk(top, topdown=False):
                if folder != top:  # that is what workers are shown
                    with suppress(OSError):  # it is not empty
                        os.rmdir(folder)

    def _cache(self, roots: tuple[str, ...]) -> None:
        packages = self.packages
        command = [
            str(program()),
            "cache",
            "--quiet",
            "--no-config",
            "--allow-import",
            f"--min-dep-age={_minutes(packages)}",
        ]
        command += (
            ["--frozen", f"--lock={packages.lock}"]
            if packages.lock is not None
            else [f"--lock={self.directory / _LOCK}"]
        )
        environment = {
            **{name: os.environ[name] for name in _PASSED if name in os.environ},
            **self.cache.environment,
            "DENO_NO_UPDATE_CHECK": "1",
            "NO_COLOR": "1",
            "HOME": str(self.directory),  # no .npmrc: a token in there would go to whichever registry it names
        }
        environment.setdefault("DENO_TLS_CA_STORE", "mozilla,system")
        proxy = gateway().proxy(self._rules(roots), GatewayLimits(transferred_bytes=packages.max_bytes))
        try:
            environment |= {"HTTP_PROXY": proxy.url, "HTTPS_PROXY": proxy.url, "NO_PROXY": ""}
            self._run([*command, *roots], environment, proxy)
        finally:
            proxy.close()

    def _rules(self, roots: tuple[str, ...]) -> NetworkRules:
        """The registries, and the hosts of module URLs that are allowed."""
        packages = self.packages
        urls = {packages.npm_registry, packages.jsr_registry}
        urls |= {rule for rule in packages.allow if rule.startswith(("https://", "http://")) and rule != "https://*"}
        allow = [_origin(url) for url in sorted(urls)]
        if "https://*" in packages.allow and any(root.startswith("https://") for root in roots):
            allow.append("https://*")
        # Of redirects, and of what a module imports, the gateway sees hosts alone.
        denied = [_origin(rule) for rule in packages.deny if "://" in rule and urlsplit(rule).path == "/"]
        return NetworkRules(allow=tuple(allow), deny=tuple(denied), private=packages.private)  # pyright: ignore[reportArgumentType]

    def _run(self, command: list[str], environment: Mapping[str, str], proxy: Proxy) -> None:
        process = subprocess.Popen(
            command,
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            umask=0o022,
            start_new_session=True,
        )
        try:
            most = self.packages.max_bytes
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most + 1, most + 1))
            said = self._followed(process)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        if process.returncode:
            refused = [decision.reason for decision in proxy.decisions() if not decision.allowed]
            raise PackageError(_failure(said, refused))

    def _followed(self, process: subprocess.Popen[str]) -> str:
        """What it says until it ends. A small archive may hold a lot: what it makes is looked at while it is made."""
        give_up = time.monotonic() + self.packages.timeout
        while time.monotonic() < give_up:
            try:
                return process.communicate(timeout=_LOOK)[1]
            except subprocess.TimeoutExpired:
                self._check_size()
        raise PackageError(f"the packages could not be fetched within {self.packages.timeout:g} s")

    def _exact(self, roots: tuple[str, ...]) -> dict[str, str]:
        """Each root with the version that it came to. A lock of the application is for the roots as they are written."""
        if self.packages.lock is not None:
            return {root: root for root in roots}
        try:
            versions = cast("dict[str, Any]", json.loads((self.directory / _LOCK).read_bytes())).get("specifiers", {})
        except (FileNotFoundError, ValueError):  # nothing but URLs
            versions = {}
        return {root: self._with_version(root, cast("dict[str, str]", versions)) for root in roots}

    def _with_version(self, root: str, versions: Mapping[str, str]) -> str:
        if not root.startswith(("npm:", "jsr:")):
            return root
        package, path = split_root(root)
        version = noted(package, versions)
        if version is None and self.packages.offline:
            raise PackageError(f"cannot import {root!r}: it is not in the cache, and nothing may be fetched", root)
        name = package.rpartition("@")[0]
        return root if version is None else f"{name}@{version.partition('_')[0]}{path}"

    def _files(self) -> dict[str, int]:
        """Its files, with their sizes."""
        found: dict[str, int] = {}
        for folder, _, files in os.walk(self.directory):
            for name in files:
                path = os.path.join(folder, name)
                with suppress(FileNotFoundError):  # it is being fetched
                    found[path] = os.lstat(path).st_size
        return found

    def _check_size(self) -> None:
        """Of a full cache, what is there can be imported: Deno writes to its databases for that as well."""
        files = self._files()
        size, folders = sum(files.values()), tuple(f"{folder}/" for folder in self.cache.folders)
        if size > self.packages.max_bytes and any(
            path.startswith(folders) for path in files.keys() - self._before.keys()
        ):
            raise _Full(
                f"there is no room for this import: with it the cache of packages would have {size} bytes or more, and the application "
                f"allows {self.packages.max_bytes}: it has to remove the cache (`gloveport prune`), or to raise `max_bytes`"
            )

    def _mark(self) -> bytes | None:
        """Changes when anything was fetched."""
        noted = b"" if self.packages.lock is not None else self._noted()
        return None if noted is None else hashlib.sha256(noted).digest()


class _Full(Exception):
    """More than the cache may have."""


_BUSY: Final = "the cache of packages is busy with what others import: try again"


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_limiter: Final = anyio.lowlevel.RunVar[anyio.CapacityLimiter]("gloveport_package_threads")


def _threads() -> anyio.CapacityLimiter:
    """Not those that the application has for other work: these may wait for long."""
    try:
        return _limiter.get()
    except LookupError:
        made = anyio.CapacityLimiter(8)
        _limiter.set(made)
        return made


_PASSED: Final = ("PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "DENO_CERT", "DENO_TLS_CA_STORE", "LD_LIBRARY_PATH")


def _minutes(packages: Packages) -> int:
    return -(-int(packages.min_age) // 60)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def split_root(root: str) -> tuple[str, str]:
    """A package as locks name it, and the path in it: `npm:a/b` is `npm:a@*` and `/b`, `jsr:@s/a@1/b` is `jsr:@s/a@1` and `/b`."""
    kind, _, rest = root.partition(":")
    scope = 2 if rest.startswith("@") else 1
    head, tail = rest.split("/")[:scope], rest.split("/")[scope:]
    package = "/".join(head)
    wanted = "" if "@" in package[1:] else "@*"
    return f"{kind}:{package}{wanted}", "".join(f"/{part}" for part in tail)


def _failure(said: str, refused: Sequence[str]) -> str:
    text = said.partition("Stack backtrace")[0].strip().removeprefix("error: ")[-_MAX_SAID:]
    lines = [f"the packages could not be fetched: {text}", *dict.fromkeys(refused)]
    if any(" address" in reason for reason in refused):
        lines.append("(An address that is not public has to be named by the application: Packages(private=[…]).)")
    return "\n".join(lines)[: 2 * _MAX_SAID]


def _own_directory(packages: Packages) -> Path:
    """One for each set of rules: a module cannot find what another application's rules allowed."""
    lock = Path(packages.lock).read_bytes().hex() if packages.lock is not None else ""
    rules = [
        packages.allow,
        packages.deny,
        lock,
        packages.min_age,
        packages.npm_registry,
        packages.jsr_registry,
        packages.private,
    ]
    name = hashlib.sha256(json.dumps(rules).encode()).hexdigest()[:16]
    return cache_directory() / f"packages-{name}"


_resolvers: dict[Packages, Resolver] = {}
_guard = threading.Lock()


def resolver_for(packages: Packages) -> Resolver:
    """This process's resolver for those rules."""
    with _guard:
        return _resolvers.setdefault(packages, Resolver(packages))


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()
    _resolvers.clear()


os.register_at_fork(after_in_child=_after_fork)
