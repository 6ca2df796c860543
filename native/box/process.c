/* A command while it runs and after: its output, its input, its end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"

enum { READ_SIZE = 64 << 10, KILL_AGAIN_MS = 20, TERMINAL_MAX = 64 << 10 /* the kernel keeps no more, tty_buffer.c */ };

static uint8_t scratch[READ_SIZE + 64];

struct process *process_find(int64_t id) {
    for (struct process *p = agent.processes; p; p = p->next)
        if (p->id == id && !p->forgotten) return p;
    return NULL;
}

/* What every connection that follows still has to get must not be overwritten: how much may be read now. */
static size_t may_read(const struct process *p, const struct output *o) {
    size_t least = READ_SIZE;
    if (p->done) return least; /* nothing more is kept */
    for (const struct connection *c = agent.connections; c; c = c->next) {
        if (c->follows != p) continue;
        size_t room = output_free_room(o, o == &p->out ? c->out_offset : c->err_offset);
        if (room < least) least = room;
    }
    return least;
}

void process_flow(struct process *p) {
    source_watch(&p->out_source, may_read(p, &p->out) ? EPOLLIN : 0);
    source_watch(&p->err_source, may_read(p, &p->err) ? EPOLLIN : 0);
}

static void kill_all(struct process *p) {
    p->killing = true;
    session_signal(p->pid, SIGKILL);
    if (!p->exited) { /* a fork bomb: again, and let others have their turn */
        p->kill_at = active_ms() + KILL_AGAIN_MS;
        agent_due(p->kill_at);
    }
}

static void limit_output(struct process *p) {
    if (!p->output_limit || p->limit || p->done || (int64_t)(p->out.total + p->err.total) <= p->output_limit) return;
    p->limit = "output";
    kill_all(p);
}

static void send_exit(struct connection *c, const struct process *p) {
    uint8_t room[512];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_EXIT);
    wire_add_number(&w, T_ID, p->id);
    if (WIFSIGNALED(p->status)) wire_add_number(&w, T_SIGNAL, WTERMSIG(p->status));
    wire_add_number(&w, T_EXIT_CODE, WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 128 + WTERMSIG(p->status));
    if (p->timed_out) wire_add_number(&w, T_TIMED_OUT, 1);
    if (p->limit) wire_add_text(&w, T_LIMIT, p->limit);
    wire_add_number(&w, T_OUT_TOTAL, (int64_t)p->out.total);
    wire_add_number(&w, T_ERR_TOTAL, (int64_t)p->err.total);
    wire_add_number(&w, T_OUT_SKIPPED, (int64_t)output_skipped(&p->out));
    wire_add_number(&w, T_ERR_SKIPPED, (int64_t)output_skipped(&p->err));
    connection_send(c, &w);
}

static bool push_stream(struct connection *c, const struct output *o, uint64_t *offset, uint8_t stream) {
    const uint8_t *data;
    size_t size;
    static uint8_t frame[DATA_CHUNK + 32];
    while (!c->closing && (size = output_at(o, offset, &data))) {
        if (c->out_size >= DATA_CHUNK) {
            connection_flush(c);
            if (c->closing || c->out_size >= DATA_CHUNK) return false;
        }
        if (size > DATA_CHUNK) size = DATA_CHUNK;
        struct writer w;
        wire_begin(&w, frame, sizeof frame, K_OUTPUT);
        frame[5] = stream;
        wire_put64(frame + 6, (int64_t)*offset);
        memcpy(frame + 14, data, size);
        w.size = 14 + size;
        connection_send(c, &w);
        *offset += size;
    }
    return !c->closing;
}

void process_push(struct connection *c) {
    struct process *p = c->follows;
    if (!p || c->closing) return;
    bool all;
    do { /* who has read everything by the time of the flush makes no event any more */
        all = push_stream(c, &p->out, &c->out_offset, 1) && push_stream(c, &p->err, &c->err_offset, 2);
        if (all && p->done) {
            c->follows = NULL;
            agent_busy(-1);
            send_exit(c, p);
        }
        connection_flush(c);
    } while (!all && !c->closing && !c->out_size);
    process_flow(p);
    if (all && p->done && !c->closing && c->in_size) connection_go_on(c);
}

