/* `box run DIR`: the process that a box hangs on. It starts pid 1 and a supervisor, and a new supervisor when that one died. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RESTARTS_IN_A_ROW = 20, RESTART_WINDOW_MS = 10000 };

static char told[256]; /* why it cannot start */

static bool failed(const char *stage) {
    int error = errno;
    if (!told[0]) snprintf(told, sizeof told, "error stage=%s errno=%d message=%s", stage, error, strerror(error));
    return false;
}

static bool refused(const char *text) {
    snprintf(told, sizeof told, "error stage=refused errno=%d message=%s", EINVAL, text);
    return false;
}

static void *page(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static int listener(int dir, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", dir, name);
    if (unlinkat(dir, name, 0) && errno != ENOENT) return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 128)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool load_spec(struct box *box) {
    static char text[SPEC_MAX];
    char wrong[128];
    ssize_t size = read_file(box->dir, "spec", text, sizeof text);
    if (size < 0) return failed("spec");
    if (!spec_parse(text, (size_t)size, &box->spec, wrong, sizeof wrong)) return refused(wrong);
    bool root = geteuid() == 0;
    if (!root && box->spec.uid_count) return refused("spec: uid_base needs root");
    if (root && !box->spec.uid_count) return refused("spec: root needs uid_base and uid_count: a box never has the id of root");
    return true;
}

bool holder_make_layer(struct box *box, const char *name) {
    if (!mkdirat(box->dir, name, 0755)) {
        if (fchmodat(box->dir, name, 0755, 0)) return false;
        if (!box->spec.uid_count) return true;
        return !fchownat(box->dir, name, (uid_t)box->spec.uid_base, (gid_t)box->spec.uid_base, AT_SYMLINK_NOFOLLOW);
    }
    struct stat info;
    if (errno != EEXIST || fstatat(box->dir, name, &info, AT_SYMLINK_NOFOLLOW)) return false;
    errno = ENOTDIR;
    return S_ISDIR(info.st_mode);
}

static bool prepare(struct box *box, const char *path) {
    struct stat info;
    umask(077);
    box->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (box->dir < 0 || fstat(box->dir, &info)) return failed("directory");
    if (info.st_uid != geteuid() || info.st_mode & 022) return refused("the directory is not ours, or others may write to it");
    box->lock = openat(box->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (box->lock < 0 || flock(box->lock, LOCK_EX | LOCK_NB)) return failed("lock");
    if (!load_spec(box)) return false;
    if (!box->spec.tmpfs_bytes && (!holder_make_layer(box, "upper") || !holder_make_layer(box, "work"))) return failed("upper");
    box->log = openat(box->dir, "log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (box->log < 0) return failed("log");
    box->agent_listen = listener(box->dir, "agent.sock");
    box->control_listen = listener(box->dir, "ctl.sock");
    if (box->agent_listen < 0 || box->control_listen < 0) return failed("socket");
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return failed("socketpair");
    box->handoff = pair[0];
    box->handoff_inside = pair[1];
    box->state = page(sizeof *box->state);
    box->clocks = page(4096);
    box->activity = page(4096);
    if (!box->state || !box->clocks || !box->activity) return failed("memory");
    struct state *s = box->state;
    s->since = boot_ms();
    s->pause_after_ms = box->spec.pause_after_ms;
    s->idle_ms = box->spec.idle_ms;
    s->delete_after_ms = box->spec.delete_after_ms;
    s->wake = box->spec.wake != 0;
    if (s->pause_after_ms) s->pause_at = s->since + s->pause_after_ms;
    atomic_store(&box->activity->last_ms, s->since);
    return true;
}

/* The range of a box of root, or the one identity that a user has to give. */
static bool map_ids(const struct box *box) {
    char path[64], map[64];
    const struct spec *s = &box->spec;
    snprintf(path, sizeof path, "/proc/%d/setgroups", (int)box->pid1);
    if (!s->uid_count && !write_file(AT_FDCWD, path, "deny")) return false;
    for (int group = 0; group < 2; group++) {
        long long outside = s->uid_count ? (long long)s->uid_base : group ? (long long)getegid() : (long long)geteuid();
        long long inside = s->uid_count ? 0 : (long long)s->map_uid, count = s->uid_count ? (long long)s->uid_count : 1;
        snprintf(path, sizeof path, "/proc/%d/%s", (int)box->pid1, group ? "gid_map" : "uid_map");
        snprintf(map, sizeof map, "%lld %lld %lld\n", inside, outside, count);
        if (!write_file(AT_FDCWD, path, map)) return false;
    }
    return true;
}

/* What pid 1 says: "ready", or where it failed. */
static bool hear_ready(struct box *box) {
    char text[200];
    ssize_t n = receive_message(box->handoff, text, sizeof text - 1, box->network, &box->network_count, NETWORK_FDS);
    if (n <= 0) {
        errno = ECHILD;
        return failed("inside");
    }
    text[n] = 0;
    if (!strcmp(text, "ready")) return true;
    for (ssize_t i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] > '~') text[i] = '?';
    snprintf(told, sizeof told, "error %s", text);
    return false;
}

static bool start_inside(struct box *box) {
    int go[2];
    if (pipe2(go, O_CLOEXEC)) return failed("pipe");
    long flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD;
    box->pid1 = (pid_t)syscall(SYS_clone, flags, 0L, 0L, 0L, 0L);
    if (box->pid1 < 0) return failed("namespaces");
    if (!box->pid1) {
        close(go[1]);
        inside_run(box, go[0]);
    }
    close(go[0]);
    close(box->handoff_inside);
    box->handoff_inside = -1;
    box->pid1_fd = (int)syscall(SYS_pidfd_open, box->pid1, 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)box->pid1);
    box->user_namespace = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)box->pid1);
    box->mount_namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (box->pid1_fd < 0) failed("pidfd");
    else if (box->user_namespace < 0 || box->mount_namespace < 0) failed("namespaces");
    else if (!map_ids(box)) failed("ids");
    else if (!limits_enter(&box->spec, box->pid1)) failed("cgroup");
    else if (!write_all(go[1], "g", 1)) failed("go");
    close(go[1]);
    if (told[0] || !hear_ready(box)) {
        kill(box->pid1, SIGKILL);
        waitpid(box->pid1, NULL, 0);
        limits_release(&box->spec);
        return false;
    }
    return true;
}

