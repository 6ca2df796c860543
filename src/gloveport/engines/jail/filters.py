"""The system calls that each kind of jailed process may make.

Workers get an **allow-list**: what they need is small, was measured (glibc 2.36, CPython 3.11, wasmtime 50), and stays so when
the kernel grows new calls. A program that is executed gets a deny-list: what it calls is its own business and changes with its
version; namespaces, the empty root and Landlock carry more of the weight there.

On purpose not allowed to a worker, though harmless in appearance: `fcntl` owner and signal commands and `ioctl(FIOSETOWN)`
(they send signals to other processes without `kill`), `prlimit64`, `sched_*`, `getpgid` and `get_robust_list` of other
processes, `pidfd_open`, `process_madvise`, System V and POSIX IPC (shared between processes of one namespace), `memfd_create`
(executable files without a file system), `tgkill` (only `abort` uses it, which then ends in a trap).
"""

from __future__ import annotations

import functools
from typing import Final

from gloveport.engines.jail import seccomp
from gloveport.engines.jail.seccomp import ALWAYS, Condition

__all__ = ("connected", "executed", "shared_worker", "worker", "zygote")

_PROT_EXEC: Final = 4
_MAP_PRIVATE: Final = 2
_MAP_OTHER_TYPES: Final = 0x1 | 0x4 | 0x8
_NAMESPACES: Final = 0x7E02_0080
"""All `CLONE_NEW*` flags, `CLONE_NEWTIME` included."""
_THREAD: Final = 0x0001_0000
_F_DUPFD_CLOEXEC: Final = 1030
_F_GETFD, _F_SETFD, _F_GETFL = 1, 2, 3
_F_ADD_SEALS: Final = 1033
_FIONBIO: Final = 0x5421
_PR_SET_PDEATHSIG: Final = 1
_AF_UNIX: Final = 1
_AF_INET, _AF_INET6 = 2, 10
_TCP, _UDP = 6, 17
_STREAM_OR_DATAGRAM: Final = tuple(kind | flags for kind in (1, 2) for flags in (0, 0x800, 0x8_0000, 0x8_0800))
"""`SOCK_STREAM` and `SOCK_DGRAM`, each with any of `SOCK_NONBLOCK` and `SOCK_CLOEXEC`."""

_NOT_EXECUTABLE = (Condition(2, "none_of", (_PROT_EXEC,)),)
# Shared memory is not private memory: RLIMIT_DATA does not count it. Files that are there can still be mapped.
_SHARED_AND_NO_FILE: Final = 0x1 | 0x20
_PRIVATE = (*_NOT_EXECUTABLE, Condition(3, "all_of", (_MAP_PRIVATE,)), Condition(3, "none_of", (_MAP_OTHER_TYPES,)))
_OWN_LIMITS = (Condition(0, "in", (0,)),)

_WORKER: Final[seccomp.Policy] = {
    **dict.fromkeys(("recvfrom", "sendto", "sendmsg", "read", "write", "close"), ALWAYS),
    **dict.fromkeys(("futex", "brk", "madvise", "munmap", "mremap"), ALWAYS),
    **dict.fromkeys(("clock_gettime", "clock_getres", "gettimeofday", "time", "getrandom", "getrusage"), ALWAYS),
    **dict.fromkeys(("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall"), ALWAYS),
    **dict.fromkeys(("nanosleep", "clock_nanosleep", "sched_yield", "poll", "ppoll", "getpid", "gettid"), ALWAYS),
    **dict.fromkeys(("exit", "exit_group", "shutdown"), ALWAYS),
    "mmap": _PRIVATE,
    "mprotect": _NOT_EXECUTABLE,
    "fcntl": (Condition(1, "in", (_F_GETFD, _F_SETFD, _F_GETFL)),),
    "ioctl": (Condition(1, "in", (_FIONBIO,)),),
    # A worker lowers its own RLIMIT_DATA when it learns its memory limit; raising a hard limit needs a capability.
    "prlimit64": _OWN_LIMITS,
}

_SHARED: Final[seccomp.Policy] = {
    **_WORKER,
    # Each session maps the page through which it is interrupted.
    "mmap": _NOT_EXECUTABLE,
    **dict.fromkeys(("recvmsg", "set_robust_list", "rseq"), ALWAYS),
    "clone": (Condition(0, "all_of", (_THREAD,)), Condition(0, "none_of", (_NAMESPACES,))),
}

