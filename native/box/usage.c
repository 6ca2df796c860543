#include "usage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "layers.h"
#include "walk.h"

enum { SOON_MS = 20, OFTEN_MS = 100, COUNT_MS = 1000, COUNT_SHARE = 20, SLACK = 1 << 20, ENDED_MS = 500, REST_MS = 2000, COUNT_REST_MS = 60000 };

static bool samples_memory(const struct box *box) { return box->spec.by_rlimit && box->spec.memory_max; }

static bool counts_disk(const struct box *box) { return box->spec.disk_max && !box->spec.tmpfs_bytes; }

/* What lies in its file systems in memory. */
static int64_t in_memory_files(const struct box *box) {
    int64_t total = 0;
    struct statfs info;
    for (int i = 0; i < box->memory_count; i++)
        if (!fstatfs(box->memory[i], &info)) total += (int64_t)(info.f_blocks - info.f_bfree) * (int64_t)info.f_bsize;
    return total;
}

/* The largest process goes first, as with the kernel's own limit: until it is enough. Who is killed for it can be told by a count
 * that the agent compares. Whether one was. */
static bool watch_memory(struct supervisor *s) {
    struct box *box = s->box;
    int64_t files = in_memory_files(box), most = box->spec.memory_max;
    struct sample now = walk_sample(box->pid1, false);
    s->unlinked = now.unlinked;
    s->pids = now.pids;
    for (int i = 0; i < 64 && now.memory + files > most; i++) {
        now = walk_sample(box->pid1, true);
        if (now.memory + files > most) now = walk_sample(box->pid1, true); /* not for what shifted while we looked */
        if (now.memory + files <= most || !now.largest) return i;
        atomic_fetch_add(&box->clocks->memory_kills, 1);
        if (!walk_kill(box->pid1, now.largest, ENDED_MS)) return true; /* what it still has would cost another one its life */
    }
    return now.memory + files > most;
}

/* A lock, a listener or a client's end that only a counter still has would outlive its box. */
static bool keep_only(const int *fds, size_t count) {
    for (int from = 3, next; ; from = next + 1) {
        next = INT_MAX;
        for (size_t i = 0; i < count; i++)
            if (fds[i] >= from && fds[i] < next) next = fds[i];
        if (next > from && !close_between(from, next == INT_MAX ? next : next - 1)) return false;
        if (next == INT_MAX) return true;
    }
}

/* In a process of its own, since it may take long: with the powers of the box's root, which no mode of a folder keeps out. */
static void start_count(struct supervisor *s) {
    struct box *box = s->box;
    int ends[2];
    if (s->count_fd >= 0 || pipe2(ends, O_CLOEXEC)) return;
    s->counter = fork();
    if (!s->counter) {
        setpriority(PRIO_PROCESS, 0, 10);
        if (!keep_only((int[]){box->dir, box->user_namespace, ends[1]}, 3)) _exit(1);
        if (!box->spec.uid_count && setns(box->user_namespace, CLONE_NEWUSER)) _exit(1);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int64_t size = 0;
        for (int i = 0; i <= box->state->layers; i++) { /* without those that somebody took away */
            char name[32];
            layers_name(name, "upper", i);
            int dir = openat(box->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (dir < 0 && errno == ENOENT) continue;
            int64_t one = dir < 0 ? INT64_MAX : disk_usage(dir);
            size = one == INT64_MAX || size == INT64_MAX ? INT64_MAX : size + one;
        }
        _exit(!write_all(ends[1], &size, sizeof size));
    }
    close(ends[1]);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = SLOT_COUNT};
    if (s->counter < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, ends[0], &event)) {
        close(ends[0]);
        return;
    }
    s->count_fd = ends[0];
    s->count_began = boot_ms();
}

static void kill_each(void *context, pid_t pid) {
    const struct box *box = context;
    walk_children(pid, kill_each, context);
    walk_signal(box->pid1, pid, SIGKILL);
}

