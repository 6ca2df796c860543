/* Requests in, answers out. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "walk.h"

static struct field field_list[FIELDS_MAX];

void connection_open(int fd) {
    int flags = fcntl(fd, F_GETFL);
    struct connection *c = agent.connection_count < CONNECTIONS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK)) {
        free(c);
        close(fd);
        return;
    }
    c->source = (struct source){S_CONNECTION, fd, 0, c};
    if (!source_watch(&c->source, EPOLLIN)) {
        close(fd);
        free(c);
        return;
    }
    c->next = agent.connections;
    agent.connections = c;
    agent.connection_count++;
    atomic_store(&agent.setup.activity->last_ms, boot_ms());
}

void connection_close(struct connection *c) {
    if (c->closing) return;
    c->closing = true;
    if (c->follows) {
        struct process *p = c->follows;
        c->follows = NULL;
        agent_busy(-1);
        process_flow(p);
    }
    source_close(&c->source);
    if (c->dial) source_close(dial_source(c->dial));
}

void connections_sweep(void) {
    for (struct connection **at = &agent.connections; *at;) {
        struct connection *c = *at;
        if (!c->closing || c->worker) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        agent.connection_count--;
        dial_free(c->dial);
        free(c->in);
        free(c->out);
        free(c);
    }
}

void connections_quiesce(void) {
    for (struct connection *c = agent.connections; c; c = c->next)
        if (!c->worker && !c->follows && !c->in_size && !c->out_size && !c->dial) connection_close(c);
}

static void set_events(struct connection *c) {
    if (c->closing || c->worker || c->dial) return;
    uint32_t events = (c->out_size ? EPOLLOUT : 0) | (c->stalled ? 0 : EPOLLIN);
    if (!source_watch(&c->source, events ? events : EPOLLRDHUP)) connection_close(c);
}

void connection_flush(struct connection *c) {
    while (!c->closing && c->out_size) {
        ssize_t n = send(c->source.fd, c->out + c->out_at, c->out_size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) {
            connection_close(c);
            return;
        }
        c->out_at += (size_t)n;
        c->out_size -= (size_t)n;
    }
    if (!c->out_size) {
        c->out_at = 0;
        if (c->out_room > IDLE_SOCKET_BYTES) {
            free(c->out);
            c->out = NULL;
            c->out_room = 0;
        }
    }
    set_events(c);
}

static bool queue(struct connection *c, const void *data, size_t size) {
    if (c->out_at && c->out_size) memmove(c->out, c->out + c->out_at, c->out_size);
    c->out_at = 0;
    if (c->out_size + size > c->out_room) {
        size_t room = c->out_size + size < IDLE_SOCKET_BYTES ? IDLE_SOCKET_BYTES : (c->out_size + size) * 2;
        uint8_t *more = realloc(c->out, room);
        if (!more) return false;
        c->out = more;
        c->out_room = room;
    }
    memcpy(c->out + c->out_size, data, size);
    c->out_size += size;
    return true;
}

void connection_send(struct connection *c, struct writer *w) {
    size_t size = wire_end(w);
    if (c->closing || !size) return;
    if (!queue(c, w->at, size)) connection_close(c);
}

void connection_ok(struct connection *c) {
    uint8_t room[16];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_OK);
    connection_send(c, &w);
}

void connection_error(struct connection *c, int error, const char *message, const char *code) {
    uint8_t room[512];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_ERROR);
    wire_add_number(&w, T_ERRNO, error);
    wire_add_text(&w, T_MESSAGE, message);
    wire_add_text(&w, T_CODE, code);
    connection_send(c, &w);
}

static void hello(struct connection *c) {
    uint8_t room[256];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_OK);
    wire_add_number(&w, T_VERSION, 1);
    wire_add_number(&w, T_PID, getpid());
    connection_send(c, &w);
}

static void stats(struct connection *c) {
    uint8_t room[256];
    struct writer w;
    struct sample now = walk_sample(getpid(), false);
    wire_begin(&w, room, sizeof room, K_OK);
    wire_add_number(&w, T_MEMORY, now.memory);
    wire_add_number(&w, T_PIDS, now.pids);
    wire_add_number(&w, T_CPU_MS, now.cpu_ms);
    connection_send(c, &w);
}

/* What a supervisor says over the hand-over; without one, who drives the agent says it on a connection. */
static void of_the_driver(struct connection *c, uint8_t kind, const struct fields *fields) {
    const struct field *seed = wire_find(fields, T_DATA);
    int fd = -1;
    if (agent.setup.handoff >= 0) {
        connection_error(c, EPERM, "only the supervisor of this box may", "supervisor");
        return;
    }
    if (kind == K_QUIESCE) {
        if (!standalone_sleep(c)) connection_error(c, EBUSY, "an operation on files is under way", "busy");
        return;
    }
    if (kind == K_RESUMED) agent.frozen_more_ms += wire_number(fields, T_FROZEN_MS, 0);
    if (kind == K_RESUMED) process_timers(active_ms());
    if (kind == K_RESEED && seed && (fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC)) >= 0) { /* random(4): mixed in, not counted */
        bool mixed = write_all(fd, seed->text, seed->size);
        close(fd);
        if (!mixed) fd = -1;
    }
    if (kind == K_RESEED && fd < 0) connection_error(c, EINVAL, "no bytes to mix in, or nowhere to", "reseed");
    else connection_ok(c);
}

