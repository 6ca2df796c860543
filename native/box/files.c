#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent.h"

enum { NO_REPLACE = 1 }; /* RENAME_NOREPLACE, which is not in every C library */

static int client = -1;
static const uint8_t *early; /* of the stream, came with the request */
static size_t early_size;
static bool stream_over;
static uint8_t frame[FRAME_MAX + 64];

void answer_frame(struct writer *w) {
    size_t size = wire_end(w);
    if (!size || !write_all(client, w->at, size)) _exit(1);
}

void answer_ok(int64_t size) {
    uint8_t room[64];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_OK);
    if (size >= 0) wire_add_number(&w, T_SIZE, size);
    answer_frame(&w);
}

void answer_error(int error, const char *code) {
    uint8_t room[256];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_ERROR);
    wire_add_number(&w, T_ERRNO, error);
    wire_add_text(&w, T_MESSAGE, strerror(error));
    wire_add_text(&w, T_CODE, code);
    answer_frame(&w);
}

void answer_data(const void *data, size_t size) {
    struct writer w;
    wire_begin(&w, frame, sizeof frame, K_ANSWER);
    memmove(frame + 5, data, size);
    w.size += size;
    answer_frame(&w);
}

void answer_done(int64_t size) {
    uint8_t room[64];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_DONE);
    if (size >= 0) wire_add_number(&w, T_SIZE, size);
    answer_frame(&w);
}

static const char *type_of(mode_t mode) {
    return S_ISREG(mode) ? "f" : S_ISDIR(mode) ? "d" : S_ISLNK(mode) ? "l" : S_ISFIFO(mode) ? "p" : S_ISSOCK(mode) ? "s" :
           S_ISCHR(mode) ? "c" : "b";
}

