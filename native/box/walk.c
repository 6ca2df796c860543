#include "walk.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "box.h"

enum { DEPTH_MAX = 4096, FDS_SEEN = 4096 };

static void of_task(pid_t pid, const char *task, void (*visit)(void *, pid_t), void *context) {
    static char text[1 << 16];
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", (int)pid, task);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    size_t left = 0, count = 0, room = 0;
    pid_t *found = NULL;
    for (;;) {
        ssize_t n = read(fd, text + left, sizeof text - 1 - left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        text[left + (size_t)n] = 0;
        char *at = text;
        for (char *end; (end = strchr(at, ' ')); at = end + 1) {
            if (count == room) {
                pid_t *more = room > STOPPED_MAX ? NULL : realloc(found, (room = room ? room * 2 : 64) * sizeof *found);
                if (!more) break;
                found = more;
            }
            found[count++] = (pid_t)atoi(at);
        }
        left = strlen(at);
        memmove(text, at, left);
        if (left > 32) break;
    }
    close(fd);
    for (size_t i = 0; i < count; i++) visit(context, found[i]);
    free(found);
}

void walk_children(pid_t pid, void (*visit)(void *, pid_t), void *context) {
    static int depth;
    if (++depth < DEPTH_MAX) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
        DIR *tasks = opendir(path);
        for (struct dirent *entry; tasks && (entry = readdir(tasks));)
            if (isdigit((unsigned char)entry->d_name[0])) of_task(pid, entry->d_name, visit, context);
        if (tasks) closedir(tasks);
    }
    depth--;
}

static bool read_proc(const char *place, const char *name, char *into, size_t room) {
    char path[WALK_PLACE + 16];
    snprintf(path, sizeof path, "%s/%s", place, name);
    return read_file(AT_FDCWD, path, into, room) > 0;
}

enum { STAT_ROOM = 1024 };
/* The fields of proc_pid_stat(5) from the third on, which is a letter, in `text`; NULL: it is gone. */
static char *stat_of(const char *place, char text[STAT_ROOM]) {
    char *end = read_proc(place, "stat", text, STAT_ROOM) ? strrchr(text, ')') : NULL; /* the name may have anything in it */
    return end && strlen(end) > 4 ? end + 2 : NULL;
}

static void place_of(pid_t pid, char place[WALK_PLACE]) { snprintf(place, WALK_PLACE, "/proc/%d", (int)pid); }

static char letter_of(const char *place) {
    char text[STAT_ROOM], *at = stat_of(place, text);
    return at ? *at : 0;
}

static bool stopped(char letter) { return letter == 'T' || letter == 't'; }
static bool ended(char letter) { return !letter || letter == 'Z' || letter == 'X'; }

/* The letter of a thread other than the first, and its place: of any that lives, or `running`, of one that is not stopped either. */
static char other_thread(pid_t pid, char place[WALK_PLACE], bool running) {
    char path[64], letter = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && !letter && (entry = readdir(tasks));) {
        if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == (int)pid) continue;
        snprintf(place, WALK_PLACE, "%s/%.16s", path, entry->d_name);
        letter = letter_of(place);
        if (ended(letter) || (running && stopped(letter))) letter = 0;
    }
    if (tasks) closedir(tasks);
    return letter;
}

bool walk_other_thread(pid_t pid, char place[WALK_PLACE]) {
    place_of(pid, place);
    char letter = letter_of(place);
    return letter && ended(letter) && other_thread(pid, place, false);
}

char walk_state(pid_t pid) {
    char place[WALK_PLACE], other = 0;
    place_of(pid, place);
    char letter = letter_of(place);
    if (letter && (stopped(letter) || ended(letter))) other = other_thread(pid, place, true);
    if (letter && !other && ended(letter)) other = other_thread(pid, place, false);
    return other ? other : letter;
}

static pid_t parent_of(pid_t pid) {
    char place[WALK_PLACE], text[STAT_ROOM], *at;
    place_of(pid, place);
    at = stat_of(place, text);
    return at ? (pid_t)atoi(at + 2) : 0;
}

/* A pidfd of `pid` if it still is below `first`; -1: it is not. */
static int below(pid_t first, pid_t pid) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0); /* from here on it is this one, or none */
    if (fd < 0) return -1;
    pid_t above = parent_of(pid);
    for (int steps = 0; above > 1 && above != first && steps < DEPTH_MAX; steps++) above = parent_of(above);
    if (above == first) return fd;
    close(fd);
    return -1;
}

bool walk_signal(pid_t first, pid_t pid, int signo) {
    int fd = below(first, pid);
    bool ok = fd >= 0 && !syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0);
    if (fd >= 0) close(fd);
    return ok;
}

