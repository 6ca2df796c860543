/* Trees as tar streams, both ways, as the command's user. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "box.h"
#include "files.h"
#include "tarhead.h"

enum { CHUNK = 256 << 10, NESTED = 512 };

static uint8_t out[CHUNK + 4 * TAR_NAME];
static size_t out_size;

static void emit(const void *data, size_t size) {
    const uint8_t *at = data;
    while (size) {
        size_t n = CHUNK - out_size < size ? CHUNK - out_size : size;
        if (at) memcpy(out + out_size, at, n);
        else memset(out + out_size, 0, n);
        out_size += n;
        size -= n;
        if (at) at += n;
        if (out_size < CHUNK) continue;
        answer_data(out, out_size);
        out_size = 0;
    }
}

static void emit_header(struct tar_entry *entry, const struct stat *info) {
    static uint8_t header[4 * TAR_NAME + 4 * TAR_BLOCK];
    entry->mode = info->st_mode & 07777;
    entry->mtime = info->st_mtim.tv_sec;
    entry->uid = info->st_uid;
    entry->gid = info->st_gid;
    emit(header, tar_build(entry, header, sizeof header));
}

/* As long as the header said, whatever becomes of the file meanwhile. */
static void emit_file(int fd, int64_t size) {
    static uint8_t part[64 << 10];
    int64_t left = size;
    while (left) {
        ssize_t n = read(fd, part, left < (int64_t)sizeof part ? (size_t)left : sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        emit(part, (size_t)n);
        left -= n;
    }
    emit(NULL, (size_t)left);
    emit(NULL, (size_t)(-size & (TAR_BLOCK - 1)));
}

static bool pack(int folder, const char *name, const char *shown, int nested);

static bool pack_folder(int inner, const char *shown, int nested) {
    char path[TAR_NAME];
    DIR *dir = fdopendir(inner);
    if (!dir) {
        close(inner);
        return false;
    }
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(dir));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        int size = snprintf(path, sizeof path, "%s%s%s", shown, *shown ? "/" : "", entry->d_name);
        if (size > 0 && (size_t)size < sizeof path) ok = pack(dirfd(dir), entry->d_name, path, nested + 1) || errno == ENOENT;
    }
    int error = errno;
    closedir(dir);
    errno = error;
    return ok;
}

static bool pack(int folder, const char *name, const char *shown, int nested) {
    static struct tar_entry entry;
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW)) return false;
    memset(&entry, 0, sizeof entry);
    snprintf(entry.name, sizeof entry.name, "%s", shown);
    if (S_ISLNK(info.st_mode)) {
        ssize_t size = readlinkat(folder, name, entry.link, sizeof entry.link - 1);
        if (size < 0) return false;
        entry.link[size] = 0;
        entry.type = '2';
        emit_header(&entry, &info);
        return true;
    }
    if (S_ISFIFO(info.st_mode)) {
        entry.type = '6';
        emit_header(&entry, &info);
        return true;
    }
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return true; /* an archive has no word for a socket */
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info)) return false;
    entry.type = S_ISDIR(info.st_mode) ? '5' : '0';
    entry.size = S_ISDIR(info.st_mode) ? 0 : info.st_size;
    int64_t size = entry.size;
    emit_header(&entry, &info);
    errno = ELOOP;
    if (S_ISDIR(info.st_mode)) return nested < NESTED && pack_folder(fd, shown, nested);
    emit_file(fd, size);
    close(fd);
    return true;
}

bool tar_pack(const char *path) {
    struct stat info;
    const char *slash = strrchr(path, '/');
    if (stat(path, &info)) return false;
    bool ok;
    if (S_ISDIR(info.st_mode)) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ok = fd >= 0 && pack_folder(fd, "", 0);
    } else {
        ok = pack(AT_FDCWD, path, slash ? slash + 1 : path, 0);
    }
    if (!ok) return false;
    emit(NULL, 2 * TAR_BLOCK);
    if (out_size) answer_data(out, out_size);
    answer_done(-1);
    return true;
}

/* ---- the other way ---- */

static const uint8_t *in;
static size_t in_size;
static bool in_over;

/* Exactly `size` bytes into `into` (NULL: past them). */
static bool take(uint8_t *into, int64_t size) {
    while (size) {
        if (!in_size) {
            ssize_t n = in_over ? 0 : stream_next(&in);
            if (n < 0) _exit(1);
            in_over = n == 0;
            errno = EPROTO;
            if (!n) return false;
            in_size = (size_t)n;
        }
        size_t n = (int64_t)in_size < size ? in_size : (size_t)size;
        if (into) {
            memcpy(into, in, n);
            into += n;
        }
        in += n;
        in_size -= n;
        size -= (int64_t)n;
    }
    return true;
}