void answer_entry(uint8_t kind, int dir, const char *path, const char *shown, const struct stat *info) {
    static uint8_t room[3 * PATH_ROOM];
    char target[PATH_ROOM];
    struct stat end;
    struct writer w;
    const char *slash = strrchr(shown, '/');
    wire_begin(&w, room, sizeof room, kind);
    wire_add_text(&w, T_NAME, slash ? slash + 1 : shown);
    wire_add_text(&w, T_PATH, shown);
    wire_add_text(&w, T_TYPE, type_of(info->st_mode));
    wire_add_number(&w, T_SIZE, info->st_size);
    wire_add_number(&w, T_MODE, info->st_mode & 07777);
    wire_add_number(&w, T_MTIME_NS, (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec);
    wire_add_number(&w, T_UID, info->st_uid);
    wire_add_number(&w, T_GID, info->st_gid);
    if (S_ISLNK(info->st_mode)) {
        ssize_t size = readlinkat(dir, path, target, sizeof target);
        if (size > 0) wire_add(&w, T_TARGET, target, (size_t)size);
        if (!fstatat(dir, path, &end, 0)) wire_add_text(&w, T_TARGET_TYPE, type_of(end.st_mode));
    }
    answer_frame(&w);
}

static bool receive(void *into, size_t size) {
    uint8_t *at = into;
    while (size) {
        if (early_size) {
            size_t n = early_size < size ? early_size : size;
            memcpy(at, early, n);
            early += n;
            early_size -= n;
            at += n;
            size -= n;
            continue;
        }
        ssize_t n = read(client, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {client, POLLIN, 0};
            if (poll(&wait, 1, -1) < 0 && errno != EINTR) return false;
            continue;
        }
        if (n <= 0) return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

ssize_t stream_next(const uint8_t **data) {
    uint8_t head[5];
    for (;;) {
        if (stream_over) return 0;
        if (!receive(head, 5)) return -1;
        uint32_t length = wire_get32(head);
        if (length < 1 || length > FRAME_MAX || (head[4] != K_DATA && head[4] != K_END)) return -1;
        if (!receive(frame, length - 1)) return -1;
        if (head[4] == K_END) stream_over = true;
        else if (length > 1) {
            *data = frame;
            return (ssize_t)length - 1;
        }
    }
}

void stream_drain(void) {
    const uint8_t *ignored;
    ssize_t n;
    while ((n = stream_next(&ignored)) > 0) continue;
    if (n < 0) _exit(1);
}

/* Never waits for the other end of a pipe, never takes a terminal. */
static int open_regular(const char *path, int flags, mode_t mode, struct stat *info) {
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
    if (fd < 0) return -1;
    if (fstat(fd, info) || !S_ISREG(info->st_mode)) {
        int error = S_ISDIR(info->st_mode) ? EISDIR : EINVAL;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool do_read(const char *path, const struct fields *fields) {
    struct stat info;
    int fd = open_regular(path, O_RDONLY, 0, &info);
    if (fd < 0) return false;
    int64_t at = wire_number(fields, T_OFFSET, 0), left = wire_number(fields, T_LENGTH, -1), size = 0;
    if (at && lseek(fd, at, SEEK_SET) < 0) return false;
    while (left) {
        size_t most = left > 0 && left < (256 << 10) ? (size_t)left : 256 << 10;
        ssize_t n = read(fd, frame + 5, most);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        if (!n) break;
        answer_data(frame + 5, (size_t)n);
        size += n;
        if (left > 0) left -= n;
    }
    answer_done(size);
    return true;
}

static bool write_stream(int fd, int64_t *size) {
    const uint8_t *data;
    ssize_t n;
    while ((n = stream_next(&data)) > 0) {
        if (!write_all(fd, data, (size_t)n)) return false;
        *size += n;
    }
    if (n < 0) _exit(1); /* the client broke off */
    return true;
}

/* A file without a name where there can be one: whatever becomes of us, nothing of it is left. */
static int open_beside(const char *real, char beside[PATH_ROOM + 64], mode_t mode, bool *named) {
    int folder = (int)(strrchr(real, '/') - real);
    snprintf(beside, PATH_ROOM + 64, "%.*s/", folder, real);
    /* The supervisor of an ordinary user cannot see what we have open, and so would not count it. */
    bool seen = agent.setup.spec->uid_count > 0;
    int fd = seen ? open(beside, O_WRONLY | O_TMPFILE | O_CLOEXEC, mode) : -1;
    if (!seen) errno = EOPNOTSUPP;
    *named = fd < 0;
    snprintf(beside, PATH_ROOM + 64, "%.*s/.%lld.%lld.new", folder, real, (long long)getpid(), (long long)boot_ms());
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT))
        fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode); /* an overlay before Linux 6.1, gVisor */
    return fd;
}

static bool name_it(int fd, const char *beside) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return !linkat(AT_FDCWD, path, AT_FDCWD, beside, AT_SYMLINK_FOLLOW);
}

/* A new file beside the old one takes its place only when it is whole. */
static bool write_atomic(const char *path, mode_t mode, bool has_mode) {
    char real[PATH_ROOM], beside[PATH_ROOM + 64];
    bool named;
    struct stat old;
    int64_t size = 0;
    if (!path_resolve(path, real)) return false;
    bool exists = !stat(real, &old);
    errno = exists && S_ISDIR(old.st_mode) ? EISDIR : EINVAL;
    if (exists && !S_ISREG(old.st_mode)) return false;
    if (exists && access(real, W_OK)) return false;
    int fd = open_beside(real, beside, mode, &named);
    if (fd < 0) return false;
    if (exists && !has_mode) mode = old.st_mode & 07777;
    signal(SIGTERM, SIG_DFL);
    const uint8_t *data;
    ssize_t n = 0;
    bool ok = !(exists || has_mode) || !fchmod(fd, mode);
    while (ok && (n = stream_next(&data)) > 0) {
        ok = write_all(fd, data, (size_t)n);
        size += ok ? n : 0;
    }
    ok = ok && n == 0 && (named || name_it(fd, beside));
    named |= ok;
    ok = ok && !rename(beside, real);
    int error = errno;
    close(fd);
    if (!ok && named) unlink(beside);
    if (n < 0) _exit(1);
    errno = error;
    if (ok) answer_ok(size);
    return ok;
}

static bool do_write(const char *path, const struct fields *fields) {
    int64_t mode = wire_number(fields, T_MODE, -1), at = wire_number(fields, T_OFFSET, 0), size = 0;
    mode_t bits = mode >= 0 ? (mode_t)mode & 07777 : 0644;
    bool append = wire_flag(fields, T_APPEND);
    if (wire_flag(fields, T_PARENTS)) {
        char folder[PATH_ROOM];
        const char *slash = strrchr(path, '/');
        size_t n = (size_t)(slash - path);
        errno = ENAMETOOLONG;
        if (n >= sizeof folder) return false;
        memcpy(folder, path, n);
        folder[n] = 0;
        if (n && !path_parents(folder, 0755)) {
            if (errno == EEXIST) errno = ENOTDIR;
            return false;
        }
    }
    if (wire_flag(fields, T_ATOMIC) && !append && !at) return write_atomic(path, bits, mode >= 0);
    struct stat info;
    int fd = open_regular(path, O_WRONLY | O_CREAT | (append ? O_APPEND : at ? 0 : O_TRUNC), bits, &info);
    if (fd < 0) return false;
    if (mode >= 0 && (info.st_mode & 07777) != bits && fchmod(fd, bits)) return false;
    if (at && lseek(fd, at, SEEK_SET) < 0) return false;
    if (!write_stream(fd, &size) || close(fd)) return false;
    answer_ok(size);
    return true;
}

static bool do_stat(const char *path, const struct fields *fields) {
    struct stat info;
    if (wire_number(fields, T_FOLLOW_LINK, 1) ? stat(path, &info) : lstat(path, &info)) return false;
    answer_entry(K_OK, AT_FDCWD, path, path, &info);
    return true;
}

static bool do_list(const char *path, const struct fields *fields) {
    if (!tree_list(path, wire_number(fields, T_DEPTH, 1))) return false;
    answer_done(-1);
    return true;
}

static bool do_mkdir(const char *path, const struct fields *fields) {
    int64_t mode = wire_number(fields, T_MODE, 0755);
    bool fresh = access(path, F_OK) != 0;
    bool ok = wire_flag(fields, T_PARENTS) ? path_parents(path, 0755) : !mkdir(path, (mode_t)mode & 07777);
    if (!ok || (fresh && wire_find(fields, T_MODE) && chmod(path, (mode_t)mode & 07777))) return false;
    answer_ok(-1);
    return true;
}

static bool do_remove(const char *path, const struct fields *fields) {
    char real[PATH_ROOM], kept[PATH_ROOM];
    struct stat info;
    if (lstat(path, &info) || !path_place(path, real)) return false;
    bool forbidden = !strcmp(real, "/");
    for (size_t i = 0; i < fields->count && !forbidden; i++)
        if (fields->list[i].tag == T_PROTECT && path_resolve(fields->list[i].text, kept)) forbidden = path_above(real, kept);
    if (forbidden) {
        answer_error(EPERM, "protected");
        return true;
    }
    bool ok = wire_flag(fields, T_RECURSIVE) ? tree_remove(real) : S_ISDIR(info.st_mode) ? !rmdir(real) : !unlink(real);
    if (ok) answer_ok(-1);
    return ok;
}

static bool do_realpath(const char *path, const struct fields *fields) {
    char real[PATH_ROOM];
    uint8_t room[PATH_ROOM + 64];
    struct writer w;
    (void)fields;
    if (!path_resolve(path, real)) return false;
    wire_begin(&w, room, sizeof room, K_OK);
    wire_add_text(&w, T_PATH, real);
    answer_frame(&w);
    return true;
}

static const char *target_of(const struct fields *fields) {
    const char *to = wire_text(fields, T_TO);
    errno = EINVAL;
    return to && *to ? to : NULL;
}

static bool do_move(const char *path, const struct fields *fields) {
    const char *to = target_of(fields);
    struct stat info;
    if (!to || to[0] != '/') return false;
    if (syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, to, wire_number(fields, T_REPLACE, 0) ? 0 : NO_REPLACE)) {
        if (errno != EXDEV) return false;
        /* Between file systems, or a folder of a lower layer (overlayfs without redirect_dir): a copy, then the old one goes. */
        bool exists = !lstat(to, &info);
        errno = EEXIST;
        if (exists && (!wire_number(fields, T_REPLACE, 0) || !tree_remove(to))) return false;
        if (!tree_copy(path, to) || !tree_remove(path)) return false;
    }
    answer_ok(-1);
    return true;
}

