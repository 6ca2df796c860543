/* From a new process in new namespaces to pid 1 of a box: each step is one that cannot be taken back. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent.h"

static const int KEPT[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID,
                           CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT};

bool privileges_drop(void) {
    uint32_t kept = 0;
    for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT; i++) kept |= 1u << KEPT[i];
    for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        if ((i > 31 || !(kept & 1u << i)) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0)) return false;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) && errno != EINVAL) return false;
    if (getuid() != 0) kept = 0;
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{kept, kept, 0}, {0, 0, 0}};
    return !syscall(SYS_capset, &head, data) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* The root of the box's range; with one identity there is nothing to change. */
bool inside_become_root(const struct spec *spec) {
    if (!spec->uid_count) return true;
    return !setgroups(0, NULL) && !setresgid(0, 0, 0) && !setresuid(0, 0, 0);
}

/* Keeps only the way to the supervisor, which becomes descriptor 3, and the count of kills, which becomes 4. */
static bool close_the_host(struct box *box) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return false;
    for (int fd = 0; fd < 3; fd++)
        if (dup2(null, fd) < 0) return false;
    int kept = box->handoff_inside;
    int oom = box->oom >= 0 ? fcntl(box->oom, F_DUPFD_CLOEXEC, 5) : -1;
    if (box->oom >= 0 && oom < 0) return false;
    if (kept != 3 && dup3(kept, 3, O_CLOEXEC) < 0) return false;
    if (oom >= 0 && dup3(oom, 4, O_CLOEXEC) < 0) return false;
    box->oom = oom >= 0 ? 4 : -1;
    box->handoff_inside = 3;
    return !syscall(SYS_close_range, oom >= 0 ? 5U : 4U, ~0U, 0U);
}

static bool make(struct box *box, const char **stage) {
    *stage = "cgroup-namespace";
    if (unshare(CLONE_NEWCGROUP)) return false;
    umask(022);
    if (!rootfs_open(box, stage)) return false;
    box->oom = limits_oom(&box->spec);
    *stage = "identity";
    if (!inside_become_root(&box->spec)) return false;
    *stage = "die-with-holder";
    if (prctl(PR_SET_PDEATHSIG, SIGKILL)) return false;
    *stage = "loopback"; /* before /proc/sys is read-only */
    if (!network_up()) return false;
    if (!rootfs_make(box, stage)) return false;
    *stage = "hostname";
    if (sethostname(box->spec.hostname, strlen(box->spec.hostname))) return false;
    *stage = "descriptors";
    if (!close_the_host(box)) return false;
    *stage = "network";
    if (box->spec.gateway && !network_open(box)) return false;
    *stage = "shared";
    if (mprotect(box->clocks, 4096, PROT_READ) || munmap(box->state, sizeof *box->state)) return false;
    *stage = "privileges";
    if (!privileges_drop()) return false;
    *stage = "die-with-holder"; /* again: a change of capabilities clears it */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_DUMPABLE, 0)) return false;
    *stage = "seccomp";
    int watcher = -1;
    if (!seccomp_install(box->spec.gateway ? &watcher : NULL, box->spec.fake_owners)) return false;
    if (watcher >= 0) box->network[box->network_count++] = watcher;
    return true;
}

_Noreturn void inside_run(struct box *box, int go) {
    char byte;
    const char *stage = "go";
    char text[128];
    close(box->lock);
    close(box->handoff);
    if (read(go, &byte, 1) != 1) _exit(1); /* the holder is gone */
    if (!make(box, &stage)) {
        int error = errno;
        int size = snprintf(text, sizeof text, "stage=%s errno=%d message=%s", stage, error, strerror(error));
        if (size > 0) send_message(box->handoff_inside, text, (size_t)size, NULL, 0);
        _exit(1);
    }
    struct agent_setup setup = {box->handoff_inside, -1, &box->spec, box->clocks, box->activity, box->oom};
    if (!send_message(box->handoff_inside, "ready", 5, box->network, box->network_count)) _exit(1);
    for (int i = 0; i < box->network_count; i++) close(box->network[i]);
    _exit(agent_run(&setup));
}
