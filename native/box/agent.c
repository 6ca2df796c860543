#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct agent agent;

/* The clock first: frozen between the two, we may only find that less time went by than did. */
int64_t active_ms(void) {
    int64_t now = boot_ms();
    return now - agent.frozen_more_ms - (agent.setup.clocks ? atomic_load(&agent.setup.clocks->frozen_total_ms) : 0);
}

bool source_watch(struct source *source, uint32_t events) {
    if (source->fd < 0 || source->events == events) return true;
    struct epoll_event event = {.events = events, .data.ptr = source};
    int verb = !source->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    if (epoll_ctl(agent.epoll, verb, source->fd, &event)) return false;
    source->events = events;
    return true;
}

void source_close(struct source *source) {
    if (source->fd < 0) return;
    source_watch(source, 0); /* a copy of the descriptor may live on in a child for a moment */
    close(source->fd);
    source->fd = -1;
    source->events = 0;
}

void agent_due(int64_t at) {
    if (agent.timer_at && agent.timer_at <= at) return;
    agent.timer_at = at;
    int64_t when = boot_ms() + (at - active_ms());
    if (when < 1) when = 1;
    struct itimerspec spec = {.it_value = {when / 1000, when % 1000 * 1000000}};
    timerfd_settime(agent.timer.fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void agent_busy(int change) {
    atomic_fetch_add(&agent.setup.activity->busy, change);
    atomic_store(&agent.setup.activity->last_ms, boot_ms());
}

int64_t agent_memory_kills(void) {
    char text[512];
    int64_t count = agent.setup.clocks ? atomic_load(&agent.setup.clocks->memory_kills) : 0;
    ssize_t size = agent.setup.oom >= 0 ? pread(agent.setup.oom, text, sizeof text - 1, 0) : -1;
    text[size > 0 ? size : 0] = 0;
    const char *at = strstr(text, "oom_kill ");
    return at ? count + strtoll(at + 9, NULL, 10) : count;
}

int64_t agent_disk_kills(void) { return agent.setup.clocks ? atomic_load(&agent.setup.clocks->disk_kills) : 0; }

void agent_tell_usage(void) {
    static const uint8_t word = K_EXEC;
    const struct spec *spec = agent.setup.spec;
    if (agent.handoff.fd >= 0 && ((spec->by_rlimit && spec->memory_max) || spec->disk_max))
        send(agent.handoff.fd, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void timer_fired(void) {
    uint64_t ticks;
    if (read(agent.timer.fd, &ticks, sizeof ticks) != sizeof ticks) return;
    agent.timer_at = 0;
    process_timers(active_ms());
}

static void reap(void) {
    struct signalfd_siginfo info[8];
    while (read(agent.signals.fd, info, sizeof info) > 0) continue;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        connection_worker_ended(pid, status);
        process_reap(pid, status);
    }
}

static void hear_supervisor(void) {
    uint8_t text[64];
    int fd[1], count;
    ssize_t n = receive_message(agent.handoff.fd, text, sizeof text, fd, &count, 1);
    if (n == 0 || (n < 0 && errno != EAGAIN)) _exit(0); /* nobody is left who could end this box: it ends itself */
    if (n < 1) return;
    if (text[0] == K_HELLO && count) {
        connection_open(fd[0]);
        return;
    }
    if (count) close(fd[0]);
    if (text[0] == K_QUIESCE) {
        connections_quiesce();
        static const uint8_t word = K_QUIESCE;
        send_message(agent.handoff.fd, &word, 1, NULL, 0);
    }
}

static void accept_client(void) {
    int fd = accept4(agent.listen.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) connection_open(fd);
}

static void dispatch(struct source *source, uint32_t events) {
    if (source->fd < 0) return; /* closed by an event before this one */
    switch (source->kind) {
    case S_HANDOFF: hear_supervisor(); return;
    case S_LISTEN: accept_client(); return;
    case S_SIGNALS: reap(); return;
    case S_TIMER: timer_fired(); return;
    case S_CONNECTION: connection_ready(source->owner, events); return;
    case S_OUT:
    case S_ERR: process_readable(source->owner, source); return;
    case S_IN: process_writable(source->owner); return;
    case S_DIAL: dial_ready(source->owner, false, events); return;
    case S_WAKE: standalone_tick(); return;
    case S_PROXY: relay_accept(); return;
    case S_RELAY: relay_ready(source); return;
    case S_RETRY: relay_retry(); return;
    }
}

static bool prepare(const struct agent_setup *setup) {
    sigset_t blocked;
    agent.setup = *setup;
    agent.next_id = 1;
    for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    if (sigprocmask(SIG_SETMASK, &blocked, NULL)) return false;
    agent.epoll = epoll_create1(EPOLL_CLOEXEC);
    agent.signals = (struct source){S_SIGNALS, signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK), 0, NULL};
    agent.timer = (struct source){S_TIMER, timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK), 0, NULL};
    agent.handoff = (struct source){S_HANDOFF, setup->handoff, 0, NULL};
    agent.listen = (struct source){S_LISTEN, setup->listen, 0, NULL};
    if (agent.epoll < 0 || agent.signals.fd < 0 || agent.timer.fd < 0) return false;
    if (setup->spec->proxy) relay_listen(setup->spec->proxy);
    return source_watch(&agent.signals, EPOLLIN) && source_watch(&agent.timer, EPOLLIN) &&
           source_watch(&agent.handoff, EPOLLIN) && source_watch(&agent.listen, EPOLLIN);
}

int agent_run(const struct agent_setup *setup) {
    if (!prepare(setup)) return 1;
    for (;;) {
        struct epoll_event events[64];
        int n = epoll_wait(agent.epoll, events, 64, -1);
        if (n < 0 && errno != EINTR) return 1;
        for (int i = 0; i < n; i++) dispatch(events[i].data.ptr, events[i].events);
        if (agent.stalled) connections_go_on();
        connections_sweep();
        processes_sweep();
        relays_sweep();
    }
}
