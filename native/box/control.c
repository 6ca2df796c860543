/* ctl.sock: the verbs of the supervisor. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "layers.h"
#include "supervisor.h"
#include "usage.h"

static bool end_snapshot(struct supervisor *s);

static void forget(struct supervisor *s, size_t index) {
    if (s->snapshot == s->clients[index]) end_snapshot(s);
    close(s->clients[index]->fd);
    free(s->clients[index]);
    s->clients[index] = NULL;
}

/* False: it does not read, and is closed by the caller. */
static bool reply(struct client *client, struct writer *w) {
    size_t size = wire_end(w);
    return size && send(client->fd, w->at, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static bool reply_error(struct client *client, int error, const char *message, const char *code) {
    uint8_t room[512];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_ERROR);
    wire_add_number(&w, T_ERRNO, error);
    wire_add_text(&w, T_MESSAGE, message);
    wire_add_text(&w, T_CODE, code);
    return reply(client, &w);
}

static void add_left(struct writer *w, uint8_t tag, int64_t at) {
    if (at) wire_add_number(w, tag, at > boot_ms() ? at - boot_ms() : 0);
}

static bool reply_state(struct supervisor *s, struct client *client, uint8_t kind, int64_t took) {
    static const char *const names[] = {"running", "running", "paused", "paused", "gone"};
    const struct state *state = s->box->state;
    uint8_t room[1024];
    struct writer w;
    wire_begin(&w, room, sizeof room, kind);
    wire_add_text(&w, T_STATE, names[state->phase]);
    wire_add_text(&w, T_REASON, state->reason[0] ? state->reason : "none");
    wire_add_number(&w, T_SINCE, state->since);
    wire_add_number(&w, T_RESTARTS, state->restarts);
    wire_add_number(&w, T_PID1, s->box->pid1);
    wire_add_number(&w, T_SUPERVISOR, getpid());
    wire_add_number(&w, T_FROZEN_MS, atomic_load(&s->box->clocks->frozen_total_ms));
    wire_add_number(&w, T_PAUSE_AFTER_MS, state->pause_after_ms);
    wire_add_number(&w, T_IDLE_MS, state->idle_ms);
    wire_add_number(&w, T_DELETE_AFTER_MS, state->delete_after_ms);
    wire_add_number(&w, T_WAKE, state->wake);
    add_left(&w, T_PAUSE_IN_MS, state->pause_at);
    add_left(&w, T_DELETE_IN_MS, state->delete_at);
    if (took >= 0) wire_add_number(&w, T_MS, took);
    return reply(client, &w);
}

void control_tell(struct supervisor *s) {
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (s->clients[i] && s->clients[i]->follows && !reply_state(s, s->clients[i], K_EVENT, -1))
            shutdown(s->clients[i]->fd, SHUT_RDWR); /* forgotten when that is seen */
}

/* -1 leaves, 0 clears. */
static void take(const struct fields *fields, uint8_t tag, int64_t *value) {
    int64_t given = wire_number(fields, tag, -1);
    if (given >= 0) *value = given;
}

static void set_timers(struct supervisor *s, const struct fields *fields) {
    struct state *state = s->box->state;
    int64_t wake = state->wake, now = boot_ms();
    take(fields, T_PAUSE_AFTER_MS, &state->pause_after_ms);
    take(fields, T_IDLE_MS, &state->idle_ms);
    take(fields, T_DELETE_AFTER_MS, &state->delete_after_ms);
    take(fields, T_WAKE, &wake);
    state->wake = wake != 0;
    if (wire_number(fields, T_PAUSE_AFTER_MS, -1) >= 0 && state->phase == RUNNING)
        state->pause_at = state->pause_after_ms ? now + state->pause_after_ms : 0;
    if (wire_number(fields, T_DELETE_AFTER_MS, -1) >= 0 && state->phase == PAUSED)
        state->delete_at = state->delete_after_ms ? state->since + state->delete_after_ms : 0;
    lifecycle_arm(s);
}

static bool reply_stats(struct supervisor *s, struct client *client) {
    uint8_t room[256];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_OK);
    usage_report(s, &w);
    wire_add_number(&w, T_FROZEN_MS, atomic_load(&s->box->clocks->frozen_total_ms));
    return reply(client, &w);
}

/* One at a time, held by its client: it ends with the connection. */
static bool begin_snapshot(struct supervisor *s, struct client *client, int64_t start) {
    struct state *state = s->box->state;
    if (s->snapshot) return reply_error(client, EBUSY, "another snapshot is being made", "snapshot");
    bool ran = state->phase == RUNNING;
    if (!lifecycle_pause(s, ran ? "snapshot" : "pause")) return reply_error(client, errno, "it could not be frozen", "freeze");
    s->snapshot = client;
    state->resume_after = ran;
    lifecycle_arm(s);
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->box->agent_listen, NULL); /* who comes now waits */
    return reply_state(s, client, K_OK, boot_ms() - start);
}

