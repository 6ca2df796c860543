/* The process beside a box that pauses, wakes, ends and cleans up. */
#ifndef BOX_SUPERVISOR_H
#define BOX_SUPERVISOR_H

#include "box.h"
#include "wire.h"

/* What an event of the loop is about; from SLOT_CLIENT on: a client of ctl.sock. */
enum { SLOT_PID1, SLOT_HOLDER, SLOT_AGENT, SLOT_CONTROL, SLOT_HANDOFF, SLOT_TIMER, SLOT_GATEWAY, SLOT_COUNT, SLOT_CLIENT = 16 };
enum { CLIENTS_MAX = 64, CLIENT_ROOM = 64 << 10 };

struct client {
    int fd;
    size_t size;
    bool follows; /* K_EVENTS */
    uint8_t in[CLIENT_ROOM];
};

struct supervisor {
    struct box *box;
    int epoll, timer;
    struct client *clients[CLIENTS_MAX];
    struct client *snapshot; /* whose; NULL: nobody makes one */
    bool ending;
    int64_t again_at; /* no pause that nobody asked for before */
    int channel;     /* to the gateway; -1: not attached */
    pid_t starter;   /* of the gateway */
    int turn;        /* the lock of whoever starts it; -1: not ours */
    int64_t gateway_at; /* when to try again */
    int gateway_tries;
    /* usage.c */
    int64_t usage_at, busy_at, count_at, count_began, pids, unlinked, disk, disk_allowed, free_at_count;
    int count_fd; /* -1: nobody counts */
    pid_t counter;
};

/* lifecycle.c: what a box may become. All return false with errno when it did not happen. */
bool lifecycle_pause(struct supervisor *s, const char *reason);
bool lifecycle_resume(struct supervisor *s, const char *reason);
/* After a supervisor died in the middle of something. */
void lifecycle_take_over(struct supervisor *s);
void lifecycle_kill(struct supervisor *s, const char *reason);
void lifecycle_publish(struct supervisor *s);
void lifecycle_arm(struct supervisor *s);
void lifecycle_tick(struct supervisor *s);

/* gateway.c */
void gateway_tick(struct supervisor *s);
void gateway_heard(struct supervisor *s);
/* The box is gone, and the gateway need not wait for a supervisor that comes again. */
void gateway_leave(struct supervisor *s);

/* control.c */
void control_accept(struct supervisor *s);
void control_ready(struct supervisor *s, size_t index);
void control_tell(struct supervisor *s);

#endif