static void hold_one(struct box *box, const char *path) {
    struct stat info, other;
    int fd = box->memory_count < SPEC_LIST ? enter_open(box, path) : -1;
    if (fd < 0) return;
    bool known = fstat(fd, &info) != 0;
    for (int i = 0; i < box->memory_count && !known; i++) known = !fstat(box->memory[i], &other) && other.st_dev == info.st_dev;
    if (known) close(fd);
    else box->memory[box->memory_count++] = fd;
}

/* Before anything runs in the box that could move them. */
static void hold_memory(struct box *box) {
    const struct spec *s = &box->spec;
    char path[4096];
    if (!s->by_rlimit || !s->memory_max) return;
    hold_one(box, "/dev/shm");
    hold_one(box, "/run");
    if (s->tmpfs_bytes) hold_one(box, "/");
    for (size_t i = 0; i < s->tmpfs.count; i++) {
        struct spec_tmpfs item;
        if (!spec_tmpfs(s->tmpfs.list[i], &item) || item.path_size >= sizeof path) continue;
        memcpy(path, s->tmpfs.list[i], item.path_size);
        path[item.path_size] = 0;
        hold_one(box, path);
    }
}

static pid_t start_supervisor(struct box *box) {
    pid_t pid = fork();
    if (pid) return pid;
    if (box->report >= 0) close(box->report); /* who waits for the end of it does not wait for us */
    box->holder_fd = (int)syscall(SYS_pidfd_open, box->holder, 0);
    if (getppid() != box->holder) box->holder_fd = -1; /* it died before we looked */
    supervisor_run(box);
}

/* Who hears that a box is ready finds its `state`. */
static void start_first(struct box *box) {
    int up[2];
    char byte;
    if (pipe2(up, O_CLOEXEC)) up[0] = up[1] = -1;
    box->first_up = up[1];
    box->supervisor = start_supervisor(box);
    box->report = -1;
    close(up[1]);
    while (read(up[0], &byte, 1) < 0 && errno == EINTR) continue; /* its end, which also its death brings */
    close(up[0]);
    box->first_up = -1;
}

/* Ends when pid 1 has ended and a supervisor has cleaned up. */
static int hold(struct box *box) {
    pid_t supervisor = box->supervisor;
    bool alive = true;
    int in_a_row = 0;
    int64_t last = boot_ms();
    while (supervisor > 0) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) break;
        if (pid == box->pid1) alive = false;
        if (pid != supervisor) continue;
        if (!alive && WIFEXITED(status) && !WEXITSTATUS(status)) return 0;
        int64_t now = boot_ms();
        in_a_row = now - last > RESTART_WINDOW_MS ? 1 : in_a_row + 1;
        last = now;
        if (in_a_row > RESTARTS_IN_A_ROW) break;
        box->state->restarts++;
        supervisor = start_supervisor(box);
    }
    kill(box->pid1, SIGKILL); /* nobody could pause or end it any more */
    return 1;
}

static void without_terminal(const struct box *box) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, 0);
        dup2(null, 1);
        if (null > 2) close(null);
    }
    dup2(box->log, 2);
}

static void signals(void) {
    static const int ignored[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGPIPE, SIGTTIN, SIGTTOU, SIGTSTP, SIGUSR1, SIGUSR2};
    sigset_t none;
    sigemptyset(&none);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The line for whoever started us goes through `report`. */
static int become_holder(const char *path, int report) {
    static struct box box;
    memset(&box, 0, sizeof box);
    box.report = report;
    box.first_up = -1;
    signals();
    bool ready = prepare(&box, path);
    if (ready) {
        box.holder = getpid();
        without_terminal(&box);
        ready = start_inside(&box);
        prctl(PR_SET_DUMPABLE, 0); /* not before: the maps of a child that is not dumpable belong to root */
    }
    if (ready) hold_memory(&box);
    if (ready) start_first(&box);
    if (ready) snprintf(told, sizeof told, "ready holder=%d pid1=%d", (int)box.holder, (int)box.pid1);
    else note("%s", told);
    size_t size = strlen(told);
    told[size] = '\n';
    bool heard = write_all(report, told, size + 1);
    close(report);
    (void)heard; /* a starter that is gone changes nothing: the box can be reached by its directory */
    return ready ? hold(&box) : 1;
}

int holder_run(const char *path, bool foreground) {
    int report[2];
    if (pipe2(report, O_CLOEXEC)) return 1;
    pid_t pid = fork();
    if (pid < 0) return 1;
    if (!pid) {
        close(report[0]);
        setsid();
        _exit(become_holder(path, report[1]));
    }
    close(report[1]);
    char line[sizeof told + 1];
    size_t size = 0;
    ssize_t n;
    while (size < sizeof line && (n = read(report[0], line + size, sizeof line - size)) > 0) size += (size_t)n;
    bool ready = size > 6 && !memcmp(line, "ready ", 6);
    if (size && !write_all(ready ? 1 : 2, line, size)) return 1;
    if (!foreground || !ready) return ready ? 0 : 1;
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
