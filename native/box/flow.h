/* Bytes that go from one socket to another: a little memory, and only while somebody is slow. */
#ifndef BOX_FLOW_H
#define BOX_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLOW_ROOM = 64 << 10 };

/* One direction. */
struct flow {
    uint8_t *data; /* FLOW_ROOM bytes or more; NULL while nothing waits */
    size_t at, size;
    bool ended; /* no more comes in */
    bool told;  /* ... and the other end knows */
};

/* As much as there is and as fits. False: the connection is over. */
bool flow_move(struct flow *f, int from, int to);
/* What to wait for at the end that `in` comes from and `out` goes to. */
uint32_t flow_events(const struct flow *in, const struct flow *out);
void flow_free(struct flow *f);

#endif