static bool do_copy(const char *path, const struct fields *fields) {
    char from[PATH_ROOM], into[PATH_ROOM];
    const char *to = target_of(fields);
    if (!to || to[0] != '/' || !path_resolve(path, from) || !path_resolve(to, into)) return false;
    errno = EINVAL;
    if (path_above(from, into)) return false; /* it would copy itself for ever */
    if (!tree_copy(path, to)) return false;
    answer_ok(-1);
    return true;
}

static bool do_symlink(const char *path, const struct fields *fields) {
    const char *to = target_of(fields);
    if (!to || symlink(to, path)) return false;
    answer_ok(-1);
    return true;
}

static bool do_chmod(const char *path, const struct fields *fields) {
    if (chmod(path, (mode_t)wire_number(fields, T_MODE, 0644) & 07777)) return false;
    answer_ok(-1);
    return true;
}

static bool do_glob(const char *path, const struct fields *fields) {
    const char *pattern = wire_text(fields, T_PATTERN);
    errno = EINVAL;
    if (!pattern || !*pattern || *pattern == '/' || !tree_glob(path, pattern)) return false;
    answer_done(-1);
    return true;
}

static bool do_watch(const char *path, const struct fields *fields) { return watch_run(client, path, wire_flag(fields, T_RECURSIVE)); }

