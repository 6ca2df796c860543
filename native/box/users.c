/* Who a command runs as. /etc/passwd is the guest's: it is read with bounds and believed about names only. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PASSWD_MAX = 64 << 10 };

static bool number(const char *text, const char *end, uint32_t *into) {
    uint64_t value = 0;
    if (text == end) return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9' || value > UINT32_MAX / 10) return false;
        value = value * 10 + (uint64_t)(*text - '0');
    }
    if (value >= UINT32_MAX) return false;
    *into = (uint32_t)value;
    return true;
}

static void copy(char *into, size_t room, const char *from, const char *end) {
    size_t size = (size_t)(end - from) < room - 1 ? (size_t)(end - from) : room - 1;
    memcpy(into, from, size);
    into[size] = 0;
}

/* A line "name:x:uid:gid:text:home:shell" of which name or uid fits. */
static bool line_fits(const char *line, const char *end, const char *name, const uint32_t *uid, struct user *into) {
    const char *part[7];
    int count = 0;
    part[count++] = line;
    for (const char *p = line; p < end && count < 7; p++)
        if (*p == ':') part[count++] = p + 1;
    uint32_t is, group;
    if (count < 6 || !number(part[2], part[3] - 1, &is) || !number(part[3], part[4] - 1, &group)) return false;
    size_t size = (size_t)(part[1] - 1 - line);
    if (name ? strlen(name) != size || memcmp(name, line, size) != 0 : is != *uid) return false;
    into->uid = is;
    into->gid = group;
    copy(into->name, sizeof into->name, line, part[1] - 1);
    copy(into->home, sizeof into->home, part[5], count > 6 ? part[6] - 1 : end);
    return true;
}

static bool in_passwd(const char *name, const uint32_t *uid, struct user *into) {
    bool found = false;
    char *text = malloc(PASSWD_MAX);
    int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    ssize_t size = text && fd >= 0 ? read(fd, text, PASSWD_MAX - 1) : -1;
    for (ssize_t at = 0; at < size && !found;) {
        char *line = text + at, *end = memchr(line, '\n', (size_t)(size - at));
        if (!end) end = text + size;
        found = line_fits(line, end, name, uid, into);
        at = end - text + 1;
    }
    if (fd >= 0) close(fd);
    free(text);
    return found;
}

bool user_find(const char *text, struct user *into) {
    const struct spec *spec = agent.setup.spec;
    memset(into, 0, sizeof *into);
    uint32_t uid = (uint32_t)spec->uid, gid = (uint32_t)spec->gid;
    if (text) {
        const char *colon = strchr(text, ':'), *end = colon ? colon : text + strlen(text);
        if (!number(text, end, &uid)) return !colon && in_passwd(text, NULL, into);
        gid = uid;
        if (colon && !number(colon + 1, colon + strlen(colon), &gid)) return false;
        if (!colon && in_passwd(NULL, &uid, into)) return true;
    }
    if (in_passwd(NULL, &uid, into)) {
        into->gid = gid;
        return true;
    }
    into->uid = uid;
    into->gid = gid;
    strcpy(into->home, uid ? "/" : "/root");
    snprintf(into->name, sizeof into->name, "%u", uid);
    return true;
}

bool user_possible(const struct user *user) {
    const struct spec *spec = agent.setup.spec;
    if (spec->uid_count) return user->uid < spec->uid_count && user->gid < spec->uid_count && getuid() == 0;
    return user->uid == getuid() && user->gid == getgid();
}

/* Plain system calls: in a child that shares our memory a C library's own must not be used. */
bool user_become(const struct user *user) {
    if (getuid() != 0) return true;
    if (user->uid == 0 && user->gid == 0) return true;
    return !syscall(SYS_setgroups, 0, NULL) && !syscall(SYS_setresgid, user->gid, user->gid, user->gid) &&
           !syscall(SYS_setresuid, user->uid, user->uid, user->uid);
}
