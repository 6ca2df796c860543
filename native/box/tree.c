/* Whole trees, by descriptors: a link that the guest puts in the way meanwhile is not followed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