static void push_all(struct process *p) {
    for (struct connection *c = agent.connections; c; c = c->next)
        if (c->follows == p) process_push(c);
}

void process_follow(struct connection *c, struct process *p) {
    c->follows = p;
    agent_busy(1);
    process_push(c);
}

/* How much was read; 0: there is nothing more, now or ever. */
static size_t read_some(struct process *p, struct source *source, struct output *o) {
    size_t most = may_read(p, o);
    if (source->fd < 0 || !most) return 0;
    ssize_t n = read(source->fd, scratch, most < READ_SIZE ? most : READ_SIZE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n <= 0) { /* a terminal says EIO when nobody has its other end */
        source_close(source);
        return 0;
    }
    if (!p->forgotten && !p->done) output_add(o, scratch, (size_t)n); /* EXIT has said how much there was */
    return (size_t)n;
}

/* What lies in the pipe. (Of a terminal: at least that much.) */
static size_t waiting(const struct source *source) {
    int count = 0;
    return source->fd >= 0 && !ioctl(source->fd, FIONREAD, &count) && count > 0 ? (size_t)count : 0;
}

/* What was there when the command ended: others may write for ever. */
static void read_rest(struct process *p, struct source *source, struct output *o) {
    size_t left = waiting(source) + 1; /* and the end */
    for (size_t n; left && (n = read_some(p, source, o)); left -= n < left ? n : left) push_all(p);
}

static void finish(struct process *p) {
    if (p->done) return;
    p->done = true;
    p->deadline = p->kill_at = 0;
    source_close(&p->in_source);
    free(p->in);
    p->in = NULL;
    p->in_size = p->in_room = 0;
    agent.stalled = true; /* who waits for room in it learns that there is none */
    push_all(p);
}

/* Killed, though not by us, while the box was over one of its limits: for that. */
static void find_limit(struct process *p) {
    bool killed = WIFSIGNALED(p->status) ? WTERMSIG(p->status) == SIGKILL : WEXITSTATUS(p->status) == 128 + SIGKILL;
    if (!killed || p->limit || p->killing) return;
    if (agent_disk_kills() > p->disk_kills) p->limit = "disk";
    else if (agent_memory_kills() > p->memory_kills) p->limit = "memory";
}

static void settle(struct process *p) {
    if (p->exited && !p->done && p->out_source.fd < 0 && p->err_source.fd < 0) finish(p);
}

void process_readable(struct process *p, struct source *source) {
    struct output *o = source == &p->out_source ? &p->out : &p->err;
    read_some(p, source, o);
    limit_output(p);
    push_all(p);
    settle(p);
}

void process_reap(pid_t pid, int status) {
    for (struct process *p = agent.processes; p; p = p->next) {
        if (p->pid != pid || p->exited) continue;
        p->exited = true;
        p->status = status;
        p->deadline = 0; /* it was in time */
        find_limit(p);
        p->out_end = p->out.total + waiting(&p->out_source) + (p->pty ? TERMINAL_MAX : 0);
        p->err_end = p->err.total + waiting(&p->err_source);
        read_rest(p, &p->out_source, &p->out);
        read_rest(p, &p->err_source, &p->err);
        limit_output(p);
        push_all(p);
        settle(p);
        if (!p->done) {
            p->drain_at = active_ms() + DRAIN_MS;
            agent_due(p->drain_at);
        }
        return;
    }
}

/* Whether the command itself wrote more than was read, because someone who follows has not taken what was before it. */
static bool owes(const struct process *p, const struct source *source, const struct output *o, uint64_t end) {
    return source->fd >= 0 && o->total < end && (waiting(source) || !may_read(p, o));
}

static void earliest(int64_t *at, int64_t when) {
    if (when && (!*at || when < *at)) *at = when;
}

