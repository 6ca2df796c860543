/* The process beside a box that pauses, wakes, ends and cleans up. */
#ifndef BOX_SUPERVISOR_H
#define BOX_SUPERVISOR_H

#include "box.h"
#include "wire.h"

enum { CLIENTS_MAX = 64, CLIENT_ROOM = 4096 };

struct client {
    int fd;
    size_t size;
    bool follows; /* K_EVENTS */
    uint8_t in[CLIENT_ROOM];
};

enum { SLOT_PID1, SLOT_HOLDER, SLOT_AGENT, SLOT_CONTROL, SLOT_HANDOFF, SLOT_TIMER, SLOT_GATEWAY, SLOT_GATEWAY_TIMER,
       SLOT_GATEWAY_START, SLOT_CLIENT = 16 };

/* The attachment to the gateway; everything is 0 or -1 in a box without one. */
struct attachment {
    int channel, timer, starter; /* a pidfd */
    pid_t starter_pid;
    int64_t since, wait;
};

struct supervisor {
    struct box *box;
    int epoll, timer;
    struct attachment gateway;
    struct client *clients[CLIENTS_MAX];
    bool ending;
};

bool supervisor_watch(struct supervisor *s, int fd, uint64_t slot);

/* lifecycle.c: what a box may become. All return false with errno when it did not happen. */
bool lifecycle_pause(struct supervisor *s, const char *reason);
bool lifecycle_resume(struct supervisor *s, const char *reason);
/* After a supervisor died in the middle of something. */
void lifecycle_take_over(struct supervisor *s);
void lifecycle_kill(struct supervisor *s, const char *reason);
void lifecycle_publish(struct supervisor *s);
void lifecycle_arm(struct supervisor *s);
void lifecycle_tick(struct supervisor *s);

/* gateway.c: the box's sockets are at the user's gateway, or on their way there again. */
void gateway_begin(struct supervisor *s);
void gateway_heard(struct supervisor *s);
void gateway_tick(struct supervisor *s);
void gateway_started(struct supervisor *s);

/* control.c */
void control_accept(struct supervisor *s);
void control_ready(struct supervisor *s, size_t index);
void control_tell(struct supervisor *s);

#endif
