/* The bytes between a client, the supervisor and the agent: frames of fields. No I/O here. PROTOCOL.md says what each means. */
#ifndef BOX_WIRE_H
#define BOX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_MAX = (1 << 20) + 64, /* of what follows the length */
    FIELDS_MAX = 16384,
    DATA_CHUNK = 64 << 10, /* how much one DATA or OUTPUT frame of ours has at most */
};

enum kind {
    K_EXEC = 0x01, K_ATTACH, K_INPUT, K_SIGNAL, K_RESIZE, K_LIST, K_FORGET, K_ACK,
    K_READ = 0x10, K_WRITE, K_STAT, K_LISTDIR, K_MKDIR, K_REMOVE, K_MOVE, K_CHMOD, K_GLOB, K_WATCH, K_REALPATH,
    K_TAR_OUT, K_TAR_IN, K_COPY = 0x1e, K_SYMLINK = 0x1f,
    K_HELLO = 0x20, K_STATS, K_QUIESCE, K_RESUMED, K_RESEED, K_DIAL, K_LAYERS,
    K_END = 0x2e, K_DATA = 0x2f,
    K_STATUS = 0x40, K_FREEZE, K_THAW, K_KILL, K_TIMERS, K_SNAPSHOT_BEGIN, K_SNAPSHOT_END, K_EVENTS, K_BOX_STATS, K_RELAYER,
    K_OK = 0x80, K_ERROR, K_ANSWER, K_ENTRY, K_STARTED, K_OUTPUT, K_EXIT, K_EVENT, K_PROCESS, K_DONE = 0x8e,
};

enum tag {
    T_ARGV = 1, T_SHELL, T_CWD, T_ENV, T_USER, T_STDIN, T_PTY, T_ROWS, T_COLS, T_TIMEOUT_MS, T_KEEP_BYTES, T_DETACH, T_FOLLOW,
    T_RLIMIT, T_LABEL, T_OUTPUT_LIMIT,
    T_ID = 20, T_OUT_OFFSET, T_ERR_OFFSET, T_DATA, T_EOF, T_SIGNO, T_SCOPE,
    T_PATH = 30, T_OFFSET, T_LENGTH, T_MODE, T_APPEND, T_ATOMIC, T_PARENTS, T_FOLLOW_LINK, T_DEPTH, T_RECURSIVE, T_PROTECT, T_TO,
    T_REPLACE, T_PATTERN, T_PORT,
    T_VERSION = 50, T_PID,
    T_ERRNO = 60, T_MESSAGE, T_CODE,
    T_NAME = 70, T_TYPE, T_SIZE, T_MTIME_NS, T_UID = 74, T_GID, T_TARGET, T_TARGET_TYPE,
    T_EXIT_CODE = 80, T_SIGNAL, T_TIMED_OUT, T_LIMIT, T_OUT_TOTAL, T_ERR_TOTAL, T_OUT_SKIPPED, T_ERR_SKIPPED, T_EVENT, T_STATE,
    T_REASON = 90, T_MS, T_BOOT_ID, T_SINCE, T_WALL, T_RESTARTS, T_SUPERVISOR, T_PID1,
    T_PAUSE_AFTER_MS = 100, T_IDLE_MS, T_DELETE_AFTER_MS, T_WAKE, T_PAUSE_IN_MS, T_DELETE_IN_MS,
    T_MEMORY = 110, T_PIDS, T_CPU_MS, T_DISK, T_FROZEN_MS, T_LOWER, T_UPPER, T_WORK,
};

/* One field. `text` ends with a NUL of ours that `size` does not count; `number` is set when the field has eight bytes. */
struct field {
    uint8_t tag;
    uint32_t size;
    char *text;
    int64_t number;
};

struct fields {
    size_t count;
    struct field *list;
};

uint32_t wire_get32(const uint8_t *p);
int64_t wire_get64(const uint8_t *p);
void wire_put32(uint8_t *p, uint32_t v);
void wire_put64(uint8_t *p, int64_t v);

/* Splits `body` in place (each field moves by one byte to make room for its NUL). False: malformed, or more than `max` fields. */
bool wire_split(uint8_t *body, size_t size, struct fields *into, size_t max);
const struct field *wire_find(const struct fields *fields, uint8_t tag);
int64_t wire_number(const struct fields *fields, uint8_t tag, int64_t otherwise);
bool wire_flag(const struct fields *fields, uint8_t tag);
/* NULL when the field is absent or has a NUL inside. */
const char *wire_text(const struct fields *fields, uint8_t tag);

/* A frame that is being written into memory of the caller. `bad`: it did not fit; then there is no frame. */
struct writer {
    uint8_t *at;
    size_t size, room;
    bool bad;
};

void wire_begin(struct writer *w, uint8_t *at, size_t room, uint8_t kind);
void wire_add(struct writer *w, uint8_t tag, const void *data, size_t size);
void wire_add_text(struct writer *w, uint8_t tag, const char *text);
void wire_add_number(struct writer *w, uint8_t tag, int64_t value);
/* The size of the whole frame, 0 when it did not fit. */
size_t wire_end(struct writer *w);

#endif
