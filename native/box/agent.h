/* The agent: pid 1 of a box. One loop; commands are its children; operations on files run in a fork as the command's user. */
#ifndef BOX_AGENT_H
#define BOX_AGENT_H

#include "box.h"
#include "output.h"
#include "wire.h"

enum {
    CONNECTIONS_MAX = 1024,
    PROCESSES_MAX = 4096,
    FINISHED_MAX = 256,          /* kept for a later ATTACH */
    FINISHED_BYTES = 64 << 20,   /* ... with their output */
    QUEUE_MAX = 256 << 10,       /* bytes that wait for a client, without what is in an `output` */
    INPUT_MAX = 2 << 20,         /* bytes that wait for a process */
    KEEP_DEFAULT = 1 << 20, KEEP_MAX = 64 << 20,
    DRAIN_MS = 250,
    IDLE_SOCKET_BYTES = 4096,
};

struct agent_setup {
    int handoff, listen; /* -1: none */
    const struct spec *spec;
    struct clocks *clocks;     /* NULL: without a supervisor */
    struct activity *activity; /* never NULL */
    int oom;                   /* -1: nobody counts kills for memory */
};

enum source_kind { S_HANDOFF, S_LISTEN, S_SIGNALS, S_TIMER, S_CONNECTION, S_OUT, S_ERR, S_IN, S_DIAL, S_WAKE, S_PROXY, S_RELAY, S_RETRY };

struct source {
    enum source_kind kind;
    int fd; /* -1: none */
    uint32_t events;
    void *owner;
};

struct process;

struct connection {
    struct source source;
    struct connection *next;
    uint8_t *in, *out;
    size_t in_size, in_room, out_size, out_at, out_room;
    pid_t worker; /* a file operation has the socket */
    bool worker_adds; /* it answers with nothing but its end */
    int64_t worker_disk_kills; /* of the box, when it began */
    struct process *follows;
    uint64_t out_offset, err_offset;
    bool closing, stalled, parsing, worker_counts;
    struct dial *dial;
};

struct process {
    struct process *next;
    int64_t id;
    pid_t pid;
    bool exited, done, forgotten, detached, timed_out, killing, pty, in_eof, kill_asked;
    int status;
    const char *limit;
    int64_t memory_kills, disk_kills; /* of the box, when it began */
    int64_t started_ms, deadline, drain_at, output_limit, kill_at;
    struct source out_source, err_source, in_source;
    struct output out, err;
    uint64_t out_end, err_end; /* what there was when it ended */
    uint8_t *in;
    size_t in_size, in_room;
    char *label, *command;
};

struct agent {
    struct agent_setup setup;
    int epoll;
    struct source handoff, listen, signals, timer;
    struct connection *connections;
    struct process *processes;
    int connection_count, process_count;
    int64_t next_id, frozen_more_ms;
    int64_t timer_at;
    bool stalled; /* INPUT that waits may go on */
};

extern struct agent agent;

/* standalone.c: the agent without a supervisor, below another driver. */
int agent_main(int argc, char **argv);
/* Before all of this machine is written down: nothing is left of the world outside. False: an operation on files is under way. */
bool standalone_sleep(struct connection *asked);
void standalone_tick(void);
int agent_run(const struct agent_setup *setup);

/* relay.c: 127.0.0.1:PORT of a machine without a network of its own leads to a proxy of the host. */
void relay_listen(const char *where);
void relay_accept(void);
void relay_ready(struct source *source);
void relay_retry(void);
/* Before all of this machine is written down: lets go of them. */
void relays_sleep(void);
void relays_wake(void);
/* Frees what was closed while the loop was in the middle of events. */
void relays_sweep(void);

/* CLOCK_BOOTTIME without the time that this box was frozen. */
int64_t active_ms(void);
bool source_watch(struct source *source, uint32_t events);
void source_close(struct source *source);
/* Look again at timeouts no later than at this active time. */
void agent_due(int64_t at);
void agent_busy(int change);
/* Nobody samples a box in which nothing runs: told, the supervisor looks soon. */
void agent_tell_usage(void);

/* connection.c */
void connection_open(int fd);
void connection_ready(struct connection *c, uint32_t events);
void connection_close(struct connection *c);
/* Queues a frame that `w` holds. */
void connection_send(struct connection *c, struct writer *w);
void connection_flush(struct connection *c);
void connection_ok(struct connection *c);
void connection_error(struct connection *c, int error, const char *message, const char *code);
/* Parses what has come, when the connection is free to take a request. */
void connection_go_on(struct connection *c);
/* Each one that has stalled. */
void connections_go_on(void);
/* Every connection without a request ends: before the box is frozen. */
void connections_quiesce(void);
void connection_worker_ended(pid_t pid, int status);
/* Frees what was closed while the loop was in the middle of events. */
void connections_sweep(void);

/* exec.c */
void exec_start(struct connection *c, const struct fields *fields);

/* process.c */
struct process *process_find(int64_t id);
void process_readable(struct process *p, struct source *source);
void process_writable(struct process *p);
void process_reap(pid_t pid, int status);
void process_timers(int64_t now);
void process_push(struct connection *c);
void process_follow(struct connection *c, struct process *p);
bool process_input(struct process *p, const void *data, size_t size, bool eof);
bool process_takes(const struct process *p, size_t size);
void process_attach(struct connection *c, const struct fields *fields);
void process_signal(struct connection *c, const struct fields *fields);
void process_resize(struct connection *c, const struct fields *fields);
void process_list(struct connection *c);
void process_forget(struct connection *c, const struct fields *fields);
void process_ack(struct connection *c, const struct fields *fields);
void process_flow(struct process *p);
void processes_sweep(void);

/* How often something in this box was killed for memory, or for the disk; 0 where nobody counts. */
int64_t agent_memory_kills(void);
int64_t agent_disk_kills(void);

/* session.c: the processes of a command, by their session and their parents. How many were signalled. */
int session_signal(pid_t leader, int signo);

/* dial.c */
struct dial;
void dial_start(struct connection *c, const struct fields *fields);
/* Something has happened at one of its ends. */
void dial_ready(struct dial *d, bool of_the_client, uint32_t events);
void dial_free(struct dial *d);
struct source *dial_source(struct dial *d);

/* users.c */
struct user {
    uid_t uid;
    gid_t gid;
    char name[64], home[256];
};
/* "name", "uid" or "uid:gid", by /etc/passwd of the box. */
bool user_find(const char *text, struct user *into);
bool user_possible(const struct user *user);
/* In a child: becomes that user, for good. */
bool user_become(const struct user *user);

/* files.c: in a fork. */
bool files_known(uint8_t kind);
bool files_add(uint8_t kind); /* whether a request may make the disk fuller */
bool files_stream(uint8_t kind); /* whether data follows it, up to END */
/* `rest`: what of that has already come. */
_Noreturn void files_run(int fd, uint8_t kind, const struct fields *fields, const uint8_t *rest, size_t size);

#endif
