/* Feeds the parsers what nobody should send: mutations of what somebody would. Built with sanitizers, and run by the tests.
 *
 *     fuzz SECONDS SEED
 *
 * A plain loop, for compilers without libFuzzer; what it finds can be had again by the number that it prints. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../output.h"
#include "../spec.h"
#include "../submounts.h"
#include "../tarhead.h"
#include "../wire.h"

int our_snprintf(char *, size_t, const char *, ...);
/* submounts.c reads files too; nobody calls that here. */
ssize_t read_file(int dir, const char *path, char *into, size_t room);
ssize_t read_file(int dir, const char *path, char *into, size_t room) {
    (void)dir, (void)path, (void)into, (void)room;
    return -1;
}

enum { ROOM = 8192 };

static uint64_t state;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t below(size_t most) { return most ? (size_t)(next() % most) : 0; }

static void require(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

static size_t mutate(uint8_t *data, size_t size) {
    for (size_t changes = below(8); changes; changes--) {
        static const uint8_t notable[] = {0, 1, 0x7f, 0x80, 0xff, '/', '.', ':', '=', ' ', '\\', '\n', '0', '9'};
        size_t at = below(size + 1);
        switch (below(6)) {
        case 0:
            if (at < size) data[at] = (uint8_t)next();
            break;
        case 1:
            if (at < size) data[at] = notable[below(sizeof notable)];
            break;
        case 2: size = at; break;
        case 3:
            if (size < ROOM) {
                memmove(data + at + 1, data + at, size - at);
                data[at] = notable[below(sizeof notable)];
                size++;
            }
            break;
        case 4:
            if (at < size) {
                memmove(data + at, data + at + 1, size - at - 1);
                size--;
            }
            break;
        default:
            if (at + 4 < size) wire_put32(data + at, (uint32_t)next() >> below(32));
        }
    }
    return size;
}

/* A copy of exactly that size, so that a byte too far is seen. */
static uint8_t *exactly(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, data, size);
    return copy;
}

static void fuzz_fields(const uint8_t *data, size_t size) {
    struct field list[16];
    struct fields fields = {0, list};
    uint8_t *body = exactly(data, size);
    if (wire_split(body, size, &fields, 16))
        for (size_t i = 0; i < fields.count; i++) {
            require(list[i].text[list[i].size] == 0, "a field ends with a NUL");
            require((uint8_t *)list[i].text >= body && (uint8_t *)list[i].text + list[i].size < body + size, "a field lies in its body");
            wire_text(&fields, list[i].tag);
            wire_number(&fields, list[i].tag, 0);
        }
    free(body);
}

static size_t seed_fields(uint8_t *data) {
    struct writer w;
    wire_begin(&w, data, ROOM, K_EXEC);
    wire_add_text(&w, T_ARGV, "echo");
    wire_add_text(&w, T_ENV, "NAME=value");
    wire_add_number(&w, T_TIMEOUT_MS, 1000);
    wire_add(&w, T_DATA, "", 0);
    size_t size = wire_end(&w);
    memmove(data, data + 5, size - 5);
    return size - 5;
}

static void fuzz_spec(const uint8_t *data, size_t size) {
    static struct spec spec;
    char error[64], *text = (char *)exactly(data, size);
    if (spec_parse(text, size, &spec, error, sizeof error)) {
        require(spec.version == 1 && spec.lower.count > 0 && spec.lower.count <= SPEC_LIST, "a spec is whole");
        for (size_t i = 0; i < spec.tmpfs.count; i++) {
            struct spec_tmpfs item;
            require(spec_tmpfs(spec.tmpfs.list[i], &item) && item.path_size < size, "each file system in memory is");
        }
    } else {
        require(memchr(error, 0, sizeof error) != NULL, "there is a reason");
    }
    free(text);
}

static size_t seed_spec(uint8_t *data) {
    static const char text[] = "version=1\0id=x\0lower=/a\0lower=/b\0map_uid=1000\0bind_ro=/usr:/usr\0bind_keep=/usr/local\0"
                               "tmpfs=/dev/shm:1777:1000:10\0env=A=b\0upper=tmpfs:100:10\0memory_max=1\0network=none\0cgroup=/c";
    memcpy(data, text, sizeof text);
    return sizeof text;
}

/* No part of it is empty, "." or "..". */
static int stays_below(const char *name) {
    for (;; name++) {
        size_t part = strcspn(name, "/");
        if (!part || (part <= 2 && !memcmp(name, "..", part))) return 0;
        if (!*(name += part)) return 1;
    }
}

static void fuzz_tar(const uint8_t *data, size_t size) {
    static struct tar_extra extra;
    static struct tar_entry entry;
    static char clean[TAR_NAME];
    memset(&extra, 0, sizeof extra);
    uint8_t *all = exactly(data, size);
    for (size_t at = 0; at + TAR_BLOCK <= size; at += TAR_BLOCK) {
        if (next() % 2) { /* a sum that is right: else nothing behind it would be reached */
            unsigned sum = 8 * ' ';
            for (size_t i = 0; i < TAR_BLOCK; i++) sum += i >= 148 && i < 156 ? 0 : all[at + i];
            char text[8];
            snprintf(text, sizeof text, "%06o", sum);
            memcpy(all + at + 148, text, 7);
        }
        enum tar_is kind = tar_parse(all + at, &extra, &entry);
        if (kind == TAR_ENTRY) {
            require(entry.size >= 0 && memchr(entry.name, 0, TAR_NAME) && memchr(entry.link, 0, TAR_NAME), "an entry is whole");
            if (tar_clean(entry.name, clean)) require(clean[0] != '/' && stays_below(clean), "a name stays below");
        } else if (kind != TAR_BAD && kind != TAR_END) {
            size_t left = size - at - TAR_BLOCK, used = below(left + 1);
            char *text = (char *)exactly(all + at + TAR_BLOCK, used);
            tar_extra_add(kind, text, used, &extra);
            free(text);
        }
    }
    free(all);
}