static bool end_snapshot(struct supervisor *s) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = SLOT_AGENT};
    s->snapshot = NULL;
    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->box->agent_listen, &event);
    bool ok = !s->box->state->resume_after || s->ending || lifecycle_resume(s, "snapshot");
    s->box->state->resume_after = false;
    lifecycle_arm(s);
    return ok;
}

static bool push_layer(struct supervisor *s, struct client *client, const struct fields *fields, int64_t start) {
    struct box *box = s->box;
    bool ran = box->state->phase == RUNNING;
    char stage[32], text[128], name[32];
    const char *expected = wire_text(fields, T_UPPER);
    layers_name(name, "upper", box->state->layers);
    if (expected && strcmp(expected, name)) return reply_error(client, ESTALE, "the writable layer is another by now", "stale_layer");
    if (!lifecycle_pause(s, ran ? "snapshot" : "pause")) return reply_error(client, errno, "it could not be frozen", "freeze");
    enum layers done = layers_push(box, fields, stage);
    int error = errno;
    if (done == LAYERS_BROKEN) lifecycle_kill(s, "layers");
    else if (!ran) lifecycle_publish(s);
    else if (!lifecycle_resume(s, "snapshot")) return reply_error(client, errno, "it could not be thawed", "thaw");
    snprintf(text, sizeof text, "%s: %s", stage, done == LAYERS_BUSY ? "processes hold files of the box open" : strerror(error));
    if (done == LAYERS_BUSY) return reply_error(client, EBUSY, text, "busy_files");
    if (done != LAYERS_DONE) return reply_error(client, error, text, "layers");
    uint8_t room[256];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_OK);
    layers_name(name, "upper", box->state->layers - 1);
    wire_add_text(&w, T_LOWER, name);
    layers_name(name, "upper", box->state->layers);
    wire_add_text(&w, T_UPPER, name);
    wire_add_number(&w, T_MS, boot_ms() - start);
    return reply(client, &w);
}

static bool answer(struct supervisor *s, struct client *client, uint8_t kind, const struct fields *fields) {
    int64_t start = boot_ms();
    const char *reason = wire_text(fields, T_REASON);
    if (!reason) reason = kind == K_KILL ? "killed" : kind == K_THAW ? "resume" : "pause";
    switch (kind) {
    case K_STATUS:
        return reply_state(s, client, K_OK, -1);
    case K_FREEZE:
        s->box->state->resume_after = false; /* a snapshot leaves it paused */
        if (!lifecycle_pause(s, reason)) return reply_error(client, errno, "it could not be frozen", "freeze");
        return reply_state(s, client, K_OK, boot_ms() - start);
    case K_THAW:
        if (s->snapshot) return reply_error(client, EBUSY, "a snapshot is being made", "snapshot");
        if (!lifecycle_resume(s, reason)) return reply_error(client, errno, "it could not be thawed", "thaw");
        return reply_state(s, client, K_OK, boot_ms() - start);
    case K_KILL:
        lifecycle_kill(s, reason);
        return reply_state(s, client, K_OK, boot_ms() - start);
    case K_TIMERS:
        set_timers(s, fields);
        return reply_state(s, client, K_OK, -1);
    case K_BOX_STATS:
        return reply_stats(s, client);
    case K_SNAPSHOT_BEGIN:
        return begin_snapshot(s, client, start);
    case K_SNAPSHOT_END:
        if (s->snapshot != client) return reply_error(client, EINVAL, "no snapshot of this connection", "snapshot");
        if (!end_snapshot(s)) return reply_error(client, errno, "it could not be thawed", "thaw");
        return reply_state(s, client, K_OK, boot_ms() - start);
    case K_RELAYER:
        return push_layer(s, client, fields, start);
    case K_EVENTS:
        client->follows = true;
        return reply_state(s, client, K_EVENT, -1);
    default:
        return reply_error(client, ENOSYS, "unknown verb", "unknown");
    }
}

void control_accept(struct supervisor *s) {
    int fd = accept4(s->box->control_listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        if (s->clients[i]) continue;
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = SLOT_CLIENT + i};
        struct client *client = calloc(1, sizeof *client);
        if (!client || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event)) {
            free(client);
            break;
        }
        client->fd = fd;
        s->clients[i] = client;
        return;
    }
    close(fd);
}

void control_ready(struct supervisor *s, size_t index) {
    struct client *client = s->clients[index];
    if (!client) return;
    ssize_t n = recv(client->fd, client->in + client->size, sizeof client->in - client->size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    bool ok = n > 0;
    client->size += ok ? (size_t)n : 0;
    while (ok && client->size >= 5) {
        static struct field list[SPEC_LIST + 8];
        struct fields fields = {0, list};
        size_t whole = (size_t)wire_get32(client->in) + 4;
        ok = whole >= 5 && whole <= sizeof client->in;
        if (!ok || client->size < whole) break;
        ok = wire_split(client->in + 5, whole - 5, &fields, SPEC_LIST + 8) && answer(s, client, client->in[4], &fields);
        memmove(client->in, client->in + whole, client->size - whole);
        client->size -= whole;
    }
    if (!ok) forget(s, index);
}
