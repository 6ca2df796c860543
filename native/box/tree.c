/* Whole trees, by descriptors: a link that the guest puts in the way meanwhile is not followed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

enum { NESTED_MAX = 512 };

static bool dots(const char *name) { return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])); }

static bool empty_folder(int folder, int depth);

static bool remove_at(int folder, const char *name, int depth) {
    if (!unlinkat(folder, name, 0) || errno == ENOENT) return true;
    int error = errno;
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(info.st_mode)) {
        errno = error;
        return false;
    }
    if (!unlinkat(folder, name, AT_REMOVEDIR)) return true;
    if (errno != ENOTEMPTY && errno != EEXIST) return false;
    errno = ELOOP;
    if (depth > NESTED_MAX) return false;
    int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) return false;
    return empty_folder(inner, depth + 1) && !unlinkat(folder, name, AT_REMOVEDIR);
}

/* Closes it. */
static bool empty_folder(int folder, int depth) {
    DIR *dir = fdopendir(folder);
    if (!dir) {
        close(folder);
        return false;
    }
    bool ok = true;
    errno = 0;
    for (struct dirent *entry; ok && (entry = readdir(dir));)
        ok = dots(entry->d_name) || remove_at(folder, entry->d_name, depth);
    int error = errno;
    closedir(dir);
    errno = error;
    return ok;
}

bool tree_remove(const char *path) { return remove_at(AT_FDCWD, path, 0); }

static bool list_folder(int folder, const char *shown, int64_t depth, int nested) {
    char path[PATH_ROOM];
    DIR *dir = fdopendir(folder);
    if (!dir) {
        close(folder);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat info;
        if (dots(entry->d_name) || fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW)) continue;
        int size = snprintf(path, sizeof path, "%s%s%s", shown, shown[strlen(shown) - 1] == '/' ? "" : "/", entry->d_name);
        if (size < 0 || (size_t)size >= sizeof path) continue;
        answer_entry(K_ENTRY, folder, entry->d_name, path, &info);
        if (depth < 2 || !S_ISDIR(info.st_mode) || nested > NESTED_MAX) continue;
        int inner = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner >= 0) list_folder(inner, path, depth - 1, nested + 1);
    }
    closedir(dir);
    return true;
}

bool tree_list(const char *path, int64_t depth) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder >= 0 && list_folder(folder, path, depth, 0);
}

static bool copy_content(int from, int to) {
    static char part[128 << 10];
    for (;;) {
        ssize_t n = read(from, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n == 0;
        for (ssize_t at = 0; at < n;) {
            ssize_t done = write(to, part + at, (size_t)(n - at));
            if (done < 0 && errno != EINTR) return false;
            if (done > 0) at += done;
        }
    }
}

static bool copy_at(int folder, const char *name, int into, const char *as, int depth);

static bool copy_folder(int inner, int into, int depth) {
    DIR *dir = fdopendir(inner);
    if (!dir) {
        close(inner);
        return false;
    }
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(dir));)
        ok = dots(entry->d_name) || copy_at(dirfd(dir), entry->d_name, into, entry->d_name, depth + 1);
    int error = errno;
    closedir(dir);
    errno = error;
    return ok;
}

static bool copy_link(int folder, const char *name, int into, const char *as) {
    char target[PATH_ROOM];
    ssize_t size = readlinkat(folder, name, target, sizeof target - 1);
    if (size < 0) return false;
    target[size] = 0;
    return !symlinkat(target, into, as);
}

/* The root of a copy may be a link to what is meant; inside, links are copied. */
static bool copy_at(int folder, const char *name, int into, const char *as, int depth) {
    struct stat info;
    if (fstatat(folder, name, &info, depth ? AT_SYMLINK_NOFOLLOW : 0)) return false;
    if (S_ISLNK(info.st_mode)) return copy_link(folder, name, into, as);
    errno = EINVAL;
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return depth > 0;
    int from = openat(folder, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
    if (from < 0) return false;
    bool ok;
    int to = -1;
    if (S_ISDIR(info.st_mode)) {
        errno = ELOOP;
        ok = depth < NESTED_MAX && !mkdirat(into, as, 0700) && (to = openat(into, as, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) >= 0;
        ok = ok ? copy_folder(from, to, depth) : (close(from), false);
    } else {
        struct stat there;
        to = openat(into, as, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600); /* what is there may be a pipe */
        ok = to >= 0 && !fstat(to, &there);
        if (ok && !S_ISREG(there.st_mode)) {
            errno = EINVAL;
            ok = false;
        }
        ok = ok && copy_content(from, to);
        close(from);
    }
    struct timespec times[2] = {info.st_atim, info.st_mtim};
    ok = ok && !fchmod(to, info.st_mode & 07777) && !futimens(to, times);
    int error = errno;
    if (to >= 0) close(to);
    errno = error;
    return ok;
}

bool tree_copy(const char *from, const char *to) { return copy_at(AT_FDCWD, from, AT_FDCWD, to, 0); }

/* `pattern` part by part; "**" is any number of folders. Bounded by the depth of the tree and of the pattern. */
static void glob_folder(int folder, const char *shown, const char *pattern, int nested);

static void glob_entry(int folder, const char *name, const char *shown, const char *pattern, int nested) {
    char part[256];
    struct stat info;
    size_t size = strcspn(pattern, "/");
    const char *rest = pattern[size] ? pattern + size + 1 : NULL;
    bool any = size == 2 && pattern[0] == '*' && pattern[1] == '*';
    if (size >= sizeof part || fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW)) return;
    memcpy(part, pattern, size);
    part[size] = 0;
    bool fits = any ? !rest : !fnmatch(part, name, FNM_PERIOD);
    if (any && name[0] == '.') return;
    if (fits && !rest) answer_entry(K_ENTRY, folder, name, shown, &info);
    const char *next = any ? pattern : rest;
    if (!(any || (fits && rest)) || !S_ISDIR(info.st_mode) || nested > NESTED_MAX) return;
    int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner >= 0) glob_folder(inner, shown, next, nested + 1);
}

static void glob_folder(int folder, const char *shown, const char *pattern, int nested) {
    char path[PATH_ROOM];
    DIR *dir = fdopendir(folder);
    if (!dir) {
        close(folder);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (dots(entry->d_name)) continue;
        int size = snprintf(path, sizeof path, "%s%s%s", shown, shown[strlen(shown) - 1] == '/' ? "" : "/", entry->d_name);
        if (size < 0 || (size_t)size >= sizeof path) continue;
        glob_entry(dirfd(dir), entry->d_name, path, pattern, nested);
        if (!strncmp(pattern, "**/", 3)) /* none of the folders it may be */
            glob_entry(dirfd(dir), entry->d_name, path, pattern + 3, nested);
    }
    closedir(dir);
}

bool tree_glob(const char *path, const char *pattern) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return false;
    glob_folder(folder, path, pattern, 0);
    return true;
}
