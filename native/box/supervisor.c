/* One loop over: the box's two lives (pid 1, holder), its two sockets, what its agent says, its clock. */
#include "supervisor.h"
#include "usage.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

static bool watch(struct supervisor *s, int fd, uint64_t slot) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = slot};
    return !epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event);
}

static bool same_user(int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && (peer.uid == geteuid() || peer.uid == 0);
}

static void turn_away(int fd) {
    uint8_t room[256];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_ERROR);
    wire_add_number(&w, T_ERRNO, EBUSY);
    wire_add_text(&w, T_MESSAGE, "the box is paused, and does not wake by itself");
    wire_add_text(&w, T_CODE, "paused");
    ssize_t ignored = send(fd, room, wire_end(&w), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)ignored;
}

/* The connection itself goes into the box: no byte of it passes here. */
static void hand_over(struct supervisor *s) {
    static const uint8_t word = K_HELLO;
    if (s->snapshot) return; /* an event from before it began: who comes waits */
    int fd = accept4(s->box->agent_listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    bool paused = s->box->state->phase == PAUSED;
    if (!same_user(fd)) {
        /* closed */
    } else if (paused && (!s->box->state->wake || !lifecycle_resume(s, "wake"))) {
        turn_away(fd);
    } else {
        struct pollfd room = {s->box->handoff, POLLOUT, 0};
        if (poll(&room, 1, 1000) == 1 && !send_message(s->box->handoff, &word, 1, &fd, 1)) note("hand over: %s", strerror(errno));
    }
    close(fd);
}

/* Whatever the agent has to say now: nothing that it says may block or cost us. */
static void hear_agent(struct supervisor *s) {
    uint8_t text[64];
    int fds[1], count;
    struct pollfd there = {s->box->handoff, POLLIN, 0};
    if (poll(&there, 1, 0) != 1) return; /* taken by a pause since we were told of it: the next word comes after the pause, if ever */
    ssize_t n = receive_message(s->box->handoff, text, sizeof text, fds, &count, 0);
    if (n == 1 && text[0] == K_EXEC) usage_soon(s);
    if (n == 0) epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->box->handoff, NULL);
}

static _Noreturn void finish(struct supervisor *s) {
    struct box *box = s->box;
    struct state *state = box->state;
    if (state->phase != GONE) {
        state->phase = GONE;
        state->since = boot_ms();
        strcpy(state->reason, "ended");
    }
    gateway_leave(s);
    limits_release(&box->spec);
    unlinkat(box->dir, "agent.sock", 0);
    unlinkat(box->dir, "ctl.sock", 0);
    lifecycle_publish(s);
    _exit(0);
}

static void holder_died(struct supervisor *s) {
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->box->holder_fd, NULL);
    lifecycle_kill(s, "holder-killed");
}

static void dispatch(struct supervisor *s, uint64_t slot) {
    uint64_t ticks;
    switch (slot) {
    case SLOT_PID1:
        /* The holder's death kills pid 1 too, and then both are seen here in any order. */
        if (s->box->state->phase != GONE && poll(&(struct pollfd){s->box->holder_fd, POLLIN, 0}, 1, 20) == 1) holder_died(s);
        finish(s);
    case SLOT_HOLDER:
        holder_died(s);
        return;
    case SLOT_AGENT:
        hand_over(s);
        return;
    case SLOT_CONTROL:
        control_accept(s);
        return;
    case SLOT_HANDOFF:
        hear_agent(s);
        return;
    case SLOT_TIMER:
        if (read(s->timer, &ticks, sizeof ticks) == sizeof ticks) lifecycle_tick(s);
        return;
    case SLOT_GATEWAY:
        gateway_heard(s);
        return;
    case SLOT_COUNT:
        usage_counted(s);
        return;
    default:
        control_ready(s, slot - SLOT_CLIENT);
    }
}

_Noreturn void supervisor_run(struct box *box) {
    static struct supervisor s;
    s.box = box;
    s.channel = s.count_fd = s.turn = -1;
    s.epoll = epoll_create1(EPOLL_CLOEXEC);
    s.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s.epoll < 0 || s.timer < 0 || !watch(&s, box->pid1_fd, SLOT_PID1) || !watch(&s, box->agent_listen, SLOT_AGENT) ||
        !watch(&s, box->control_listen, SLOT_CONTROL) || !watch(&s, box->handoff, SLOT_HANDOFF) ||
        !watch(&s, s.timer, SLOT_TIMER)) {
        note("supervisor: %s", strerror(errno));
        _exit(1);
    }
    if (box->holder_fd < 0) lifecycle_kill(&s, "holder-killed");
    else if (!watch(&s, box->holder_fd, SLOT_HOLDER)) _exit(1);
    gateway_tick(&s);
    lifecycle_take_over(&s);
    if (box->first_up >= 0) close(box->first_up);
    for (;;) {
        struct epoll_event events[16];
        int n = epoll_wait(s.epoll, events, 16, -1);
        if (n < 0 && errno != EINTR) _exit(1);
        for (int i = 0; i < n; i++) dispatch(&s, events[i].data.u64);
    }
}
