#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

enum { LINKS_MAX = 40 };

/* Puts `link` in front of what is left to walk. */
static bool put_before(char *rest, const char *link, const char *after) {
    char joined[PATH_ROOM * 2];
    int size = snprintf(joined, sizeof joined, "%s/%s", link, after);
    if (size < 0 || (size_t)size >= sizeof joined) return false;
    memcpy(rest, joined, (size_t)size + 1);
    return true;
}

bool path_resolve(const char *path, char into[PATH_ROOM]) {
    char rest[PATH_ROOM * 2], link[PATH_ROOM];
    size_t size = 0;
    int links = 0;
    errno = ENAMETOOLONG;
    if (strlen(path) >= PATH_ROOM) return false;
    strcpy(rest, path);
    into[0] = 0;
    for (char *at = rest; *at;) {
        at += strspn(at, "/");
        size_t part = strcspn(at, "/");
        if (!part) break;
        if (part == 1 && at[0] == '.') {
            at += part;
            continue;
        }
        if (part == 2 && at[0] == '.' && at[1] == '.') {
            while (size && into[--size] != '/') continue;
            into[size] = 0;
            at += part;
            continue;
        }
        errno = ENAMETOOLONG;
        if (size + part + 2 > PATH_ROOM) return false;
        into[size] = '/';
        memcpy(into + size + 1, at, part);
        into[size + part + 1] = 0;
        ssize_t n = readlink(into, link, sizeof link - 1);
        if (n < 0) {
            size += part + 1;
            at += part;
            continue;
        }
        errno = ELOOP;
        if (++links > LINKS_MAX) return false;
        link[n] = 0;
        if (link[0] == '/') size = 0;
        into[size] = 0;
        errno = ENAMETOOLONG;
        if (!put_before(rest, link, at + part)) return false;
        at = rest;
    }
    if (!size) strcpy(into, "/");
    return true;
}

bool path_place(const char *path, char into[PATH_ROOM]) {
    char folder[PATH_ROOM];
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/') size--;
    size_t start = size;
    while (start && path[start - 1] != '/') start--;
    size_t last = size - start;
    bool plain = last && !(last == 1 && path[start] == '.') && !(last == 2 && path[start] == '.' && path[start + 1] == '.');
    if (!plain) return path_resolve(path, into);
    errno = ENAMETOOLONG;
    if (size >= PATH_ROOM) return false;
    memcpy(folder, path, start);
    folder[start] = 0;
    if (!path_resolve(folder, into)) return false;
    size_t used = strcmp(into, "/") ? strlen(into) : 0;
    errno = ENAMETOOLONG;
    if (used + last + 2 > PATH_ROOM) return false;
    into[used] = '/';
    memcpy(into + used + 1, path + start, last);
    into[used + 1 + last] = 0;
    return true;
}

bool path_parents(const char *path, mode_t mode) {
    char part[PATH_ROOM];
    struct stat info;
    errno = ENAMETOOLONG;
    if (strlen(path) >= sizeof part) return false;
    strcpy(part, path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/') continue;
        char was = *p;
        *p = 0;
        if (mkdir(part, mode)) {
            if (errno != EEXIST && errno != EROFS && errno != EACCES) return false;
            int error = errno;
            if (stat(part, &info)) {
                errno = error;
                return false;
            }
            errno = was ? ENOTDIR : EEXIST;
            if (!S_ISDIR(info.st_mode)) return false;
        }
        if (!was) return true;
        *p = was;
    }
}

bool path_above(const char *path, const char *inner) {
    size_t size = strlen(path);
    if (size == 1) return true;
    return !strncmp(path, inner, size) && (!inner[size] || inner[size] == '/');
}