/* The bytes of a stream up to its END, or all of them. */
static size_t to_its_end(const uint8_t *at, size_t size) {
    for (size_t done = 0; size - done >= 5;) {
        size_t whole = 4 + (size_t)wire_get32(at + done);
        if (whole < 5 || whole > size - done) break;
        done += whole;
        if (at[done - whole + 4] == K_END) return done;
    }
    return size;
}

/* The socket goes to a child of ours until the operation is over. */
static void start_worker(struct connection *c, uint8_t kind, const struct fields *fields, size_t consumed) {
    connection_flush(c);
    pid_t pid = c->closing ? -1 : fork();
    if (c->closing) return;
    bool streams = files_stream(kind);
    size_t data = streams ? to_its_end(c->in + consumed, c->in_size - consumed) : 0; /* is the child's */
    if (!pid) files_run(c->source.fd, kind, fields, c->in + consumed, data);
    if (pid < 0) {
        connection_error(c, errno, strerror(errno), "fork");
        connection_flush(c);
        if (streams) connection_close(c); /* its data is no request */
        return;
    }
    c->worker = pid;
    if (kind != K_WATCH) agent_tell_usage();
    c->worker_adds = files_add(kind);
    c->worker_disk_kills = agent_disk_kills();
    c->worker_counts = kind != K_WATCH; /* who only looks keeps no box awake */
    memmove(c->in + consumed, c->in + consumed + data, c->in_size - consumed - data);
    c->in_size -= data;
    if (c->worker_counts) agent_busy(1);
    source_watch(&c->source, 0);
}

void connection_worker_ended(pid_t pid, int status) {
    for (struct connection *c = agent.connections; c; c = c->next) {
        if (c->worker != pid) continue;
        c->worker = 0;
        if (c->worker_counts) agent_busy(-1);
        if (WIFSIGNALED(status) && c->worker_adds && agent_disk_kills() > c->worker_disk_kills) {
            connection_error(c, EDQUOT, "the machine's limit of disk", "disk");
            connection_flush(c); /* then it is closed: of what the client still sends nothing is read */
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status)) {
            connection_close(c);
            return;
        }
        set_events(c);
        connection_go_on(c);
        return;
    }
}

/* False: it has to wait, and stays where it is. */
static bool input(struct connection *c, const struct fields *fields) {
    const struct field *data = wire_find(fields, T_DATA);
    bool own = c->follows != NULL;
    struct process *p = wire_find(fields, T_ID) ? process_find(wire_number(fields, T_ID, 0)) : c->follows;
    if (!p) {
        if (!own) connection_error(c, ESRCH, "no such process", "process");
        return true;
    }
    bool ok = process_input(p, data ? data->text : "", data ? data->size : 0, wire_flag(fields, T_EOF));
    if (own) return true;
    if (ok) connection_ok(c);
    else connection_error(c, EPIPE, "the process takes no input", "input");
    return true;
}

static void request(struct connection *c, uint8_t kind, const struct fields *fields, size_t consumed) {
    switch (kind) {
    case K_EXEC: exec_start(c, fields); return;
    case K_ATTACH: process_attach(c, fields); return;
    case K_INPUT: input(c, fields); return;
    case K_SIGNAL: process_signal(c, fields); return;
    case K_RESIZE: process_resize(c, fields); return;
    case K_LIST: process_list(c); return;
    case K_FORGET: process_forget(c, fields); return;
    case K_ACK: process_ack(c, fields); return;
    case K_HELLO: hello(c); return;
    case K_STATS: stats(c); return;
    case K_DIAL: dial_start(c, fields); return;
    case K_QUIESCE:
    case K_RESUMED:
    case K_RESEED: of_the_driver(c, kind, fields); return;
    default: break;
    }
    if (files_known(kind)) start_worker(c, kind, fields, consumed);
    else connection_error(c, ENOSYS, "unknown request", "unknown");
}

