#include "output.h"

#include <stdlib.h>
#include <string.h>

void output_init(struct output *o, size_t keep) {
    memset(o, 0, sizeof *o);
    o->head_max = keep / 2;
    o->ring_max = keep - keep / 2;
}

void output_free(struct output *o) {
    free(o->head);
    free(o->ring);
    o->head = o->ring = NULL;
    o->head_size = o->head_room = o->ring_room = 0;
    o->tail_start = o->total;
}

static size_t add_head(struct output *o, const uint8_t *data, size_t size) {
    size_t take = o->head_max - o->head_size;
    if (o->total != o->head_size) return 0; /* the head is over */
    if (take > size) take = size;
    if (o->head_size + take > o->head_room) {
        size_t room = o->head_room ? o->head_room * 2 : 512;
        while (room < o->head_size + take) room *= 2;
        if (room > o->head_max) room = o->head_max;
        uint8_t *more = realloc(o->head, room);
        if (!more) {
            o->head_max = o->head_size;
            return 0;
        }
        o->head = more;
        o->head_room = room;
    }
    if (take) memcpy(o->head + o->head_size, data, take);
    o->head_size += take;
    o->total += take;
    o->tail_start = o->total;
    return take;
}

/* A ring is read at offset % room, so that a bigger one needs its bytes put anew. */
static bool grow_ring(struct output *o, size_t wanted) {
    size_t room = o->ring_room ? o->ring_room : 4096;
    while (room < wanted && room < o->ring_max) room *= 2;
    if (room > o->ring_max) room = o->ring_max;
    uint8_t *bigger = room > o->ring_room ? malloc(room) : NULL;
    if (!bigger) return false;
    for (uint64_t at = o->tail_start; at < o->total; at++) bigger[at % room] = o->ring[at % o->ring_room];
    free(o->ring);
    o->ring = bigger;
    o->ring_room = room;
    return true;
}

static void add_ring(struct output *o, const uint8_t *data, size_t size) {
    uint64_t held = o->total - o->tail_start;
    if (held + size > o->ring_room && o->ring_room < o->ring_max) grow_ring(o, (size_t)held + size);
    if (!o->ring_room) {
        o->total += size;
        o->tail_start = o->total;
        return;
    }
    if (size > o->ring_room) {
        data += size - o->ring_room;
        o->total += size - o->ring_room;
        size = o->ring_room;
    }
    size_t at = (size_t)(o->total % o->ring_room), first = o->ring_room - at;
    if (first > size) first = size;
    memcpy(o->ring + at, data, first);
    if (size > first) memcpy(o->ring, data + first, size - first);
    o->total += size;
    if (o->total - o->tail_start > o->ring_room) o->tail_start = o->total - o->ring_room;
}

void output_add(struct output *o, const uint8_t *data, size_t size) {
    size_t taken = add_head(o, data, size);
    if (size > taken) add_ring(o, data + taken, size - taken);
}

size_t output_at(const struct output *o, uint64_t *offset, const uint8_t **data) {
    if (*offset < o->head_size) {
        *data = o->head + *offset;
        return o->head_size - (size_t)*offset;
    }
    if (*offset < o->tail_start) *offset = o->tail_start;
    if (*offset >= o->total) return 0;
    size_t at = (size_t)(*offset % o->ring_room), size = (size_t)(o->total - *offset);
    *data = o->ring + at;
    return size < o->ring_room - at ? size : o->ring_room - at;
}

uint64_t output_skipped(const struct output *o) { return o->tail_start - o->head_size; }

void output_release(struct output *o, uint64_t offset) {
    if (offset > o->total) offset = o->total;
    if (offset > o->tail_start) o->tail_start = offset;
}

size_t output_free_room(const struct output *o, uint64_t offset) {
    size_t head = o->total == o->head_size ? o->head_max - o->head_size : 0;
    uint64_t from = offset > o->tail_start ? offset : o->tail_start;
    uint64_t held = from > o->total ? 0 : o->total - from;
    return head + (held < o->ring_max ? o->ring_max - (size_t)held : 0);
}
