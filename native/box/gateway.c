/* The supervisor's side of the network: the user's gateway gets the box's sockets, and again whenever another one is there. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor.h"

enum { PLAN_MAX = 192 << 10, WAIT_MIN_MS = 20, WAIT_MAX_MS = 5000, STEADY_MS = 2000 };

static void drop(struct supervisor *s, int *fd) {
    if (*fd < 0) return;
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, *fd, NULL);
    close(*fd);
    *fd = -1;
}

/* What failed is tried again, less and less often. */
static void later(struct supervisor *s) {
    struct attachment *a = &s->gateway;
    if (boot_ms() - a->since > STEADY_MS) a->wait = 0;
    a->wait = a->wait ? (a->wait * 2 > WAIT_MAX_MS ? WAIT_MAX_MS : a->wait * 2) : WAIT_MIN_MS;
    struct itimerspec at = {.it_value = {a->wait / 1000, a->wait % 1000 * 1000000}};
    timerfd_settime(a->timer, 0, &at, NULL);
}

/* A connection to the gateway, however long the path of its socket is. */
static int reach(const char *path) {
    char folder[4096];
    const char *name = strrchr(path, '/');
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!name || (size_t)(name - path) >= sizeof folder || strlen(name + 1) > 64) {
        errno = EINVAL;
        return -1;
    }
    memcpy(folder, path, (size_t)(name - path));
    folder[name - path] = 0;
    int dir = open(*folder ? folder : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return -1;
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", dir, name + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address)) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    close(dir);
    return fd;
}

/* The plan with the sockets, the channel of the attachment first. */
static bool give(struct supervisor *s, int to) {
    static char plan[PLAN_MAX];
    int fds[NETWORK_FDS + 1], pair[2];
    ssize_t size = read_file(s->box->dir, "network.json", plan, sizeof plan);
    if (size <= 0) return false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)) return false;
    fds[0] = pair[1];
    memcpy(fds + 1, s->box->network, (size_t)s->box->network_count * sizeof *fds);
    bool ok = send_message(to, plan, (size_t)size, fds, s->box->network_count + 1);
    close(pair[1]);
    s->gateway.channel = pair[0];
    if (ok && supervisor_watch(s, pair[0], SLOT_GATEWAY)) return true;
    drop(s, &s->gateway.channel);
    return false;
}

static _Noreturn void run_starter(struct supervisor *s) {
    static const int back[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGPIPE, SIGTTIN, SIGTTOU, SIGTSTP, SIGUSR1, SIGUSR2};
    const struct texts *argv = &s->box->spec.gateway_argv;
    static char *list[SPEC_LIST + 1];
    for (size_t i = 0; i < sizeof back / sizeof *back; i++) signal(back[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, 0);
    memcpy(list, argv->list, argv->count * sizeof *list);
    execvp(list[0], list);
    note("gateway: %s: %s", list[0], strerror(errno));
    _exit(127);
}

/* The command returns when one listens. */
static void start(struct supervisor *s) {
    struct attachment *a = &s->gateway;
    if (!s->box->spec.gateway_argv.count) {
        later(s);
        return;
    }
    a->starter_pid = fork();
    if (!a->starter_pid) run_starter(s);
    a->starter = a->starter_pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, a->starter_pid, 0);
    if (a->starter >= 0 && supervisor_watch(s, a->starter, SLOT_GATEWAY_START)) return;
    note("gateway: %s", strerror(errno));
    later(s);
}

static void attach(struct supervisor *s, bool fresh) {
    struct attachment *a = &s->gateway;
    if (a->channel >= 0 || a->starter >= 0) return;
    int to = reach(s->box->spec.gateway_socket);
    if (to < 0 && !fresh && (errno == ENOENT || errno == ECONNREFUSED)) {
        start(s);
        return;
    }
    bool given = to >= 0 && give(s, to);
    if (!given) note("gateway: %s", strerror(errno));
    if (to >= 0) close(to);
    if (given) a->since = boot_ms();
    else later(s);
}

void gateway_begin(struct supervisor *s) {
    struct attachment *a = &s->gateway;
    a->channel = a->starter = a->timer = -1;
    if (!s->box->network_count || !*s->box->spec.gateway_socket) return;
    a->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (a->timer < 0 || !supervisor_watch(s, a->timer, SLOT_GATEWAY_TIMER)) {
        note("gateway: %s", strerror(errno));
        return;
    }
    attach(s, false);
}

void gateway_heard(struct supervisor *s) {
    char said[4096];
    ssize_t n = recv(s->gateway.channel, said, sizeof said - 1, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) {
        said[n] = 0;
        for (ssize_t i = 0; i < n; i++)
            if (said[i] < ' ') said[i] = '?';
        if (strstr(said, "\"error\"")) note("gateway: %s", said);
        return;
    }
    drop(s, &s->gateway.channel);
    if (boot_ms() - s->gateway.since > STEADY_MS) attach(s, false); /* it died: programs wait for the next one */
    else later(s);
}

void gateway_tick(struct supervisor *s) {
    uint64_t ticks;
    if (read(s->gateway.timer, &ticks, sizeof ticks) == sizeof ticks) attach(s, false);
}

void gateway_started(struct supervisor *s) {
    int status = 0;
    drop(s, &s->gateway.starter);
    waitpid(s->gateway.starter_pid, &status, 0);
    if (status) note("gateway: its start ended with status %d", status);
    attach(s, true);
}
