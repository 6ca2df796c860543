#include "tarhead.h"

#include <stdio.h>
#include <string.h>

/* Where a ustar header has what. */
enum { NAME = 0, MODE = 100, UID = 108, GID = 116, SIZE = 124, MTIME = 136, SUM = 148, TYPE = 156, LINK = 157, MAGIC = 257, PREFIX = 345 };
enum { NAME_SIZE = 100, PREFIX_SIZE = 155, PAX_ROOM = 2 * TAR_NAME + 256 };

static bool octal(const uint8_t *at, size_t size, int64_t *into) {
    uint64_t value = 0;
    if (at[0] & 0x80) { /* GNU: big endian, for what has no room in octal */
        for (size_t i = 0; i < size; i++) {
            if (value >> 54) return false;
            value = value << 8 | (i ? at[i] : (uint8_t)(at[i] & 0x7f));
        }
        *into = (int64_t)value;
        return value >> 62 == 0;
    }
    size_t i = 0;
    while (i < size && at[i] == ' ') i++;
    for (; i < size && at[i] >= '0' && at[i] <= '7'; i++) {
        if (value >> 58) return false;
        value = value << 3 | (uint64_t)(at[i] - '0');
    }
    *into = (int64_t)value;
    return i == size || !at[i] || at[i] == ' ';
}

static unsigned sum_of(const uint8_t block[TAR_BLOCK]) {
    unsigned sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++) sum += i >= SUM && i < SUM + 8 ? ' ' : block[i];
    return sum;
}

static size_t text_of(const uint8_t *at, size_t size, char *into) {
    size_t n = 0;
    while (n < size && at[n]) n++;
    memcpy(into, at, n);
    into[n] = 0;
    return n;
}

enum tar_is tar_parse(const uint8_t block[TAR_BLOCK], struct tar_extra *extra, struct tar_entry *into) {
    int64_t sum, mode;
    size_t used = 0;
    bool empty = true;
    for (size_t i = 0; i < TAR_BLOCK && empty; i++) empty = !block[i];
    if (empty) return TAR_END;
    memset(into, 0, offsetof(struct tar_entry, link));
    memset(into->link, 0, sizeof *into - offsetof(struct tar_entry, link));
    if (!octal(block + SUM, 8, &sum) || (uint64_t)sum != sum_of(block)) return TAR_BAD;
    if (!octal(block + SIZE, 12, &into->size) || !octal(block + MODE, 8, &mode) || !octal(block + MTIME, 12, &into->mtime)) return TAR_BAD;
    if (!octal(block + UID, 8, &into->uid)) into->uid = 0;
    if (!octal(block + GID, 8, &into->gid)) into->gid = 0;
    into->mode = (uint32_t)mode & 07777;
    into->type = block[TYPE] ? (char)block[TYPE] : '0';
    if (into->type == '7') into->type = '0';
    bool helper = into->type == 'x' || into->type == 'g' || into->type == 'L' || into->type == 'K';
    if (helper && into->size > TAR_EXTRA_MAX) return TAR_BAD;
    if (into->type == 'x') return TAR_EXTRA_PAX;
    if (into->type == 'g') return TAR_EXTRA_GLOBAL;
    if (into->type == 'L') return TAR_EXTRA_NAME;
    if (into->type == 'K') return TAR_EXTRA_LINK;
    if (!memcmp(block + MAGIC, "ustar", 6) && block[PREFIX]) {
        used = text_of(block + PREFIX, PREFIX_SIZE, into->name);
        into->name[used++] = '/';
    }
    text_of(block + NAME, NAME_SIZE, into->name + used);
    text_of(block + LINK, NAME_SIZE, into->link);
    if (extra->has_name) memcpy(into->name, extra->name, TAR_NAME);
    if (extra->has_link) memcpy(into->link, extra->link, TAR_NAME);
    if (extra->has_size) into->size = extra->size;
    if (extra->has_mtime) into->mtime = extra->mtime;
    memset(extra, 0, sizeof *extra);
    size_t end = strlen(into->name);
    if (into->type == '0' && end && into->name[end - 1] == '/') into->type = '5'; /* before ustar */
    if (into->type != '0') into->size = into->type == '1' || into->type == '2' || into->type == '5' ? 0 : into->size;
    return into->size < 0 ? TAR_BAD : TAR_ENTRY;
}

static bool decimal(const char *text, size_t size, int64_t *into) {
    int64_t value = 0;
    bool negative = size && text[0] == '-';
    for (size_t i = negative; i < size && text[i] != '.'; i++) {
        if (text[i] < '0' || text[i] > '9' || value > INT64_MAX / 20) return false;
        value = value * 10 + (text[i] - '0');
    }
    *into = negative ? -value : value;
    return size > negative;
}

static bool put_text(char into[TAR_NAME], const char *text, size_t size, bool *has) {
    if (size >= TAR_NAME || memchr(text, 0, size)) return false;
    memcpy(into, text, size);
    into[size] = 0;
    *has = true;
    return true;
}