_ZYGOTE: Final[seccomp.Policy] = {
    **_SHARED,
    **dict.fromkeys(("fork", "wait4", "waitid", "set_tid_address", "getppid", "memfd_create", "ftruncate"), ALWAYS),
    **dict.fromkeys(("pidfd_open", "close_range", "prctl", "seccomp", "fstat", "newfstatat"), ALWAYS),
    **dict.fromkeys(("landlock_create_ruleset", "landlock_restrict_self", "dup3"), ALWAYS),
    "clone": (Condition(0, "none_of", (_NAMESPACES,)),),
    "socketpair": (Condition(0, "in", (_AF_UNIX,)),),
    "fcntl": (Condition(1, "in", (_F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC, _F_ADD_SEALS)),),
}

_REFUSED: Final = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp"),
    *("pidfd_getfd", "pidfd_open", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tkill"),
    *("get_robust_list", "socket", "connect", "bind", "listen", "accept", "accept4", "execveat"),
    *("fork", "vfork", "memfd_create"),
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "name_to_handle_at"),
    *("open_by_handle_at", "memfd_secret", "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive"),
    *("mq_notify", "mq_getsetattr", "setpriority", "sched_setscheduler", "sched_setparam"),
    *("sched_setattr", "ioprio_set", "migrate_pages", "move_pages", "setpgid", "setsid", "getpgid"),
    *("getsid", "bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    # Of these there is one supply for the whole machine (fs.aio-max-nr), or one for each user.
    *("io_setup", "io_destroy", "io_getevents", "io_submit", "io_cancel", "io_pgetevents", "inotify_init"),
    *("userfaultfd", "keyctl", "add_key", "request_key", "personality", "modify_ldt", "iopl", "ioperm"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"),
    *("swapon", "swapoff", "sethostname", "setdomainname", "settimeofday", "clock_settime", "adjtimex"),
    *("clock_adjtime", "acct", "quotactl", "quotactl_fd", "vhangup", "syslog", "fanotify_init"),
    *("inotify_init1", "lookup_dcookie", "sysfs", "ustat", "uselib", "seccomp"),
    *("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"),
)

_FCNTL_OWNER: Final = (8, 10, 15, 1024, 1026)
"""`F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`, `F_SETLEASE`, `F_NOTIFY`."""
_IOCTL_OWNER: Final = (0x8901, 0x8902, 0x5412, 0x5452)
"""`FIOSETOWN`, `SIOCSPGRP`, `TIOCSTI`, `FIOASYNC`."""

_EXECUTED: Final[seccomp.Policy] = {
    **dict.fromkeys(_REFUSED, ALWAYS),
    "clone": (Condition(0, "all_of", (_THREAD,)), Condition(0, "none_of", (_NAMESPACES,))),
    "socketpair": (Condition(0, "in", (_AF_UNIX,)),),
    "fcntl": (Condition(1, "not_in", _FCNTL_OWNER),),
    "ioctl": (Condition(1, "not_in", _IOCTL_OWNER),),
    "prlimit64": _OWN_LIMITS,
    "mmap": (Condition(3, "not_all_of", (_SHARED_AND_NO_FILE,)),),
    # It would live on when the keeper outside is killed.
    "prctl": (Condition(0, "not_in", (_PR_SET_PDEATHSIG,)),),
    # Threads address each other by `sched_*affinity` only in tools that pin them.
    "sched_setaffinity": _OWN_LIMITS,
    # A process may signal itself (thread group 1 is itself: it is the first of its namespace).
    "kill": (Condition(0, "in", (1,)),),
    "tgkill": (Condition(0, "in", (1,)),),
}

_CONNECTED: Final[seccomp.Policy] = {
    # In a network namespace of its own that leads nowhere but to listeners of the host. `bind` is what a resolver needs to send
    # from any port; Landlock refuses it for TCP, and without `listen` and `accept4` nobody can come in.
    **{name: conditions for name, conditions in _EXECUTED.items() if name not in ("connect", "bind")},
    "socket": (
        Condition(0, "in", (_AF_INET, _AF_INET6)),
        Condition(1, "in", _STREAM_OR_DATAGRAM),
        Condition(2, "in", (0, _TCP, _UDP)),
    ),
}


@functools.cache
def worker() -> bytes:
    """One session in one process: no new process, thread, file, executable page or descriptor."""
    return seccomp.allow_list(_WORKER)


@functools.cache
def shared_worker() -> bytes:
    """Many sessions in one process: also threads, and receiving descriptors over its socket."""
    return seccomp.allow_list(_SHARED)


@functools.cache
def zygote() -> bytes:
    """The trusted process that forks workers. Its children add their own filter."""
    return seccomp.allow_list(_ZYGOTE)


@functools.cache
def executed() -> bytes:
    """A trusted program with a just-in-time compiler: threads and executable pages, nothing that reaches another process."""
    return seccomp.deny_list(_EXECUTED)


@functools.cache
def connected() -> bytes:
    """The same, with TCP and UDP sockets that connect: no raw, packet, netlink, unix or listening socket."""
    return seccomp.deny_list(_CONNECTED)
