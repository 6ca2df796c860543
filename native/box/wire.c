#include "wire.h"

#include <string.h>

uint32_t wire_get32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int64_t wire_get64(const uint8_t *p) { return (int64_t)((uint64_t)wire_get32(p) | (uint64_t)wire_get32(p + 4) << 32); }

void wire_put32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}

void wire_put64(uint8_t *p, int64_t v) {
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)((uint64_t)v >> (8 * i));
}

bool wire_split(uint8_t *body, size_t size, struct fields *into, size_t max) {
    size_t at = 0;
    into->count = 0;
    while (at < size) {
        if (size - at < 5 || into->count == max) return false;
        struct field *f = &into->list[into->count];
        f->tag = body[at];
        f->size = wire_get32(body + at + 1);
        if (f->size > size - at - 5) return false;
        uint8_t *data = body + at + 5;
        f->number = f->size == 8 ? wire_get64(data) : 0;
        at += 5 + (size_t)f->size;
        memmove(data - 1, data, f->size);
        data[(ptrdiff_t)f->size - 1] = 0;
        f->text = (char *)data - 1;
        into->count++;
    }
    return true;
}

const struct field *wire_find(const struct fields *fields, uint8_t tag) {
    for (size_t i = 0; i < fields->count; i++)
        if (fields->list[i].tag == tag) return &fields->list[i];
    return NULL;
}

int64_t wire_number(const struct fields *fields, uint8_t tag, int64_t otherwise) {
    const struct field *f = wire_find(fields, tag);
    return f && f->size == 8 ? f->number : otherwise;
}

bool wire_flag(const struct fields *fields, uint8_t tag) { return wire_number(fields, tag, 0) != 0; }

const char *wire_text(const struct fields *fields, uint8_t tag) {
    const struct field *f = wire_find(fields, tag);
    return f && !memchr(f->text, 0, f->size) ? f->text : NULL;
}

void wire_begin(struct writer *w, uint8_t *at, size_t room, uint8_t kind) {
    w->at = at;
    w->room = room;
    w->size = 5;
    w->bad = room < 5;
    if (!w->bad) at[4] = kind;
}

void wire_add(struct writer *w, uint8_t tag, const void *data, size_t size) {
    if (w->bad || size > FRAME_MAX || w->room - w->size < size + 5) {
        w->bad = true;
        return;
    }
    w->at[w->size] = tag;
    wire_put32(w->at + w->size + 1, (uint32_t)size);
    if (size) memcpy(w->at + w->size + 5, data, size);
    w->size += size + 5;
}

void wire_add_text(struct writer *w, uint8_t tag, const char *text) { wire_add(w, tag, text, strlen(text)); }

void wire_add_number(struct writer *w, uint8_t tag, int64_t value) {
    uint8_t bytes[8];
    wire_put64(bytes, value);
    wire_add(w, tag, bytes, 8);
}

size_t wire_end(struct writer *w) {
    if (w->bad || w->size - 4 > FRAME_MAX) return 0;
    wire_put32(w->at, (uint32_t)(w->size - 4));
    return w->size;
}