bool walk_kill(pid_t first, pid_t pid, int wait_ms) {
    struct pollfd end = {below(first, pid), POLLIN, 0};
    if (end.fd < 0) return false;
    bool ok = !syscall(SYS_pidfd_send_signal, end.fd, SIGKILL, NULL, 0) && poll(&end, 1, wait_ms) == 1;
    close(end.fd);
    return ok;
}

struct look {
    struct sample sample;
    bool exact;
    pid_t first, parent; /* `parent`: of the one that is looked at; 0: of the first */
    int64_t shared, page;
    ino_t seen[FDS_SEEN];
    size_t seen_count;
};

static int64_t kilobytes(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtoll(at + strlen(name), NULL, 10) * 1024 : 0;
}

static int64_t memory_of(struct look *l, const char *place) {
    char text[4096];
    if (l->exact && read_proc(place, "smaps_rollup", text, sizeof text)) {
        l->shared += kilobytes(text, "\nPss_Shmem:");
        return kilobytes(text, "\nPss_Anon:") + kilobytes(text, "\nSwapPss:");
    }
    if (!read_proc(place, "statm", text, sizeof text)) return 0;
    const char *at = strchr(text, ' ');
    return at ? strtoll(at, NULL, 10) * l->page : 0;
}

static void cpu_of(struct look *l, const char *place) {
    char text[STAT_ROOM], *at = stat_of(place, text);
    for (int field = 3; field < 14 && at; field++) at = (at = strchr(at + 1, ' ')) ? at : NULL;
    for (int i = 0; at && i < 4; i++) l->sample.cpu_ms += strtoll(at, &at, 10) * 1000 / sysconf(_SC_CLK_TCK);
}

/* Files that have no name any more, each once. */
static void descriptors_of(struct look *l, const char *place) {
    char path[WALK_PLACE + 4], link[32];
    struct stat info;
    snprintf(path, sizeof path, "%s/fd", place);
    DIR *all = opendir(path);
    for (struct dirent *entry; all && (entry = readdir(all));) {
        ssize_t size = readlinkat(dirfd(all), entry->d_name, link, sizeof link - 1);
        if (size <= 0 || link[0] != '/' || fstatat(dirfd(all), entry->d_name, &info, 0) || !S_ISREG(info.st_mode) || info.st_nlink) continue;
        link[size] = 0;
        bool known = false;
        for (size_t i = 0; i < l->seen_count && !known; i++) known = l->seen[i] == info.st_ino;
        if (known || !info.st_blocks) continue;
        if (l->seen_count < FDS_SEEN) l->seen[l->seen_count++] = info.st_ino;
        if (!strncmp(link, "/memfd:", 7)) l->sample.memfd += info.st_blocks * 512;
        else if (strncmp(link, "/dev/shm/", 9) && strncmp(link, "/run/", 5)) l->sample.unlinked += info.st_blocks * 512;
    }
    if (all) closedir(all);
}

static void look_at(void *context, pid_t pid) {
    struct look *l = context;
    char place[WALK_PLACE];
    place_of(pid, place);
    cpu_of(l, place); /* of all of its threads */
    pid_t parent = l->parent;
    int64_t bytes = 0, shared = l->shared, memfd = l->sample.memfd;
    /* One that has not become a program yet (see exec.c) has the memory of its parent. */
    if (!l->exact || !parent || syscall(SYS_kcmp, parent, pid, KCMP_VM, 0, 0)) {
        bytes = memory_of(l, place);
        if (!bytes && walk_other_thread(pid, place)) bytes = memory_of(l, place);
    }
    l->sample.pids++;
    l->sample.memory += bytes;
    if (pid != l->first) descriptors_of(l, place);
    shared = l->shared - shared;
    memfd = l->sample.memfd - memfd;
    bytes += shared > memfd ? shared : memfd;
    if (pid != l->first && bytes >= l->sample.largest_bytes) {
        l->sample.largest = pid;
        l->sample.largest_bytes = bytes;
    }
    l->parent = pid;
    walk_children(pid, look_at, l);
    l->parent = parent;
}

struct sample walk_sample(pid_t first, bool exact) {
    static struct look l;
    memset(&l, 0, sizeof l);
    l.exact = exact;
    l.first = first;
    l.page = sysconf(_SC_PAGESIZE);
    look_at(&l, first);
    /* A file in memory that is also mapped is counted once. */
    l.sample.memory += l.shared > l.sample.memfd ? l.shared : l.sample.memfd;
    return l.sample;
}