static bool do_tar_out(const char *path, const struct fields *fields) {
    (void)fields;
    return tar_pack(path);
}

static bool do_tar_in(const char *path, const struct fields *fields) {
    (void)fields;
    return tar_unpack(path);
}

static const struct {
    uint8_t kind;
    bool (*run)(const char *path, const struct fields *fields);
} OPERATIONS[] = {
    {K_READ, do_read},     {K_WRITE, do_write},     {K_STAT, do_stat},       {K_LISTDIR, do_list}, {K_MKDIR, do_mkdir},
    {K_REMOVE, do_remove}, {K_MOVE, do_move},       {K_CHMOD, do_chmod},     {K_GLOB, do_glob},    {K_WATCH, do_watch},
    {K_COPY, do_copy},     {K_SYMLINK, do_symlink}, {K_REALPATH, do_realpath}, {K_TAR_OUT, do_tar_out}, {K_TAR_IN, do_tar_in},
};

bool files_known(uint8_t kind) {
    for (size_t i = 0; i < sizeof OPERATIONS / sizeof *OPERATIONS; i++)
        if (OPERATIONS[i].kind == kind) return true;
    return false;
}

/* What a box over its limit of disk is refused; to remove is not. */
bool files_add(uint8_t kind) {
    return kind == K_WRITE || kind == K_TAR_IN || kind == K_COPY || kind == K_MKDIR || kind == K_SYMLINK;
}

bool files_stream(uint8_t kind) { return kind == K_WRITE || kind == K_TAR_IN; }

_Noreturn void files_run(int fd, uint8_t kind, const struct fields *fields, const uint8_t *rest, size_t size) {
    struct user user;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Of the agent's own: an end that only a worker still has would not be heard. */
    if (fd > 3) close_between(3, fd - 1);
    close_between(fd + 1, INT_MAX);
    client = fd;
    early = rest;
    early_size = size;
    umask(022);
    const char *path = wire_text(fields, T_PATH);
    if (!user_find(wire_text(fields, T_USER), &user) || !user_possible(&user) || !user_become(&user)) {
        answer_error(EPERM, "user");
    } else if (!path || path[0] != '/') {
        answer_error(EINVAL, "path");
    } else if (files_add(kind) && agent.setup.clocks && atomic_load(&agent.setup.clocks->disk_over)) {
        answer_error(EDQUOT, "disk");
    } else {
        for (size_t i = 0; i < sizeof OPERATIONS / sizeof *OPERATIONS; i++)
            if (OPERATIONS[i].kind == kind && !OPERATIONS[i].run(path, fields)) answer_error(errno, "os");
    }
    if (files_stream(kind)) stream_drain();
    _exit(0);
}
