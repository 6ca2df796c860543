"""Putting up the jail around this process, one layer after another.

Every layer is checked by its effect right after it was put up: a kernel that accepts a call and does nothing counts as a missing layer.
Nothing here decides whether a missing layer is acceptable; `enter` reports, the caller refuses.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn

from gloveport.engines.jail import filters, landlock, layers, namespaces, seccomp, syscalls
from gloveport.engines.jail.layers import Missing

__all__ = ("WORKERS", "Entered", "Profile", "enter", "harden_child")

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 1, 4, 38, 39
_EPERM: Final = 1
_MANY_PROCESSES: Final = 4096


class Profile(NamedTuple):
    """What one kind of jail leaves standing."""

    name: str
    filter: Callable[[], bytes]
    rights: Sequence[landlock.Rule] = ()
    readable: Sequence[str] = ()
    """Absolute paths (no symbolic links in them) of files or directories that appear, read-only, in the new root."""
    mounts: Sequence[tuple[str, str]] = ()
    """Files and directories that appear, read-only, under another path: that path, and their own."""
    writable: Sequence[tuple[str, str]] = ()
    """The same for directories that can be written."""
    links: Sequence[tuple[str, str]] = ()
    scratch: str = ""
    """Path, below the root, of an empty private directory; none when `scratch_bytes` is 0."""
    scratch_bytes: int = 0
    limits: Sequence[tuple[int, int]] = ()
    files: Sequence[tuple[str, bytes]] = ()
    """Small files (path, content) that are made for the new root."""
    network: Callable[[], None] | None = None
    """Called in the new network namespace while this process has power over it; not called when there is none."""
    watched: bool = False
    """Have the kernel ask before each `connect`, where it can."""


WORKERS: Final = Profile(
    "worker",
    filters.zygote,
    limits=(
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 4096),  # one interrupt page; a worker's own limit is 0
        (resource.RLIMIT_NOFILE, 4096),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NPROC, _MANY_PROCESSES),
    ),
)
"""The zygote: an empty root, and the calls that forking workers takes."""


class Entered(NamedTuple):
    """What `enter` achieved."""

    missing: list[Missing]
    landlock_abi: int
    """0 without Landlock."""
    watcher: int = -1
    """With a network: where the kernel asks before each `connect`; -1 where it cannot."""


def enter(
    profile: Profile,
    keeper: Callable[[int], NoReturn],
    *,
    seed: int,
    leave_out: frozenset[str] = frozenset(),
) -> Entered:
    """Puts this single-threaded process into a jail. Returns in a new process, which is the first of its process namespace.

    The process that called stays outside and becomes `keeper(pid)`. `seed` makes the user id when root starts the jail.
    `leave_out` names layers not to put up: each is reported as missing (for tests, and for `sandbox="off"`).
    """
    entry = _Entry(profile, seed, leave_out)
    entry.go(keeper)
    return Entered(entry.missing, entry.landlock_abi, entry.watcher)


def harden_child(program: bytes, *, with_landlock: bool, with_seccomp: bool) -> None:
    """What a worker adds to the jail it inherited: no file growth, a Landlock domain apart from its siblings', its own filter."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if with_landlock:
        landlock.restrict()
    if with_seccomp:
        seccomp.install(program)


def _layer(namespace: str) -> str:
    return "mount-namespace" if namespace == "mnt" else f"{namespace}-namespace"


def _identity(namespace: str) -> str:
    try:
        return namespaces.identity(namespace)
    except FileNotFoundError:  # the kernel was built without that kind
        return ""


