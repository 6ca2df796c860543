/* What nothing in a box may ask the kernel for. A deny list: a box runs programs that we do not know. */
#include "box.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#else
#error "an architecture without a filter"
#endif

enum {
    NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET,
    TIOCSTI_ = 0x5412, TIOCLINUX_ = 0x541c, TIOCSETD_ = 0x5423,
    PERSONALITY_ASK = -1,
};

static const int DENIED[] = {
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_move_mount, SYS_open_tree, SYS_fsopen, SYS_fsmount, SYS_fsconfig, SYS_fspick,
    SYS_mount_setattr, SYS_unshare, SYS_setns, SYS_bpf, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
    SYS_keyctl, SYS_add_key, SYS_request_key, SYS_userfaultfd, SYS_perf_event_open, SYS_kexec_load, SYS_init_module,
    SYS_finit_module, SYS_delete_module, SYS_open_by_handle_at, SYS_swapon, SYS_swapoff, SYS_reboot, SYS_acct, SYS_quotactl,
    SYS_fanotify_init, SYS_syslog, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex, SYS_lookup_dcookie,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
    467, /* open_tree_attr, Linux 6.15: later than this C library */
#ifdef SYS_quotactl_fd
    SYS_quotactl_fd,
#endif
#ifdef SYS_memfd_secret
    SYS_memfd_secret,
#endif
#ifdef __x86_64__
    SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
};

/* With one identity none of these can do what it says; with `fake_owners` they say that they did. */
static const int OWNERS[] = {
#ifdef SYS_chown
    SYS_chown, SYS_lchown,
#endif
    SYS_fchown, SYS_fchownat, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups,
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_ARG(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n)) /* low half: little endian */
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), yes, no)
#define ANSWER(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

uint32_t connect_cookie;

/* The kernel ignores what is in it, so that a program cannot have it there by chance only. */
static bool new_cookie(void) {
    return getrandom(&connect_cookie, sizeof connect_cookie, 0) == sizeof connect_cookie;
}

bool seccomp_install(int *watcher, bool fake_owners) {
    enum { COUNT = sizeof DENIED / sizeof *DENIED };
    static struct sock_filter program[COUNT * 2 + sizeof OWNERS / sizeof *OWNERS * 2 + 64];
    const struct sock_filter head[] = {
        LOAD(arch), IF(OUR_ARCH, 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), LOAD(nr),
#ifdef __x86_64__
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), ANSWER(ENOSYS), /* x32 */
#endif
        IF(SYS_clone3, 0, 1), ANSWER(ENOSYS), /* its flags are behind a pointer; C libraries fall back to clone */
        IF(SYS_clone, 0, 4), LOAD_ARG(0), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (uint32_t)NAMESPACES, 0, 1), ANSWER(EPERM), ALLOW,
        IF(SYS_ioctl, 0, 6), LOAD_ARG(1), IF(TIOCSTI_, 2, 0), IF(TIOCLINUX_, 1, 0), IF(TIOCSETD_, 0, 1), ANSWER(EPERM), ALLOW,
        IF(SYS_socket, 0, 9), LOAD_ARG(0), IF(AF_UNIX, 6, 0), IF(AF_INET, 5, 0), IF(AF_INET6, 4, 0), IF(AF_NETLINK, 0, 2),
        LOAD_ARG(2), IF(0, 1, 0) /* NETLINK_ROUTE */, ANSWER(EAFNOSUPPORT), ALLOW,
        IF(SYS_socketpair, 0, 4), LOAD_ARG(0), IF(AF_UNIX, 1, 0), ANSWER(EAFNOSUPPORT), ALLOW, /* makes sockets of any family before it asks */
        IF(SYS_prlimit64, 0, 4), LOAD_ARG(0), IF(1, 0, 1), ANSWER(EPERM), ALLOW, /* the first process, which has the same id as root */
        IF(SYS_personality, 0, 5), LOAD_ARG(0), IF(0, 2, 0), IF(PERSONALITY_ASK, 1, 0), ANSWER(EPERM), ALLOW,
    };
    size_t size = 0;
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) program[size++] = head[i];
    for (size_t i = 0; i < COUNT; i++) {
        program[size++] = (struct sock_filter)IF(DENIED[i], 0, 1);
        program[size++] = (struct sock_filter)ANSWER(EPERM);
    }
    for (size_t i = 0; fake_owners && i < sizeof OWNERS / sizeof *OWNERS; i++) {
        program[size++] = (struct sock_filter)IF(OWNERS[i], 0, 1);
        program[size++] = (struct sock_filter)ANSWER(0);
    }
    if (watcher && !new_cookie()) return false;
    const struct sock_filter tell[] = {IF(SYS_connect, 0, 4), LOAD_ARG(3), IF(connect_cookie, 1, 0),
                                       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF), ALLOW};
    for (size_t i = 0; watcher && i < sizeof tell / sizeof *tell; i++) program[size++] = tell[i];
    program[size++] = (struct sock_filter)ALLOW;
    struct sock_fprog filter = {(unsigned short)size, program};
    if (!watcher) return !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
    *watcher = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
    if (*watcher >= 0) return true;
    if (errno != EBUSY && errno != EINVAL) return false;
    /* Whoever started us is told of calls itself, or the kernel is too old: the gateway opens the ports that rules name, and no others. */
    program[size - 1 - sizeof tell / sizeof *tell] = (struct sock_filter)ALLOW;
    return !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}
