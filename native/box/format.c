/* snprintf(3) with what this program uses: text, whole numbers. That of the C library brings floating point along, 16 KB of it. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct out {
    char *at;
    size_t room, size;
};

static void put(struct out *o, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++, o->size++)
        if (o->size + 1 < o->room) o->at[o->size] = text[i];
}

static void fill(struct out *o, char with, int count) {
    for (; count > 0; count--) put(o, &with, 1);
}

static size_t digits(uint64_t value, unsigned base, char room[32]) {
    size_t used = 32;
    do room[--used] = "0123456789abcdef"[value % base];
    while (value /= base);
    return used;
}

struct piece {
    bool zeros, has_most;
    int width, most, longs;
};

static const char *read_piece(const char *f, struct piece *p, va_list *args) {
    *p = (struct piece){0};
    for (; *f == '0'; f++) p->zeros = true;
    if (*f == '*') {
        p->width = va_arg(*args, int);
        f++;
    }
    for (; *f >= '0' && *f <= '9'; f++) p->width = p->width * 10 + (*f - '0');
    if (*f == '.') {
        p->has_most = true;
        if (*++f == '*') {
            p->most = va_arg(*args, int);
            f++;
        }
        for (; *f >= '0' && *f <= '9'; f++) p->most = p->most * 10 + (*f - '0');
    }
    for (; *f == 'l' || *f == 'z'; f++) p->longs += *f == 'z' ? 2 : 1;
    return f;
}

static void put_number(struct out *o, const struct piece *p, uint64_t value, bool negative, unsigned base) {
    char room[32];
    size_t from = digits(negative ? 0 - value : value, base, room);
    int missing = p->width - (int)(sizeof room - from) - negative;
    if (!p->zeros) fill(o, ' ', missing);
    if (negative) put(o, "-", 1);
    if (p->zeros) fill(o, '0', missing);
    put(o, room + from, sizeof room - from);
}

int vsnprintf(char *restrict into, size_t room, const char *restrict f, va_list given) {
    struct out o = {into, room, 0};
    struct piece p;
    va_list args;
    va_copy(args, given);
    for (; *f; f++) {
        if (*f != '%') {
            put(&o, f, 1);
            continue;
        }
        f = read_piece(f + 1, &p, &args);
        if (*f == 's') {
            const char *text = va_arg(args, const char *);
            size_t size = p.has_most ? strnlen(text, p.most < 0 ? 0 : (size_t)p.most) : strlen(text);
            put(&o, text, size);
        } else if (*f == 'd') {
            int64_t value = p.longs ? va_arg(args, long long) : va_arg(args, int);
            put_number(&o, &p, (uint64_t)value, value < 0, 10);
        } else if (*f == 'u' || *f == 'o' || *f == 'x') {
            uint64_t value = p.longs ? va_arg(args, unsigned long long) : va_arg(args, unsigned);
            put_number(&o, &p, value, false, *f == 'u' ? 10 : *f == 'o' ? 8 : 16);
        } else {
            put(&o, f, *f != 0);
            if (!*f) break;
        }
    }
    va_end(args);
    if (room) into[o.size < room ? o.size : room - 1] = 0;
    return (int)o.size;
}

int snprintf(char *restrict into, size_t room, const char *restrict format, ...) {
    va_list args;
    va_start(args, format);
    int size = vsnprintf(into, room, format, args);
    va_end(args);
    return size;
}