static size_t seed_tar(uint8_t *data) {
    static struct tar_entry entry;
    memset(&entry, 0, sizeof entry);
    entry.type = next() % 2 ? '0' : '2';
    entry.mode = 0644;
    entry.size = (int64_t)below(2000);
    memset(entry.name, 'n', 1 + below(300));
    if (entry.type == '2') memset(entry.link, 'l', 1 + below(300));
    size_t size = tar_build(&entry, data, ROOM);
    if (next() % 4 == 0) data[156] = "xgLK"[below(4)];
    return size;
}

static void fuzz_mounts(const uint8_t *data, size_t size) {
    static struct submounts found;
    char *text = malloc(size + 1);
    if (!text) abort();
    memcpy(text, data, size);
    text[size] = 0;
    found.count = 0;
    submounts_parse(text, next() % 2 ? "/usr" : "/", &found);
    for (size_t i = 0; i < found.count; i++) {
        require(found.list[i][0] != 0, "a mount below has a name");
        free(found.list[i]);
    }
    free(text);
}

static size_t seed_mounts(uint8_t *data) {
    static const char text[] = "22 1 8:1 / / rw - ext4 /dev/x rw\n23 22 8:2 / /usr/local rw,nosuid shared:1 - ext4 x rw\n"
                               "24 23 8:2 / /usr/local/with\\040space rw - tmpfs x rw\n25 22 8:2 / /usr2 rw - ext4 x rw\n";
    memcpy(data, text, sizeof text - 1);
    return sizeof text - 1;
}

/* What was written can be had, byte for byte, but for the middle. */
static void fuzz_output(const uint8_t *data, size_t size) {
    struct output o;
    uint64_t written = 0, released = 0;
    output_init(&o, 16 + below(600));
    for (size_t at = 0; at < size;) {
        size_t part = 1 + below(300);
        uint8_t bytes[300];
        for (size_t i = 0; i < part; i++) bytes[i] = (uint8_t)((written + i) * 31);
        output_add(&o, bytes, part);
        written += part;
        require(o.total == written, "all is counted");
        if (data[at] % 7 == 0) output_release(&o, released = below((size_t)written + 1));
        uint64_t offset = data[at] % 3 ? 0 : below((size_t)written + 10);
        const uint8_t *found;
        for (size_t n; (n = output_at(&o, &offset, &found)); offset += n)
            for (size_t i = 0; i < n; i++) require(found[i] == (uint8_t)((offset + i) * 31), "bytes stay at their offset");
        output_free_room(&o, offset);
        require(output_skipped(&o) <= written, "no more is skipped than was written");
        at += 1 + below(40);
    }
    (void)released;
    output_free(&o);
}

static void fuzz_format(const uint8_t *data, size_t size) {
    char ours[64], theirs[64], text[32];
    size_t room = below(sizeof ours + 1), used = size < sizeof text - 1 ? size : sizeof text - 1;
    for (size_t i = 0; i < used; i++) text[i] = data[i] ? (char)data[i] : 'x';
    text[used] = 0;
    int width = (int)below(20);
    long long number = (long long)next() >> below(64);
#define BOTH(...) (our_snprintf(ours, room, __VA_ARGS__) == snprintf(theirs, room, __VA_ARGS__))
    memset(ours, 1, sizeof ours);
    memset(theirs, 1, sizeof theirs);
    int same = BOTH("%s=%d%%", text, (int)number) && BOTH("%.16s %lld", text, number) && BOTH("%0*llo", width, (unsigned long long)number) &&
               BOTH("%06o|%u", (unsigned)number, (unsigned)number) && BOTH("%zu:%.*s", (size_t)number, width, text);
    require(same && (!room || !strcmp(ours, theirs)), "it formats as the C library does");
}

static const struct target {
    const char *name;
    size_t (*seed)(uint8_t *data);
    void (*run)(const uint8_t *data, size_t size);
} TARGETS[] = {{"fields", seed_fields, fuzz_fields}, {"spec", seed_spec, fuzz_spec},       {"tar", seed_tar, fuzz_tar},
               {"mounts", seed_mounts, fuzz_mounts}, {"output", seed_mounts, fuzz_output}, {"format", seed_mounts, fuzz_format}};

int main(int argc, char **argv) {
    static uint8_t data[ROOM + 64];
    if (argc != 3) return 2;
    time_t end = time(NULL) + atoi(argv[1]);
    uint64_t first = strtoull(argv[2], NULL, 10), rounds = 0;
    do {
        for (int i = 0; i < 2000; i++, rounds++) {
            state = (first + rounds) * UINT64_C(0x9e3779b97f4a7c15) | 1;
            const struct target *target = &TARGETS[below(sizeof TARGETS / sizeof *TARGETS)];
            size_t size = target->seed(data);
            target->run(data, mutate(data, size));
        }
    } while (time(NULL) < end);
    printf("%llu\n", (unsigned long long)rounds);
    return 0;
}