void usage_counted(struct supervisor *s) {
    struct box *box = s->box;
    int64_t size, took = boot_ms() - s->count_began, most = box->spec.disk_max;
    bool known = read(s->count_fd, &size, sizeof size) == sizeof size;
    close(s->count_fd);
    s->count_fd = -1;
    waitpid(s->counter, NULL, 0);
    took *= COUNT_SHARE;
    s->count_at = boot_ms() + (took > COUNT_REST_MS ? COUNT_REST_MS : took > COUNT_MS ? took : COUNT_MS);
    if (known) {
        if (size != INT64_MAX) size += s->unlinked;
        s->disk = size;
        atomic_store(&box->clocks->disk_over, most && size > most);
        if (most && size > most && size > s->disk_allowed) { /* who only cleans up goes on */
            atomic_fetch_add(&box->clocks->disk_kills, 1);
            for (int i = 0; i < 8; i++) walk_children(box->pid1, kill_each, box);
        }
        s->disk_allowed = size == INT64_MAX ? size - 1 : size + SLACK;
    }
    lifecycle_arm(s);
}

/* Counted before its time when the file system below has lost what the box still had left: a hint, others write there too. */
static void watch_disk(struct supervisor *s, int64_t now) {
    struct statfs info;
    int64_t left = s->box->spec.disk_max - s->disk;
    bool hint = !fstatfs(s->box->dir, &info);
    int64_t free = hint ? (int64_t)info.f_bfree * (int64_t)info.f_bsize : 0;
    hint = hint && left > 0 && s->free_at_count - free > left / 2;
    if (now < s->count_at && !hint) return;
    s->free_at_count = free;
    start_count(s);
    s->count_at = now + COUNT_MS;
}

int64_t usage_due(const struct supervisor *s) {
    if (s->box->state->phase != RUNNING || (!samples_memory(s->box) && !counts_disk(s->box))) return 0;
    return s->usage_at == INT64_MAX ? 0 : s->usage_at ? s->usage_at : 1;
}

void usage_soon(struct supervisor *s) {
    int64_t soon = boot_ms() + SOON_MS;
    if (s->usage_at <= soon) return;
    s->usage_at = soon;
    s->busy_at = boot_ms();
    lifecycle_arm(s);
}

void usage_tick(struct supervisor *s) {
    int64_t now = boot_ms(), due = usage_due(s);
    if (!due || now < due) return;
    bool killed = samples_memory(s->box) && watch_memory(s);
    if (!samples_memory(s->box)) {
        struct sample look = walk_sample(s->box->pid1, false);
        s->pids = look.pids;
        s->unlinked = look.unlinked;
    }
    if (counts_disk(s->box)) watch_disk(s, now);
    int64_t end = boot_ms(), took = killed ? 0 : end - now; /* a twentieth of our time, unless it was needed */
    bool busy = s->pids > 1, counted = !counts_disk(s->box) || (s->count_fd < 0 && s->count_began > s->busy_at);
    if (busy) s->busy_at = now;
    int64_t rest = took * COUNT_SHARE < REST_MS ? took * COUNT_SHARE : REST_MS; /* the guest decides how long a look takes */
    s->usage_at = busy || !counted ? end + OFTEN_MS + rest : INT64_MAX;
}

/* The number in a file of the box's control groups; -1: none has it. */
static int64_t group_number(const struct spec *spec, const char *name) {
    char path[4096], text[64];
    for (size_t i = 0; i < spec->cgroup.count; i++) {
        if (!*spec->cgroup.list[i]) continue;
        int size = snprintf(path, sizeof path, "%s/%s", spec->cgroup.list[i], name);
        if (size > 0 && (size_t)size < sizeof path && read_file(AT_FDCWD, path, text, sizeof text) > 0) return strtoll(text, NULL, 10);
    }
    return -1;
}

void usage_report(struct supervisor *s, struct writer *w) {
    const struct spec *spec = &s->box->spec;
    struct sample now = walk_sample(s->box->pid1, true);
    int64_t memory = group_number(spec, "memory.current");
    if (memory < 0) memory = group_number(spec, "memory.usage_in_bytes");
    wire_add_number(w, T_MEMORY, memory >= 0 ? memory : now.memory + in_memory_files(s->box));
    wire_add_number(w, T_PIDS, now.pids);
    wire_add_number(w, T_CPU_MS, now.cpu_ms);
    if (counts_disk(s->box)) wire_add_number(w, T_DISK, s->disk);
}
