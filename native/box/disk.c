/* Bytes of a tree of the guest's. It can change while we count, and lead nowhere: no link is followed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "usage.h"

enum { DEPTH_MAX = 900, DESCRIPTORS = 1024 };

enum { FILE_BYTES = 4096 }; /* for what takes no block and yet an inode, of which the host has only so many */

/* A file with several names counts for its share. */
static int64_t share(const struct stat *info) {
    int64_t names = S_ISDIR(info->st_mode) || info->st_nlink < 1 ? 1 : (int64_t)info->st_nlink;
    int64_t bytes = (int64_t)info->st_blocks * 512;
    return (bytes < FILE_BYTES ? FILE_BYTES : bytes) / names;
}

static int64_t below(int dir, int depth) {
    struct stat info;
    int64_t total = 0;
    DIR *all = depth < DEPTH_MAX ? fdopendir(dir) : NULL;
    if (!all) {
        close(dir);
        return INT64_MAX; /* it cannot be told: that must not be a way around the limit */
    }
    for (struct dirent *entry; total < INT64_MAX && (entry = readdir(all));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (fstatat(dirfd(all), entry->d_name, &info, AT_SYMLINK_NOFOLLOW)) continue;
        total += share(&info);
        if (!S_ISDIR(info.st_mode)) continue;
        int inner = openat(dirfd(all), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) continue;
        int64_t size = inner < 0 ? INT64_MAX : below(inner, depth + 1);
        total = size == INT64_MAX ? size : total + size;
    }
    closedir(all);
    return total;
}

int64_t disk_usage(int dir) {
    struct rlimit most = {DESCRIPTORS, DESCRIPTORS};
    setrlimit(RLIMIT_NOFILE, &most);
    return below(dir, 0);
}
