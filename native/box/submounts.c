#include "submounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "box.h"

enum { MOUNTINFO_MAX = 4 << 20, MOUNT_POINT = 4 /* fields before it */ };

/* In place: "\040" is a space. */
static void unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from; to++) {
        bool octal = from[0] == '\\';
        for (int i = 1; octal && i < 4; i++) octal = from[i] >= '0' && from[i] <= '7';
        *to = octal ? (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0')) : *from;
        from += octal ? 4 : 1;
    }
    *to = 0;
}

static bool inside(const char *path, const char *folder) {
    size_t size = strlen(folder);
    return !strncmp(path, folder, size) && (!path[size] || path[size] == '/');
}

static bool add(struct submounts *into, const char *relative) {
    for (size_t i = 0; i < into->count; i++)
        if (inside(relative, into->list[i])) return true;
    for (size_t i = into->count; i-- > 0;)
        if (inside(into->list[i], relative)) {
            free(into->list[i]);
            into->list[i] = into->list[--into->count];
        }
    errno = E2BIG;
    if (into->count == SUBMOUNTS_MAX || !(into->list[into->count] = strdup(relative))) return false;
    into->count++;
    return true;
}

bool submounts_parse(char *text, const char *below, struct submounts *into) {
    size_t size = strcmp(below, "/") ? strlen(below) : 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        char *at = line;
        for (int i = 0; at && i < MOUNT_POINT; i++) at = (at = strchr(at, ' ')) ? at + 1 : NULL;
        if (!at) continue;
        at[strcspn(at, " ")] = 0;
        unescape(at);
        if (!strncmp(at, below, size) && at[size] == '/' && at[size + 1] && !add(into, at + size + 1)) return false;
    }
    return true;
}

bool submounts_find(const char *path, struct submounts *into) {
    char *real = realpath(path, NULL), *text = real ? malloc(MOUNTINFO_MAX) : NULL;
    ssize_t size = text ? read_file(AT_FDCWD, "/proc/self/mountinfo", text, MOUNTINFO_MAX) : -1;
    into->count = 0;
    if (size == MOUNTINFO_MAX - 1) errno = E2BIG;
    bool ok = size > 0 && size < MOUNTINFO_MAX - 1 && submounts_parse(text, real, into);
    int error = errno;
    free(text);
    free(real);
    errno = error;
    return ok;
}
