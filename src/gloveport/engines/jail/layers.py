"""The layers of the jail: what each one keeps out, why it can be missing, and what to do then."""

from __future__ import annotations

import errno
import os
from typing import Final, NamedTuple

__all__ = ("BY_NAME", "LAYERS", "Layer", "Missing", "describe", "explain")


class Layer(NamedTuple):
    """One layer. All are needed under `sandbox="require"`."""

    name: str
    what: str
    """What it takes away from a hostile worker."""


class Missing(NamedTuple):
    """A layer that could not be put up."""

    layer: str
    why: str
    fix: str


LAYERS: Final = (
    Layer("user", "the rights of root: workers run as a user of their own"),
    Layer("mount-namespace", "the host's mounts"),
    Layer("pid-namespace", "sight of other processes; all workers die with the first process"),
    Layer("net-namespace", "every network interface, loopback and abstract unix sockets included"),
    Layer("ipc-namespace", "System V IPC and POSIX queues of the host"),
    Layer("uts-namespace", "the host's name"),
    Layer("cgroup-namespace", "the host's cgroup paths"),
    Layer("root", "every file: the root directory is empty and read-only"),
    Layer("user-namespace", "the host's user ids; root's powers even after a privilege bug"),
    Layer("capabilities", "every capability, for good"),
    Layer("no-new-privileges", "set-user-id programs"),
    Layer("limits", "core dumps, file growth, locked memory, large numbers of descriptors and processes"),
    Layer("landlock", "files, TCP, and (Linux 6.12 and later) signals to other workers, a second time"),
    Layer("seccomp", "all system calls but the few that computing and answering need"),
)
"""In the order in which they are put up."""

BY_NAME: Final = {layer.name: layer for layer in LAYERS}

_CONTAINER: Final = (
    "in a container: allow user namespaces (Docker: a seccomp profile that permits unshare and mount, "
    "or --security-opt seccomp=unconfined; Kubernetes: hostUsers: false with procMount: Unmasked)"
)


def explain(name: str, error: OSError) -> Missing:
    """Why a layer failed and what to do about it, from the error and from what the system tells."""
    reason = error.strerror or errno.errorcode.get(error.errno or 0, "failed")
    if name == "user":
        return Missing(
            name,
            f"started as root without the right to change the user ({reason})",
            "start the process as an ordinary user, or leave it CAP_SETUID, CAP_SETGID and CAP_KILL",
        )
    if name.endswith("-namespace") or name == "root":
        return Missing(name, *_namespace_reason(error.errno or 0, reason))
    if name == "landlock":
        return Missing(name, *_landlock_reason(error.errno or 0, reason))
    if name == "seccomp":
        return Missing(name, f"the kernel refused the filter ({reason})", "use a kernel with CONFIG_SECCOMP_FILTER")
    return Missing(name, reason, "see the message; a surrounding sandbox may forbid it")


def _namespace_reason(number: int, reason: str) -> tuple[str, str]:
    if number in (errno.EMFILE, errno.ENFILE):
        return f"no descriptor is left ({reason})", "close some, or raise their limit (ulimit -n)"
    if _number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1:
        return (
            f"AppArmor restricts unprivileged user namespaces ({reason})",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile with `userns,` for the Python interpreter",
        )
    if _number("/proc/sys/user/max_user_namespaces") == 0:
        return f"user.max_user_namespaces is 0 ({reason})", "sysctl user.max_user_namespaces=10000"
    if _number("/proc/sys/kernel/unprivileged_userns_clone") == 0:
        return f"kernel.unprivileged_userns_clone is 0 ({reason})", "sysctl kernel.unprivileged_userns_clone=1"
    if number == errno.ENOSPC:
        return f"there are as many namespaces as may be ({reason})", "raise user.max_*_namespaces (sysctl)"
    if number in (errno.EINVAL, errno.ENOENT):
        return f"the kernel has no such namespaces ({reason})", "use a kernel with CONFIG_NAMESPACES and CONFIG_USER_NS"
    return f"namespaces are not permitted here ({reason})", _CONTAINER


def _landlock_reason(number: int, reason: str) -> tuple[str, str]:
    if number == errno.EOPNOTSUPP:
        return "Landlock is built into the kernel but not enabled", "add landlock to the kernel parameter lsm="
    if number == errno.ENOSYS:
        return "the kernel has no Landlock", "use Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK"
    return f"Landlock is not permitted here ({reason})", _CONTAINER


def describe(missing: list[Missing]) -> str:
    """One line for each missing layer, for an error or a warning."""
    return "\n".join(f"- {m.layer}: {m.why}. To fix it: {m.fix}." for m in missing)


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def left_out(name: str) -> Missing:
    """The record of a layer that the caller chose to leave out."""
    return Missing(name, "left out on request", "do not leave it out")


def unsupported() -> list[Missing]:
    """Every layer, on an operating system or architecture that the jail does not know."""
    machine = os.uname().machine
    why = f"the jail exists for Linux on x86-64 and aarch64 only (this is {os.uname().sysname} on {machine})"
    return [Missing(layer.name, why, 'use isolation="inline" for code that you trust') for layer in LAYERS]