class _Entry:
    def __init__(self, profile: Profile, seed: int, leave_out: frozenset[str]) -> None:
        self.profile = profile
        self.seed = seed
        self.leave_out = leave_out
        self.missing: list[Missing] = []
        self.landlock_abi = 0
        self.watcher = -1
        self.trees: list[namespaces.Tree] = []
        self.before: dict[str, str] = {}
        self.entered: set[str] = set()
        self.may_change_user = False
        self.ids = (0, 0)
        self.has_own_user = False
        # Opened now: `/proc` is gone when a user namespace that comes last needs its maps written.
        self.proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if syscalls.supported() else -1

    def go(self, keeper: Callable[[int], NoReturn]) -> None:
        if not syscalls.supported():
            self.missing = layers.unsupported()
            return
        os.umask(0o022)
        self.before = {name: _identity(name) for name in namespaces.FLAGS}
        privileged = namespaces.effective_capability(namespaces.CAP_SYS_ADMIN)
        # Without CAP_KILL root could not end a worker that has another user id.
        needed = (namespaces.CAP_SETUID, namespaces.CAP_SETGID, namespaces.CAP_KILL)
        self.may_change_user = os.geteuid() != 0 or all(map(namespaces.effective_capability, needed))
        if not privileged:
            self.step("user", self.change_user)
            self.unshare(tuple(namespaces.FLAGS))
        else:
            # With root's own powers first: the mount and network namespaces then belong to the host's user namespace,
            # and nothing that the jailed process could regain in its own has a hold on them.
            self.unshare(tuple(name for name in namespaces.FLAGS if name != "user"))
        pid = os.fork()
        if pid:
            keeper(pid)
        if "pid" in self.entered and os.getpid() != 1:
            self.entered.discard("pid")
            self.fail("pid-namespace", OSError(_EPERM, "not the first process of the new namespace"))
        if self.profile.network is not None and "net" in self.entered:
            self.profile.network()
        self.step("root", self.change_root)
        if privileged:
            self.step("user", self.change_user)
            self.unshare(("user",))
        os.close(self.proc)
        syscalls.attempt("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL)
        self.confine()

    def confine(self) -> None:
        """The layers that need no namespace."""
        self.step("capabilities", namespaces.drop_capabilities)
        self.step("no-new-privileges", self.forbid_privileges)
        self.step("limits", self.set_limits)
        # Last of the changes of user: each of them makes a process dumpable or not as the kernel likes.
        syscalls.attempt("prctl", _PR_SET_DUMPABLE, 0)
        self.step("landlock", self.enter_landlock)
        self.step("seccomp", self.install_filter)

    def step(self, name: str, action: Callable[[], None]) -> None:
        if name in self.leave_out:
            self.missing.append(layers.left_out(name))
            return
        try:
            action()
        except OSError as error:
            self.fail(name, error)

    def fail(self, name: str, error: OSError) -> None:
        self.missing.append(layers.explain(name, error))

    # ── the layers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def change_user(self) -> None:
        if not self.may_change_user:
            raise OSError(_EPERM, os.strerror(_EPERM))
        if os.geteuid() == 0:
            uid = namespaces.unprivileged_id(self.proc, self.seed)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            self.has_own_user = True
        elif os.getuid() == 0 or os.getresuid() != (os.getuid(),) * 3:
            raise OSError(_EPERM, "real, effective and saved user id differ")
        # A process that changed its user is not dumpable, and may then not write its own user map.
        syscalls.call("prctl", _PR_SET_DUMPABLE, 1)

    def unshare(self, names: tuple[str, ...]) -> None:
        wanted = [n for n in names if _layer(n) not in self.leave_out]
        self.missing += [layers.left_out(_layer(n)) for n in names if n not in wanted]
        self.ids = os.getuid(), os.getgid()  # in a new user namespace they read as nobody's
        together = sum(namespaces.FLAGS[n] for n in wanted)
        if syscalls.attempt("unshare", together) == 0:
            for name in wanted:
                self.settle(name)
            return
        for name in wanted:  # one by one, to name those that fail
            result = syscalls.attempt("unshare", namespaces.FLAGS[name])
            if result < 0:
                self.fail(_layer(name), OSError(-result, os.strerror(-result)))
            else:
                self.settle(name)

    def settle(self, name: str) -> None:
        try:
            if name == "user":
                namespaces.map_user(self.proc, *self.ids)
            # The process namespace is for children; the child looks whether it is the first one in it.
            if name != "pid" and namespaces.identity(name, self.proc) == self.before[name]:
                raise OSError(_EPERM, "the namespace did not change")
            if name == "uts":  # which begins as a copy of the host's
                socket.sethostname(namespaces.HOST_NAME)
                syscalls.call("setdomainname", b"(none)", 6)
        except OSError as error:
            self.fail(_layer(name), error)
        else:
            self.entered.add(name)

    def change_root(self) -> None:
        if "mnt" not in self.entered:
            raise OSError(_EPERM, "it needs the mount namespace")
        profile = self.profile
        trees = [namespaces.clone_tree(path) for path in profile.readable]
        for mounts, writable in ((profile.mounts, False), (profile.writable, True)):
            trees += [namespaces.clone_tree(path, writable=writable)._replace(target=target) for target, path in mounts]
        namespaces.build_root(trees, profile.links, profile.scratch, profile.scratch_bytes, profile.files)
        listed = (*profile.mounts, *profile.writable, *profile.links, *profile.files)
        made = (*profile.readable, *(path for path, _ in listed))
        expected = {path.split("/")[1] for path in made}
        expected |= {profile.scratch.lstrip("/")} if profile.scratch_bytes else set[str]()
        if set(os.listdir("/")) != expected:
            raise OSError(_EPERM, "the new root holds more than it should")

    def forbid_privileges(self) -> None:
        syscalls.call("prctl", _PR_SET_NO_NEW_PRIVS, 1)
        if syscalls.call("prctl", _PR_GET_NO_NEW_PRIVS) != 1:
            raise OSError(_EPERM, "no_new_privs did not hold")

    def set_limits(self) -> None:
        for which, most in self.profile.limits:
            hard = resource.getrlimit(which)[1]
            shared = which == resource.RLIMIT_NPROC and not self.is_counted_apart()
            wanted = _MANY_PROCESSES if shared else most
            value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            try:
                resource.setrlimit(which, (value, value))
            except ValueError as error:
                raise OSError(_EPERM, str(error)) from error
            if resource.getrlimit(which) != (value, value):
                raise OSError(_EPERM, "a resource limit did not hold")

    def is_counted_apart(self) -> bool:
        """Whether the processes of this jail are not counted with others: it has another user, or (Linux 5.14) its own namespace."""
        major, minor = (int(word) for word in re.findall(r"\d+", os.uname().release)[:2])
        return self.has_own_user or ("user" in self.entered and (major, minor) >= (5, 14))

    def enter_landlock(self) -> None:
        self.landlock_abi = landlock.restrict(self.profile.rights, connect=self.profile.network is not None)
        try:
            os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError:
            return
        raise OSError(_EPERM, "the root directory can still be listed")

    def install_filter(self) -> None:
        if self.profile.watched:
            self.watcher = seccomp.watch("connect")  # first: the filter refuses further ones
        seccomp.install(self.profile.filter())
        if syscalls.attempt("personality", 0xFFFF_FFFF) != -_EPERM:
            raise OSError(_EPERM, "a refused call still works")
