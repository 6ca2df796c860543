/* u32 id -> pointer, open addressing. Used for open calls and for timers; gives its memory back when it empties, so a
 * burst of ten thousand calls leaves nothing behind. */

typedef struct id_slot {
    uint32_t id; /* 0: free */
    void *value;
} id_slot;

typedef struct id_map {
    id_slot *slots;
    uint32_t size, count; /* size: 0 or a power of two */
} id_map;

static inline uint32_t id_hash(uint32_t id, uint32_t size) { return (id * 2654435769u) & (size - 1); }

static bool id_map_resize(id_map *m, uint32_t size)
{
    id_slot *fresh = size ? slab_calloc(NULL, size, sizeof(id_slot)) : NULL;
    if (size && !fresh)
        return false;
    for (uint32_t i = 0; i < m->size; i++) {
        if (!m->slots[i].id)
            continue;
        uint32_t at = id_hash(m->slots[i].id, size);
        while (fresh[at].id)
            at = (at + 1) & (size - 1);
        fresh[at] = m->slots[i];
    }
    slab_free(NULL, m->slots);
    m->slots = fresh;
    m->size = size;
    return true;
}

static bool id_map_put(id_map *m, uint32_t id, void *value)
{
    if (m->count * 4 >= m->size * 3 && !id_map_resize(m, m->size ? m->size * 2 : 16))
        return false;
    uint32_t at = id_hash(id, m->size);
    while (m->slots[at].id)
        at = (at + 1) & (m->size - 1);
    m->slots[at] = (id_slot){id, value};
    m->count++;
    return true;
}

static void *id_map_get(const id_map *m, uint32_t id)
{
    if (!m->count || !id)
        return NULL;
    for (uint32_t at = id_hash(id, m->size); m->slots[at].id; at = (at + 1) & (m->size - 1))
        if (m->slots[at].id == id)
            return m->slots[at].value;
    return NULL;
}

static void *id_map_take(id_map *m, uint32_t id)
{
    if (!id_map_get(m, id))
        return NULL;
    uint32_t mask = m->size - 1, at = id_hash(id, m->size);
    while (m->slots[at].id != id)
        at = (at + 1) & mask;
    void *value = m->slots[at].value;
    for (uint32_t next = (at + 1) & mask; m->slots[next].id; next = (next + 1) & mask) { /* close the gap */
        uint32_t home = id_hash(m->slots[next].id, m->size);
        if (((next - home) & mask) >= ((next - at) & mask)) {
            m->slots[at] = m->slots[next];
            at = next;
        }
    }
    m->slots[at] = (id_slot){0, NULL};
    if (--m->count == 0)
        id_map_resize(m, 0);
    else if (m->size > 16 && m->count * 8 < m->size)
        id_map_resize(m, m->size / 2); /* a failure keeps the larger table */
    return value;
}
