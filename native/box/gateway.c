/* Keeps the box attached to the gateway of its user: gives it the sockets of the box, starts it when there is none. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor.h"

enum { PLAN_MAX = 192 << 10, SOON_MS = 20, LATER_MS = 1000, SOON_TRIES = 100 };

static int connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *slash = strrchr(path, '/');
    char folder[4096];
    errno = EINVAL;
    if (!slash || (size_t)(slash - path) >= sizeof folder || strlen(slash) > 64) return -1;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = 0;
    int dir = open(*folder ? folder : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return -1;
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d%s", dir, slash); /* a path may be longer than its room */
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address)) {
        int error = errno;
        close(fd);
        fd = -1;
        errno = error;
    }
    int error = errno;
    close(dir);
    errno = error;
    return fd;
}

/* The plan goes along as it is now: the gateway reads the newest again. False: errno. */
static bool attach(struct supervisor *s) {
    struct box *box = s->box;
    int pair[2], fds[NETWORK_FDS + 1];
    int fd = connect_to(box->spec.gateway_socket);
    if (fd < 0) return false;
    char *plan = malloc(PLAN_MAX);
    ssize_t size = plan ? read_file(box->dir, "network.json", plan, PLAN_MAX) : -1;
    bool ok = size > 0 && !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
    if (ok) {
        fds[0] = pair[1];
        memcpy(fds + 1, box->network, (size_t)box->network_count * sizeof *fds);
        ok = send_message(fd, plan, (size_t)size, fds, box->network_count + 1);
        close(pair[1]);
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = SLOT_GATEWAY};
        ok = ok && !epoll_ctl(s->epoll, EPOLL_CTL_ADD, pair[0], &event);
        if (ok) s->channel = pair[0];
        else close(pair[0]);
    }
    int error = errno;
    free(plan);
    close(fd);
    errno = error;
    return ok;
}

/* Of all boxes of a user that miss their gateway one starts it: the others would only keep the processors busy. */
static bool our_turn(struct supervisor *s) {
    char path[4200];
    if (s->turn >= 0) return true;
    int size = snprintf(path, sizeof path, "%s.starting", s->box->spec.gateway_socket);
    if (size < 0 || (size_t)size >= sizeof path) return true;
    s->turn = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->turn < 0 || !flock(s->turn, LOCK_EX | LOCK_NB)) return true;
    close(s->turn);
    s->turn = -1;
    return false;
}

static void start(struct supervisor *s) {
    const struct texts *argv = &s->box->spec.gateway_argv;
    char *list[SPEC_LIST + 1];
    if (!argv->count || s->starter > 0 || !our_turn(s)) return;
    for (size_t i = 0; i < argv->count; i++) list[i] = (char *)argv->list[i];
    list[argv->count] = NULL;
    s->starter = fork();
    if (s->starter) return;
    for (int i = 1; i < 32; i++) signal(i, SIG_DFL);
    syscall(SYS_close_range, 3U, ~0U, 0U);
    execv(list[0], list);
    note("gateway: %s: %s", list[0], strerror(errno));
    _exit(127);
}

/* Whether what started it ended badly. */
static bool start_failed(struct supervisor *s) {
    int status;
    if (s->starter <= 0 || waitpid(s->starter, &status, WNOHANG) != s->starter) return false;
    s->starter = 0;
    if (s->turn >= 0) close(s->turn);
    s->turn = -1;
    return !WIFEXITED(status) || WEXITSTATUS(status);
}

void gateway_tick(struct supervisor *s) {
    if (!s->box->spec.gateway || s->ending || (s->gateway_at && boot_ms() < s->gateway_at)) return;
    bool failed = start_failed(s);
    s->gateway_at = s->starter > 0 ? boot_ms() + SOON_MS : 0;
    if (s->channel >= 0) return;
    if (attach(s)) {
        s->gateway_tries = 0;
        return; /* what started it is looked after in the next tick */
    }
    if (s->gateway_tries == 0 || failed) note("gateway: %s", failed ? "it could not be started" : strerror(errno));
    if (!failed) start(s);
    s->gateway_at = boot_ms() + (!failed && ++s->gateway_tries < SOON_TRIES ? SOON_MS : LATER_MS);
}

void gateway_heard(struct supervisor *s) {
    char text[4096];
    ssize_t size = recv(s->channel, text, sizeof text - 1, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size > 0) return; /* how it went: the gateway keeps its own log */
    close(s->channel);
    s->channel = -1;
    gateway_tick(s);
    lifecycle_arm(s);
}

void gateway_leave(struct supervisor *s) {
    static const char word[] = "{\"do\":\"close\"}";
    if (s->channel >= 0) send(s->channel, word, sizeof word - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}