static bool keyword(struct tar_extra *extra, const char *key, size_t key_size, const char *text, size_t size) {
    if (key_size == 4 && !memcmp(key, "path", 4)) return put_text(extra->name, text, size, &extra->has_name);
    if (key_size == 8 && !memcmp(key, "linkpath", 8)) return put_text(extra->link, text, size, &extra->has_link);
    if (key_size == 4 && !memcmp(key, "size", 4)) return extra->has_size = decimal(text, size, &extra->size) && extra->size >= 0;
    if (key_size == 5 && !memcmp(key, "mtime", 5)) return extra->has_mtime = decimal(text, size, &extra->mtime);
    return true;
}

/* Records "LENGTH KEY=VALUE\n". */
static bool add_pax(const char *text, size_t size, struct tar_extra *extra) {
    for (size_t at = 0; at < size;) {
        const char *space = memchr(text + at, ' ', size - at);
        int64_t length;
        if (!space || !decimal(text + at, (size_t)(space - text) - at, &length) || length < 5 || (uint64_t)length > size - at) return false;
        const char *key = space + 1, *end = text + at + length - 1;
        if (key >= end || *end != '\n') return false;
        const char *equals = memchr(key, '=', (size_t)(end - key));
        if (!equals || !keyword(extra, key, (size_t)(equals - key), equals + 1, (size_t)(end - equals - 1))) return false;
        at += (size_t)length;
    }
    return true;
}

bool tar_extra_add(enum tar_is kind, const char *text, size_t size, struct tar_extra *extra) {
    if (kind == TAR_EXTRA_GLOBAL) return true;
    if (kind == TAR_EXTRA_PAX) return add_pax(text, size, extra);
    while (size && !text[size - 1]) size--;
    return kind == TAR_EXTRA_NAME ? put_text(extra->name, text, size, &extra->has_name)
                                  : put_text(extra->link, text, size, &extra->has_link);
}

bool tar_clean(const char *name, char into[TAR_NAME]) {
    size_t used = 0;
    for (const char *p = name; *p;) {
        size_t part = strcspn(p, "/");
        if (part == 2 && p[0] == '.' && p[1] == '.') return false;
        if (part && !(part == 1 && p[0] == '.')) {
            if (used + part + 2 > TAR_NAME) return false;
            if (used) into[used++] = '/';
            memcpy(into + used, p, part);
            used += part;
        }
        p += part + (p[part] == '/');
    }
    into[used] = 0;
    return used > 0;
}

static void block_of(const struct tar_entry *entry, uint8_t *block) {
    char number[24];
    memset(block, 0, TAR_BLOCK);
    size_t size = strlen(entry->name);
    memcpy(block + NAME, entry->name, size < NAME_SIZE ? size : NAME_SIZE);
    size = strlen(entry->link);
    memcpy(block + LINK, entry->link, size < NAME_SIZE ? size : NAME_SIZE);
    const struct {
        size_t at, digits;
        int64_t value;
    } numbers[] = {{MODE, 7, entry->mode}, {UID, 7, entry->uid}, {GID, 7, entry->gid}, {SIZE, 11, entry->size}, {MTIME, 11, entry->mtime}};
    for (size_t i = 0; i < 5; i++) {
        int64_t most = (INT64_C(1) << (3 * numbers[i].digits)) - 1, value = numbers[i].value;
        snprintf(number, sizeof number, "%0*llo", (int)numbers[i].digits, (unsigned long long)(value < 0 || value > most ? 0 : value));
        memcpy(block + numbers[i].at, number, numbers[i].digits);
    }
    block[TYPE] = (uint8_t)entry->type;
    memcpy(block + MAGIC, "ustar\00000", 8);
    snprintf(number, sizeof number, "%06o", sum_of(block));
    memcpy(block + SUM, number, 7);
    block[SUM + 7] = ' ';
}

static size_t record(char *into, const char *key, const char *value) {
    size_t bare = strlen(key) + strlen(value) + 3, length = bare + 1;
    for (size_t digits = 1, ten = 10; length >= ten; ten *= 10) length = bare + ++digits;
    return (size_t)snprintf(into, PAX_ROOM, "%zu %s=%s\n", length, key, value);
}

size_t tar_build(const struct tar_entry *entry, uint8_t *into, size_t room) {
    char text[2 * PAX_ROOM], number[24];
    size_t size = 0, used = 0;
    if (strlen(entry->name) > NAME_SIZE) size += record(text + size, "path", entry->name);
    if (strlen(entry->link) > NAME_SIZE) size += record(text + size, "linkpath", entry->link);
    if (entry->size >= INT64_C(1) << 33) {
        snprintf(number, sizeof number, "%lld", (long long)entry->size);
        size += record(text + size, "size", number);
    }
    size_t padded = (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    if (room < 2 * TAR_BLOCK + padded) return 0;
    if (size) {
        static const char name[] = "././@PaxHeader";
        struct tar_entry pax = {.type = 'x', .mode = 0644, .size = (int64_t)size};
        memcpy(pax.name, name, sizeof name);
        block_of(&pax, into);
        memset(into + TAR_BLOCK, 0, padded);
        memcpy(into + TAR_BLOCK, text, size);
        used = TAR_BLOCK + padded;
    }
    block_of(entry, into + used);
    return used + TAR_BLOCK;
}