/* The folder of `name` below `base`, made when missing; links on the way are an error. `last` is its own name. */
static int folder_of(int base, const char *name, const char **last) {
    char part[TAR_NAME];
    int at = dup(base);
    const char *slash;
    for (; at >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
        size_t size = (size_t)(slash - name);
        memcpy(part, name, size);
        part[size] = 0;
        if (mkdirat(at, part, 0755) && errno != EEXIST) {
            close(at);
            return -1;
        }
        int next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int error = errno;
        close(at);
        errno = error;
        at = next;
    }
    *last = name;
    return at;
}

static bool unpack_file(int folder, const char *name, const struct tar_entry *entry) {
    static uint8_t part[64 << 10];
    if (unlinkat(folder, name, 0) && errno != ENOENT) return false;
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool ok = true;
    for (int64_t left = entry->size; ok && left;) {
        size_t n = left < (int64_t)sizeof part ? (size_t)left : sizeof part;
        ok = take(part, (int64_t)n) && write_all(fd, part, n);
        left -= (int64_t)n;
    }
    struct timespec times[2] = {{0, UTIME_NOW}, {entry->mtime, 0}};
    ok = ok && take(NULL, -entry->size & (TAR_BLOCK - 1)) && !fchmod(fd, entry->mode & 01777) && !futimens(fd, times);
    int error = errno;
    close(fd);
    errno = error;
    return ok;
}

static bool unpack_hard_link(int base, int folder, const char *name, const struct tar_entry *entry) {
    char clean[TAR_NAME];
    const char *last;
    errno = EINVAL;
    if (!tar_clean(entry->link, clean)) return false;
    int from = folder_of(base, clean, &last);
    bool ok = from >= 0 && (!unlinkat(folder, name, 0) || errno == ENOENT) && !linkat(from, last, folder, name, 0);
    int error = errno;
    if (from >= 0) close(from);
    errno = error;
    return ok;
}

static bool unpack_folder(int folder, const char *name, const struct tar_entry *entry) {
    struct stat info;
    if (mkdirat(folder, name, 0755)) {
        if (errno != EEXIST || fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW)) return false;
        errno = ENOTDIR;
        if (!S_ISDIR(info.st_mode)) return false;
    }
    return !fchmodat(folder, name, (entry->mode & 01777) | 0700, 0);
}

static bool unpack(int base, const struct tar_entry *entry) {
    char clean[TAR_NAME];
    const char *name;
    errno = EINVAL;
    if (!tar_clean(entry->name, clean)) return entry->type == '5' && !strstr(entry->name, ".."); /* "./" itself */
    int folder = folder_of(base, clean, &name);
    if (folder < 0) return false;
    bool ok = true;
    if (entry->type == '0') ok = unpack_file(folder, name, entry);
    else if (entry->type == '5') ok = unpack_folder(folder, name, entry);
    else if (entry->type == '1') ok = unpack_hard_link(base, folder, name, entry);
    else if (entry->type == '2') ok = (!unlinkat(folder, name, 0) || errno == ENOENT) && !symlinkat(entry->link, folder, name);
    else ok = take(NULL, entry->size + (-entry->size & (TAR_BLOCK - 1))); /* devices and pipes are not made */
    int error = errno;
    close(folder);
    errno = error;
    return ok;
}

bool tar_unpack(const char *path) {
    static struct tar_entry entry;
    static struct tar_extra extra;
    static uint8_t block[TAR_BLOCK], text[TAR_EXTRA_MAX + TAR_BLOCK];
    if (!path_parents(path, 0755)) return false;
    int base = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (base < 0) return false;
    for (;;) {
        if (!take(block, TAR_BLOCK)) return false;
        enum tar_is kind = tar_parse(block, &extra, &entry);
        if (kind == TAR_END) break;
        errno = EPROTO;
        if (kind == TAR_BAD) return false;
        if (kind == TAR_ENTRY) {
            if (!unpack(base, &entry)) return false;
            continue;
        }
        if (!take(text, entry.size + (-entry.size & (TAR_BLOCK - 1)))) return false;
        errno = EPROTO;
        if (!tar_extra_add(kind, (const char *)text, (size_t)entry.size, &extra)) return false;
    }
    close(base);
    stream_drain();
    answer_ok(-1);
    return true;
}
