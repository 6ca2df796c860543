/* What a process wrote, kept by offset: the first bytes and the last, the middle forgotten. No I/O here. */
#ifndef BOX_OUTPUT_H
#define BOX_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct output {
    uint8_t *head, *ring;
    size_t head_size, head_room, head_max;
    size_t ring_room, ring_max; /* `ring` holds bytes [tail_start, total) at offset % ring_room once it has grown to ring_max */
    uint64_t total, tail_start;
};

void output_init(struct output *o, size_t keep);
void output_free(struct output *o);
/* All of `data` is counted; what cannot be kept (no memory, no room) is forgotten. */
void output_add(struct output *o, const uint8_t *data, size_t size);
/* The next bytes at or after `*offset`, which moves over a gap; 0: there are none yet. They stay until the next `output_add`. */
size_t output_at(const struct output *o, uint64_t *offset, const uint8_t **data);
/* How many of all bytes are not kept. */
uint64_t output_skipped(const struct output *o);
/* Everything before `offset` may be forgotten. */
void output_release(struct output *o, uint64_t offset);
/* Bytes that can be added without losing one at or after `offset`. */
size_t output_free_room(const struct output *o, uint64_t offset);

#endif
