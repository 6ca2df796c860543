"""Linux system calls by name, for what the standard library does not wrap.

Numbers are those of the kernel's `unistd.h` for x86-64 and aarch64; `None` where an architecture has no such call.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

__all__ = (
    "ARCHITECTURES",
    "AUDIT_ARCH",
    "MACHINE",
    "X32_BIT",
    "attempt",
    "call",
    "newest",
    "number",
    "raw",
    "supported",
)

Argument = int | bytes | ctypes.Array[ctypes.c_char] | None

ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machine name → `AUDIT_ARCH_*`, as a seccomp filter sees it."""

X32_BIT: Final = 0x4000_0000
"""Set in the number of a call made through the x32 ABI, which shares the x86-64 architecture value."""

MACHINE: Final = os.uname().machine
AUDIT_ARCH: Final = ARCHITECTURES.get(MACHINE, 0)

# fmt: off
_NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "newfstatat": (262, 79), "stat": (4, None),
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "mremap": (25, 216), "madvise": (28, 233),
    "brk": (12, 214), "pkey_mprotect": (329, 288), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "ftruncate": (77, 46), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "poll": (7, None), "ppoll": (271, 73),
    "futex": (202, 98), "set_robust_list": (273, 99), "get_robust_list": (274, 100), "rseq": (334, 293),
    "set_tid_address": (218, 96), "sched_yield": (24, 124), "nanosleep": (35, 101), "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None),
    "getrandom": (318, 278), "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "exit": (60, 93),
    "exit_group": (231, 94), "wait4": (61, 260), "waitid": (247, 95), "kill": (62, 129), "tkill": (200, 130),
    "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438), "recvfrom": (45, 207), "recvmsg": (47, 212),
    "sendto": (44, 206), "sendmsg": (46, 211), "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203),
    "bind": (49, 200), "listen": (50, 201), "accept4": (288, 242), "shutdown": (48, 210), "fcntl": (72, 25),
    "ioctl": (16, 29), "dup3": (292, 24), "close_range": (436, 436), "open": (2, None), "openat": (257, 56),
    "openat2": (437, 437), "creat": (85, None), "readlinkat": (267, 78), "faccessat2": (439, 439),
    "getdents64": (217, 61), "statx": (332, 291), "chdir": (80, 49), "prlimit64": (302, 261), "getrusage": (98, 165),
    "prctl": (157, 167), "seccomp": (317, 277), "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446), "capget": (125, 90), "capset": (126, 91),
    "clone": (56, 220), "clone3": (435, 435), "fork": (57, None), "vfork": (58, None), "execve": (59, 221),
    "execveat": (322, 281), "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "kcmp": (312, 272), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "msgget": (68, 186), "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "setpriority": (141, 140), "getpriority": (140, 141), "sched_setaffinity": (203, 122),
    "sched_getaffinity": (204, 123), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "sched_getattr": (315, 275), "ioprio_set": (251, 30), "ioprio_get": (252, 31),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "getpgid": (121, 155), "setpgid": (109, 154),
    "getsid": (124, 156), "setsid": (112, 157), "bpf": (321, 280), "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "userfaultfd": (323, 282), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "personality": (135, 92), "modify_ldt": (154, None), "iopl": (172, None), "ioperm": (173, None),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "sethostname": (170, 161),
    "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "vhangup": (153, 58), "syslog": (103, 116), "fanotify_init": (300, 262), "inotify_init1": (294, 26),
    "lookup_dcookie": (212, 18), "sysfs": (139, None), "ustat": (136, None), "uselib": (134, None),
    "setresuid": (117, 147), "setresgid": (119, 149), "uname": (63, 160), "epoll_create1": (291, 20),
    "eventfd2": (290, 19), "inotify_init": (253, None), "accept": (43, 202), "semtimedop": (220, 192),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "mq_timedsend": (242, 182), "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184), "mq_getsetattr": (245, 185), "io_setup": (206, 0), "io_destroy": (207, 1),
    "io_getevents": (208, 4), "io_submit": (209, 2), "io_cancel": (210, 3), "io_pgetevents": (333, 292),
}
# fmt: on

_COLUMN: Final = 1 if MACHINE == "aarch64" else 0


def supported() -> bool:
    """Whether the jail knows this operating system and architecture."""
    return sys.platform == "linux" and MACHINE in ARCHITECTURES and ctypes.sizeof(ctypes.c_void_p) == 8


def number(name: str) -> int | None:
    """The number of a system call on this machine, `None` when the architecture lacks it. `KeyError` for unknown names."""
    return _NUMBERS[name][_COLUMN]


def newest() -> int:
    """The highest number in the table: a call beyond it is newer than what the filters were written for."""
    return max(n for row in _NUMBERS.values() if (n := row[_COLUMN]) is not None)


def _prototype() -> ctypes._NamedFuncPointer:  # pyright: ignore[reportPrivateUsage]
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    function.argtypes = [ctypes.c_long] * 7
    return function


_syscall: ctypes._NamedFuncPointer | None = (  # pyright: ignore[reportPrivateUsage]
    _prototype() if sys.platform.startswith("linux") else None
)


def attempt(name: str, *arguments: Argument) -> int:
    """Makes a system call; gives its result, or the negative error number."""
    n = number(name)
    if n is None or _syscall is None:
        return -38  # ENOSYS
    return raw(n, *arguments)


def raw(n: int, *arguments: Argument) -> int:
    """`attempt` by number."""
    if _syscall is None:
        return -38
    # Buffers stay referenced by `arguments` until the call returns.
    words = [_word(a) for a in arguments]
    words += [0] * (6 - len(words))
    result: int = _syscall(n, *words)
    return -ctypes.get_errno() if result == -1 else result


def call(name: str, *arguments: Argument) -> int:
    """Makes a system call. Raises `OSError` that names it."""
    result = attempt(name, *arguments)
    if result < 0:
        raise OSError(-result, f"{name}: {os.strerror(-result)}")
    return result


def _word(argument: Argument) -> int:
    if argument is None:
        return 0
    if isinstance(argument, int):
        return argument
    if isinstance(argument, bytes):
        return ctypes.cast(ctypes.c_char_p(argument), ctypes.c_void_p).value or 0
    return ctypes.addressof(argument)