static bool while_following(uint8_t kind) {
    return kind == K_INPUT || kind == K_SIGNAL || kind == K_RESIZE || kind == K_ACK;
}

/* Whether an INPUT of this size has room where it is to go. */
static bool has_room(struct connection *c, uint8_t kind, const uint8_t *body, size_t size) {
    if (kind != K_INPUT) return true;
    int64_t id = c->follows ? c->follows->id : 0;
    for (size_t at = 0; size - at >= 13;) {
        uint32_t n = wire_get32(body + at + 1);
        if (n > size - at - 5) break;
        if (body[at] == T_ID && n == 8) id = wire_get64(body + at + 5);
        at += 5 + (size_t)n;
    }
    struct process *p = process_find(id);
    return !p || process_takes(p, size);
}

/* False: it waits until the client has read more of what is queued. */
static bool take_requests(struct connection *c) {
    size_t at = 0;
    bool queued = false;
    c->parsing = true;
    c->stalled = false;
    while (!c->closing && !c->worker && !c->dial && c->in_size - at >= 5) {
        uint32_t length = wire_get32(c->in + at);
        if (length < 1 || length > FRAME_MAX) {
            connection_close(c);
            return true;
        }
        if (c->in_size - at - 4 < length) break;
        uint8_t kind = c->in[at + 4];
        queued = c->out_size > (files_known(kind) ? 0 : QUEUE_MAX); /* who does that writes to the socket itself */
        if ((c->follows && !while_following(kind)) || queued || !has_room(c, kind, c->in + at + 5, length - 1)) {
            c->stalled = true;
            break;
        }
        struct fields fields = {0, field_list};
        if (!wire_split(c->in + at + 5, length - 1, &fields, FIELDS_MAX)) {
            connection_close(c);
            return true;
        }
        atomic_store(&agent.setup.activity->last_ms, boot_ms());
        request(c, kind, &fields, at + 4 + length);
        at += 4 + (size_t)length;
    }
    c->parsing = false;
    if (c->closing) return true;
    if (at) memmove(c->in, c->in + at, c->in_size - at);
    c->in_size -= at;
    if (!c->in_size && c->in_room > IDLE_SOCKET_BYTES) {
        free(c->in);
        c->in = NULL;
        c->in_room = 0;
    }
    return !queued;
}

void connection_go_on(struct connection *c) {
    if (c->parsing) return;
    bool all;
    do { /* as in `process_push` */
        all = take_requests(c);
        connection_flush(c);
    } while (!all && !c->closing && !c->out_size);
}

void connections_go_on(void) {
    agent.stalled = false;
    for (struct connection *c = agent.connections; c; c = c->next)
        if (c->stalled && !c->closing) connection_go_on(c);
}

static bool make_room(struct connection *c) {
    size_t wanted = IDLE_SOCKET_BYTES;
    if (c->in_size >= 4) {
        wanted = (size_t)wire_get32(c->in) + 4;
        if (wanted > FRAME_MAX + 4) return false;
        if (wanted < IDLE_SOCKET_BYTES) wanted = IDLE_SOCKET_BYTES;
    }
    if (c->in_room >= wanted) return true;
    uint8_t *more = realloc(c->in, wanted);
    if (!more) return false;
    c->in = more;
    c->in_room = wanted;
    return true;
}

void connection_ready(struct connection *c, uint32_t events) {
    if (c->dial) {
        dial_ready(c->dial, true, events);
        return;
    }
    if (events & EPOLLOUT) {
        connection_flush(c);
        process_push(c);
        if (c->stalled && !c->closing) connection_go_on(c);
    }
    if (c->closing || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))) return;
    if (!make_room(c)) {
        connection_close(c);
        return;
    }
    if (c->in_size == c->in_room) { /* stalled with a full buffer: only the end of the connection counts */
        if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) connection_close(c);
        return;
    }
    ssize_t n = recv(c->source.fd, c->in + c->in_size, c->in_room - c->in_size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        connection_close(c);
        return;
    }
    c->in_size += (size_t)n;
    connection_go_on(c);
}