void process_timers(int64_t now) {
    int64_t next = 0;
    for (struct process *p = agent.processes; p; p = p->next) {
        if (p->done) continue;
        if (p->deadline && now >= p->deadline) {
            p->deadline = 0;
            p->timed_out = true;
            kill_all(p);
        } else if (p->kill_at && now >= p->kill_at) {
            p->kill_at = 0;
            kill_all(p);
        }
        if (p->exited && p->drain_at && now >= p->drain_at) {
            if (owes(p, &p->out_source, &p->out, p->out_end) || owes(p, &p->err_source, &p->err, p->err_end)) p->drain_at = now + DRAIN_MS;
            else finish(p);
        }
        if (p->done) continue;
        earliest(&next, p->deadline);
        earliest(&next, p->kill_at);
        if (p->exited) earliest(&next, p->drain_at);
    }
    if (next) agent_due(next);
}

bool process_takes(const struct process *p, size_t size) {
    return p->in_source.fd < 0 || p->in_eof || p->in_size + size <= INPUT_MAX || !p->in_size;
}

void process_writable(struct process *p) {
    size_t at = 0;
    while (at < p->in_size) {
        ssize_t n = write(p->in_source.fd, p->in + at, p->in_size - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) {
            source_close(&p->in_source);
            at = p->in_size;
            break;
        }
        at += (size_t)n;
    }
    if (at) memmove(p->in, p->in + at, p->in_size - at);
    p->in_size -= at;
    if (!p->in_size) {
        free(p->in);
        p->in = NULL;
        p->in_room = 0;
        if (p->in_eof && !p->pty) source_close(&p->in_source);
    }
    source_watch(&p->in_source, p->in_size ? EPOLLOUT : 0);
    connections_go_on();
}

bool process_input(struct process *p, const void *data, size_t size, bool eof) {
    if (p->in_source.fd < 0 || p->in_eof) return !size && eof;
    if (p->in_size + size + 1 > p->in_room) {
        uint8_t *more = realloc(p->in, p->in_size + size + 1);
        if (!more) return false;
        p->in = more;
        p->in_room = p->in_size + size + 1;
    }
    memcpy(p->in + p->in_size, data, size);
    p->in_size += size;
    if (eof && p->pty) p->in[p->in_size++] = 4; /* what a terminal takes for the end */
    else if (eof) p->in_eof = true;
    size_t left = p->in_size;
    for (size_t at = 0; left;) { /* at once, when it can take it */
        ssize_t n = write(p->in_source.fd, p->in + at, left);
        if (n <= 0) break;
        at += (size_t)n;
        left -= (size_t)n;
    }
    if (left != p->in_size) {
        memmove(p->in, p->in + (p->in_size - left), left);
        p->in_size = left;
    }
    if (p->in_size) return source_watch(&p->in_source, EPOLLOUT);
    if (p->in_eof) {
        source_close(&p->in_source);
        agent.stalled = true;
    }
    return true;
}

static struct process *named(struct connection *c, const struct fields *fields) {
    struct process *p = wire_find(fields, T_ID) ? process_find(wire_number(fields, T_ID, 0)) : c->follows;
    if (!p && !c->follows) connection_error(c, ESRCH, "no such process", "process");
    return p;
}

void process_attach(struct connection *c, const struct fields *fields) {
    struct process *p = named(c, fields);
    if (!p) return;
    c->out_offset = (uint64_t)wire_number(fields, T_OUT_OFFSET, 0);
    c->err_offset = (uint64_t)wire_number(fields, T_ERR_OFFSET, 0);
    process_follow(c, p);
}

void process_signal(struct connection *c, const struct fields *fields) {
    struct process *p = named(c, fields);
    int64_t signo = wire_number(fields, T_SIGNO, SIGTERM);
    bool quiet = c->follows != NULL;
    if (!p) return;
    if (signo < 0 || signo > 64) {
        if (!quiet) connection_error(c, EINVAL, "no such signal", "signal");
        return;
    }
    if (wire_number(fields, T_SCOPE, 0) == 1) {
        if (signo == SIGKILL) kill_all(p);
        else session_signal(p->pid, (int)signo);
    } else if (!p->exited) {
        kill(-p->pid, (int)signo);
    }
    if (!quiet) connection_ok(c);
}

