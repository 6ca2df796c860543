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

struct supervisor {
    struct box *box;
    int epoll, timer;
    struct client *clients[CLIENTS_MAX];
    bool ending;
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

/* control.c */
void control_accept(struct supervisor *s);
void control_ready(struct supervisor *s, size_t index);
void control_tell(struct supervisor *s);

#endif
