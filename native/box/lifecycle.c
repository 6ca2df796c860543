/* running <-> paused -> gone, and when. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "layers.h"
#include "supervisor.h"
#include "usage.h"

enum { QUIESCE_MS = 100, AGAIN_MS = 5000 };

static const char *const NAMES[] = {[RUNNING] = "running", [FREEZING] = "running", [PAUSED] = "paused",
                                    [THAWING] = "paused",  [GONE] = "gone"};

void lifecycle_publish(struct supervisor *s) {
    struct box *box = s->box;
    struct state *state = box->state;
    char boot[64] = "", line[512], upper[32];
    layers_name(upper, "upper", state->layers);
    read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    boot[strcspn(boot, "\n")] = 0;
    int size = snprintf(line, sizeof line,
                        "state=%s reason=%s boot_id=%s since=%lld wall=%lld pid1=%d supervisor=%d holder=%d restarts=%d upper=%s\n",
                        NAMES[state->phase], state->reason[0] ? state->reason : "none", boot, (long long)state->since,
                        (long long)(wall_ms() - (boot_ms() - state->since)), (int)box->pid1, (int)getpid(), (int)box->holder,
                        (int)state->restarts, upper);
    int fd = openat(box->dir, "state.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && size > 0 && (size_t)size < sizeof line && write_all(fd, line, (size_t)size);
    if (fd >= 0) close(fd);
    if (!ok || renameat(box->dir, "state.new", box->dir, "state")) note("state: %s", strerror(errno));
    control_tell(s);
}

static void enter(struct supervisor *s, enum phase phase, const char *reason) {
    struct state *state = s->box->state;
    state->phase = phase;
    state->since = boot_ms();
    snprintf(state->reason, sizeof state->reason, "%s", reason);
    for (char *p = state->reason; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '=') *p = '-';
}

/* The agent closes connections that wait for nothing, so that their next use wakes the box. It may be hostile: a bounded wait. */
static void quiesce(struct supervisor *s) {
    struct box *box = s->box;
    static const uint8_t word = K_QUIESCE;
    uint8_t answer[64];
    if (send(box->handoff, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) return;
    for (int64_t end = boot_ms() + QUIESCE_MS, left; (left = end - boot_ms()) > 0;) {
        struct pollfd wait = {box->handoff, POLLIN, 0};
        if (poll(&wait, 1, (int)left) <= 0) return;
        ssize_t n = recv(box->handoff, answer, sizeof answer, MSG_DONTWAIT);
        if (n == 1 && answer[0] == K_EXEC) usage_soon(s);
        if (n <= 0 || answer[0] == K_QUIESCE) return;
    }
}

bool lifecycle_pause(struct supervisor *s, const char *reason) {
    struct box *box = s->box;
    struct state *state = box->state;
    if (state->phase == PAUSED) return true;
    if (s->ending) {
        errno = ESRCH;
        return false;
    }
    quiesce(s);
    state->phase = FREEZING;
    bool ok = freezer_freeze(box);
    int error = errno;
    if (!ok) {
        state->phase = RUNNING;
        note("freeze: %s", strerror(error));
        lifecycle_arm(s);
        errno = error;
        return false;
    }
    enter(s, PAUSED, reason);
    state->frozen_at = state->since;
    state->pause_at = 0;
    state->delete_at = state->delete_after_ms ? state->since + state->delete_after_ms : 0;
    lifecycle_publish(s);
    lifecycle_arm(s);
    return true;
}

bool lifecycle_resume(struct supervisor *s, const char *reason) {
    struct box *box = s->box;
    struct state *state = box->state;
    if (state->phase == RUNNING) return true;
    if (s->ending) {
        errno = ESRCH;
        return false;
    }
    state->phase = THAWING;
    int64_t now = boot_ms();
    if (state->frozen_at) { /* before anything runs: deadlines inside do not see the time that was frozen */
        atomic_fetch_add(&box->clocks->frozen_total_ms, now - state->frozen_at);
        state->frozen_at = 0;
    }
    if (!freezer_thaw(box)) {
        int error = errno;
        note("thaw: %s", strerror(error));
        errno = error;
        return false;
    }
    enter(s, RUNNING, reason);
    state->delete_at = 0;
    state->pause_at = state->pause_after_ms ? state->since + state->pause_after_ms : 0;
    atomic_store(&box->activity->last_ms, state->since);
    lifecycle_publish(s);
    lifecycle_arm(s);
    return true;
}

void lifecycle_kill(struct supervisor *s, const char *reason) {
    struct box *box = s->box;
    if (s->ending) return;
    s->ending = true;
    enter(s, GONE, reason);
    syscall(SYS_pidfd_send_signal, box->pid1_fd, SIGKILL, NULL, 0);
    freezer_let_die(box);
}

void lifecycle_take_over(struct supervisor *s) {
    struct state *state = s->box->state;
    if (state->phase == FREEZING) lifecycle_pause(s, "pause");
    else if (state->phase == THAWING) lifecycle_resume(s, "resume");
    if (state->resume_after) lifecycle_resume(s, "snapshot"); /* whoever made it has lost its connection to us */
    state->resume_after = false;
    lifecycle_publish(s);
    lifecycle_arm(s);
}

static int64_t idle_at(const struct box *box) {
    const struct state *state = box->state;
    if (!state->idle_ms || state->phase != RUNNING) return 0;
    int64_t last = atomic_load(&box->activity->last_ms), now = boot_ms();
    if (atomic_load(&box->activity->busy) || last > now) last = now;
    if (last < state->since) last = state->since;
    return last + state->idle_ms;
}

/* Not at once after an attempt that failed: each one is seconds in which nothing else is done. */
static int64_t later(const struct supervisor *s, int64_t at) { return at && at < s->again_at ? s->again_at : at; }

/* The next moment at which something is due; 0: none. */
static int64_t next_due(const struct supervisor *s) {
    const struct box *box = s->box;
    const struct state *state = box->state;
    const int64_t times[] = {later(s, state->phase == RUNNING ? state->pause_at : 0), later(s, idle_at(box)),
                             state->phase == PAUSED && !s->snapshot ? state->delete_at : 0, s->gateway_at, usage_due(s)};
    int64_t due = 0;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i] && (!due || times[i] < due)) due = times[i];
    return due;
}

void lifecycle_arm(struct supervisor *s) {
    int64_t due = next_due(s);
    struct itimerspec when = {.it_value = {due / 1000, due % 1000 * 1000000}};
    if (timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &when, NULL)) note("timer: %s", strerror(errno));
}

void lifecycle_tick(struct supervisor *s) {
    struct state *state = s->box->state;
    int64_t now = boot_ms(), idle = idle_at(s->box);
    gateway_tick(s);
    usage_tick(s);
    if (state->phase == PAUSED && !s->snapshot && state->delete_at && now >= state->delete_at) {
        lifecycle_kill(s, "auto-delete");
    } else if (state->phase == RUNNING && now >= s->again_at && ((state->pause_at && now >= state->pause_at) || (idle && now >= idle))) {
        bool timeout = state->pause_at && now >= state->pause_at;
        if (!lifecycle_pause(s, timeout ? "timeout" : "idle")) s->again_at = boot_ms() + AGAIN_MS;
    }
    lifecycle_arm(s);
}