void process_resize(struct connection *c, const struct fields *fields) {
    struct process *p = named(c, fields);
    if (!p) return;
    struct winsize size = {.ws_row = (unsigned short)wire_number(fields, T_ROWS, 24),
                           .ws_col = (unsigned short)wire_number(fields, T_COLS, 80)};
    bool ok = p->pty && p->in_source.fd >= 0 && !ioctl(p->in_source.fd, TIOCSWINSZ, &size);
    if (c->follows) return;
    if (ok) connection_ok(c);
    else connection_error(c, ENOTTY, "the process has no terminal", "pty");
}

void process_list(struct connection *c) {
    uint8_t room[4096];
    struct writer w;
    for (struct process *p = agent.processes; p; p = p->next) {
        if (p->forgotten) continue;
        wire_begin(&w, room, sizeof room, K_PROCESS);
        wire_add_number(&w, T_ID, p->id);
        wire_add_number(&w, T_PID, p->pid);
        wire_add_text(&w, T_LABEL, p->label ? p->label : "");
        wire_add_text(&w, T_ARGV, p->command ? p->command : "");
        wire_add_text(&w, T_STATE, p->done ? "exited" : "running");
        if (p->exited) wire_add_number(&w, T_EXIT_CODE, WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 128 + WTERMSIG(p->status));
        wire_add_number(&w, T_SINCE, p->started_ms);
        wire_add_number(&w, T_OUT_TOTAL, (int64_t)p->out.total);
        wire_add_number(&w, T_ERR_TOTAL, (int64_t)p->err.total);
        wire_add_number(&w, T_DETACH, p->detached);
        wire_add_number(&w, T_PTY, p->pty);
        connection_send(c, &w);
    }
    wire_begin(&w, room, sizeof room, K_DONE);
    connection_send(c, &w);
}

void process_forget(struct connection *c, const struct fields *fields) {
    struct process *p = named(c, fields);
    if (!p) return;
    if (!p->done) {
        connection_error(c, EBUSY, "the process still runs", "running");
        return;
    }
    p->forgotten = true;
    connection_ok(c);
}

void process_ack(struct connection *c, const struct fields *fields) {
    struct process *p = named(c, fields);
    if (!p) return;
    output_release(&p->out, (uint64_t)wire_number(fields, T_OUT_OFFSET, 0));
    output_release(&p->err, (uint64_t)wire_number(fields, T_ERR_OFFSET, 0));
    process_flow(p);
    if (!c->follows) connection_ok(c);
}

static bool followed(const struct process *p) {
    for (const struct connection *c = agent.connections; c; c = c->next)
        if (c->follows == p) return true;
    return false;
}

/* The newest finished ones stay. One that is forgotten goes once nobody writes into its pipes any more: a reader that is gone
 * would kill a process that was left in the background. */
void processes_sweep(void) {
    size_t bytes = 0;
    int finished = 0;
    for (struct process **at = &agent.processes; *at;) {
        struct process *p = *at;
        if (p->done && !p->forgotten && !followed(p)) {
            bytes += p->out.head_room + p->out.ring_room + p->err.head_room + p->err.ring_room;
            if (++finished > FINISHED_MAX || bytes > FINISHED_BYTES) p->forgotten = true;
        }
        if (p->forgotten && !followed(p) && (p->out.head || p->out.ring || p->err.head || p->err.ring)) {
            output_free(&p->out);
            output_free(&p->err);
        }
        if (!p->forgotten || !p->exited || followed(p) || p->out_source.fd >= 0 || p->err_source.fd >= 0) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        agent.process_count--;
        source_close(&p->in_source);
        free(p->in);
        free(p->label);
        free(p->command);
        free(p);
    }
}
