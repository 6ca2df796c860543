/* Control groups: directories that the host side made for this box alone. */
#include "box.h"

#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RESERVE = 32 }; /* processes that only the agent can have: its file workers go on while the guest is at its limit */

/* Where the file exists. False only when a limit that exists here could not be set. */
static bool set_if(int dir, const char *name, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld\n", (long long)value);
    return !value || faccessat(dir, name, F_OK, 0) || write_file(dir, name, text);
}

static bool set_cpu(int dir, int64_t ms_per_s) {
    char text[64];
    if (!ms_per_s) return true;
    snprintf(text, sizeof text, "%lld 100000\n", (long long)ms_per_s * 100);
    if (!faccessat(dir, "cpu.max", F_OK, 0)) return write_file(dir, "cpu.max", text);
    return set_if(dir, "cpu.cfs_period_us", 100000) && set_if(dir, "cpu.cfs_quota_us", ms_per_s * 100);
}

bool limits_enter(const struct spec *spec, pid_t pid) {
    char text[32];
    snprintf(text, sizeof text, "%d\n", (int)pid);
    for (size_t i = 0; i < spec->cgroup.count; i++) {
        if (!*spec->cgroup.list[i]) continue;
        int dir = open(spec->cgroup.list[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0) return false;
        bool ok = set_if(dir, "memory.max", spec->memory_max) && set_if(dir, "memory.limit_in_bytes", spec->memory_max);
        if (spec->memory_max) write_file(dir, "memory.swap.max", "0");
        ok = ok && set_if(dir, "pids.max", spec->pids_max ? spec->pids_max + RESERVE : 0) && set_cpu(dir, spec->cpu_ms_per_s);
        ok = ok && write_file(dir, "cgroup.procs", text);
        int error = errno;
        close(dir);
        errno = error;
        if (!ok) return false;
    }
    return true;
}

int limits_oom(const struct spec *spec) {
    static const char *const names[] = {"memory.events", "memory.oom_control"};
    for (size_t i = 0; i < spec->cgroup.count; i++)
        for (size_t k = 0; *spec->cgroup.list[i] && k < sizeof names / sizeof *names; k++) {
            char path[4096];
            int size = snprintf(path, sizeof path, "%s/%s", spec->cgroup.list[i], names[k]);
            int fd = size > 0 && (size_t)size < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
            if (fd >= 0) return fd;
        }
    return -1;
}

void limits_release(const struct spec *spec) {
    for (size_t i = 0; i < spec->cgroup.count; i++) {
        if (!*spec->cgroup.list[i]) continue;
        for (int tries = 0; rmdir(spec->cgroup.list[i]) && errno == EBUSY && tries < 200; tries++) usleep(5000);
    }
}
