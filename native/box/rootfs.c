/* The root of a box: one overlay, read-only binds over it, a /proc with little in it, a /dev of our own.
 *
 * Every directory of the host is opened first, as who started us and in the new mount namespace, and named by its descriptor
 * afterwards: the root of the box could not walk there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mounts.h"
#include "submounts.h"

enum { OPTIONS_MAX = 4096 };

static int lowers[SPEC_LIST], lower_count, binds[SPEC_LIST], upper = -1, work = -1, own = -1;
static struct submounts *hidden[SPEC_LIST]; /* of each bind; NULL: nothing is mounted in it */

static const char *const DEVICES[] = {"null", "zero", "full", "random", "urandom", "tty"};
static int devices[sizeof DEVICES / sizeof *DEVICES];

/* Without what is mounted in it. Here such mounts are locked to their parent, which cannot be had alone: then they come along, and
 * are covered. */
static bool open_bind(size_t i, const char *source) {
    binds[i] = (int)syscall(SYS_open_tree, AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (binds[i] >= 0 || errno != EINVAL) return binds[i] >= 0;
    hidden[i] = calloc(1, sizeof **hidden);
    if (!hidden[i] || !submounts_find(source, hidden[i])) return false;
    binds[i] = (int)syscall(SYS_open_tree, AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    return binds[i] >= 0;
}

/* By the path that /proc gives: a descriptor from before the new mount namespace belongs to the old one. */
static bool open_own(const struct box *box) {
    char here[64], path[4096];
    snprintf(here, sizeof here, "/proc/self/fd/%d", box->dir);
    ssize_t size = readlink(here, path, sizeof path - 1);
    if (size <= 0 || size >= (ssize_t)sizeof path - 1) return false;
    path[size] = 0;
    own = open(path, WALK);
    struct stat was, is;
    if (own < 0 || fstat(box->dir, &was) || fstat(own, &is)) return false;
    errno = ESTALE;
    return was.st_ino == is.st_ino && was.st_dev == is.st_dev;
}

bool rootfs_open_layers(struct box *box, const struct texts *lower, const char *upper_name, const char *work_name) {
    if (!open_own(box)) return false;
    for (size_t i = 0; i < lower->count; i++)
        if ((lowers[i] = lower->list[i][0] == '/' ? open(lower->list[i], WALK) : openat(own, lower->list[i], WALK | O_NOFOLLOW)) < 0)
            return false;
    lower_count = (int)lower->count;
    if (box->spec.tmpfs_bytes) return true;
    upper = openat(own, upper_name, WALK | O_NOFOLLOW);
    work = openat(own, work_name, WALK | O_NOFOLLOW);
    return upper >= 0 && work >= 0;
}

bool rootfs_open(struct box *box, const char **stage) {
    const struct spec *s = &box->spec;
    *stage = "private-mounts";
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return false;
    *stage = "bind_ro";
    for (size_t i = 0; i < s->bind_ro.count; i++) {
        char source[4096];
        size_t size = strcspn(s->bind_ro.list[i], ":");
        errno = ENAMETOOLONG;
        if (size >= sizeof source) return false;
        memcpy(source, s->bind_ro.list[i], size);
        source[size] = 0;
        if (!open_bind(i, source)) return false;
    }
    *stage = "devices";
    for (size_t i = 0; i < sizeof DEVICES / sizeof *DEVICES; i++) {
        char path[32];
        snprintf(path, sizeof path, "/dev/%s", DEVICES[i]);
        if ((devices[i] = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)) < 0) return false;
    }
    *stage = "lower";
    return rootfs_open_layers(box, &s->lower, "upper", "work");
}

/* Below the directory we stand in. */
static bool place(const char *path, mode_t mode) {
    if (!mkdir(path, mode)) return !chmod(path, mode);
    struct stat info;
    if (errno != EEXIST || stat(path, &info)) return false;
    errno = ENOTDIR;
    return S_ISDIR(info.st_mode);
}

int mounts_place(int from, const char *path, mode_t mode) {
    char part[4096];
    int at = openat(from, ".", WALK);
    for (const char *p = path; at >= 0 && *p;) {
        while (*p == '/') p++;
        size_t size = strcspn(p, "/");
        if (!size) break;
        if (size >= sizeof part || (size == 2 && !memcmp(p, "..", 2))) {
            close(at);
            errno = EINVAL;
            return -1;
        }
        memcpy(part, p, size);
        part[size] = 0;
        p += size;
        bool last = !p[strspn(p, "/")];
        bool fresh = !mkdirat(at, part, 0755);
        int next = openat(at, part, WALK | O_NOFOLLOW);
        if (next >= 0 && fresh && last && fchmodat(at, part, mode, 0)) {
            close(next);
            next = -1;
        }
        close(at);
        at = next;
    }
    return at;
}

static int place_in_root(const char *path, mode_t mode) { return mounts_place(AT_FDCWD, path, mode); }

bool mounts_attach(int tree, int at) {
    return !syscall(SYS_move_mount, tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

static bool restrict_tree(int tree, uint64_t flags) {
    struct mount_attr attributes = {.attr_set = flags};
    return !syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof attributes);
}

static int new_mount(const char *type, const char *const *options, unsigned flags) {
    int context = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
    if (context < 0) return -1;
    bool ok = true;
    for (; ok && *options; options += 2) ok = !syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, options[0], options[1], 0);
    ok = ok && !syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    int tree = ok ? (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, flags) : -1;
    int error = errno;
    close(context);
    errno = error;
    return tree;
}

static int new_tmpfs(int64_t bytes, int64_t inodes, int64_t mode, unsigned flags) {
    char size[32], count[32], octal[16];
    snprintf(size, sizeof size, "%lld", (long long)bytes);
    snprintf(count, sizeof count, "%lld", (long long)inodes);
    snprintf(octal, sizeof octal, "%llo", (long long)mode);
    const char *const options[] = {"size", size, "nr_inodes", count, "mode", octal, NULL};
    return new_mount("tmpfs", options, flags);
}

bool mounts_attach_closing(int tree, int at) {
    bool ok = tree >= 0 && at >= 0 && mounts_attach(tree, at);
    int error = errno;
    if (tree >= 0) close(tree);
    if (at >= 0) close(at);
    errno = error;
    return ok;
}

/* A small file system to stand on: a place for the overlay's mount, and its upper layer when that is to be in memory. It lies over
 * the box's own directory, never over "/": it would be what is taken away after the change of roots, and the host would stay. */
static bool stand(const struct spec *s) {
    int64_t bytes = s->tmpfs_bytes ? s->tmpfs_bytes : 1 << 16, inodes = s->tmpfs_inodes ? s->tmpfs_inodes : 64;
    int tree = new_tmpfs(bytes, inodes, 0755, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (tree < 0) return false;
    bool ok = mounts_attach(tree, own) && !fchdir(tree);
    close(tree);
    ok = ok && place("root", 0755);
    return ok && (!s->tmpfs_bytes || (place("upper", 0755) && place("work", 0755)));
}

bool rootfs_overlay(const struct box *box) {
    const struct spec *s = &box->spec;
    if (!stand(s)) return false;
    char *options = malloc(OPTIONS_MAX);
    if (!options) return false;
    size_t size = 0;
    for (int i = 0; i < lower_count && size < OPTIONS_MAX; i++)
        size += (size_t)snprintf(options + size, OPTIONS_MAX - size, "%s/proc/self/fd/%d", i ? ":" : "lowerdir=", lowers[i]);
    if (size < OPTIONS_MAX && s->tmpfs_bytes)
        size += (size_t)snprintf(options + size, OPTIONS_MAX - size, ",upperdir=upper,workdir=work,userxattr");
    else if (size < OPTIONS_MAX)
        size += (size_t)snprintf(options + size, OPTIONS_MAX - size,
                                 ",upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d,userxattr", upper, work);
    errno = E2BIG;
    bool ok = size < OPTIONS_MAX && !mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV, options);
    free(options);
    return ok && !chdir("root");
}

/* Over a directory an empty one, over a file the null device. */
static bool cover(int at, int null) {
    struct stat info;
    if (at < 0 || fstat(at, &info)) return false;
    int tree;
    if (S_ISDIR(info.st_mode))
        tree = new_tmpfs(4096, 1, 0555, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    else
        tree = (int)syscall(SYS_open_tree, null, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    return mounts_attach_closing(tree, at);
}

static bool cover_submounts(size_t i, const char *to) {
    for (size_t k = 0; hidden[i] && k < hidden[i]->count; k++) {
        char path[8192];
        int size = snprintf(path, sizeof path, "%s/%s", to[0] == '/' ? to + 1 : to, hidden[i]->list[k]);
        errno = ENAMETOOLONG;
        if (size < 0 || (size_t)size >= sizeof path) return false;
        if (!cover(open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW), devices[0])) return false;
    }
    return true;
}

static bool read_only_binds(const struct spec *s) {
    int kept[SPEC_LIST], count = 0;
    for (size_t i = 0; i < s->bind_keep.count; i++) {
        int at = place_in_root(s->bind_keep.list[i], 0755);
        if (at < 0) return false;
        kept[count] = (int)syscall(SYS_open_tree, at, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
        close(at);
        if (kept[count++] < 0) return false;
    }
    for (size_t i = 0; i < s->bind_ro.count; i++) {
        const char *to = strchr(s->bind_ro.list[i], ':') + 1;
        if (!restrict_tree(binds[i], MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)) return false;
        if (!mounts_attach_closing(binds[i], place_in_root(to, 0755)) || !cover_submounts(i, to)) return false;
    }
    for (int i = 0; i < count; i++)
        if (!mounts_attach_closing(kept[i], place_in_root(s->bind_keep.list[i], 0755))) return false;
    return true;
}

static bool make_dev(void) {
    int at = place_in_root("dev", 0755);
    if (!mounts_attach_closing(new_tmpfs(1 << 16, 64, 0755, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), at)) return false;
    char path[64];
    for (size_t i = 0; i < sizeof DEVICES / sizeof *DEVICES; i++) {
        snprintf(path, sizeof path, "dev/%s", DEVICES[i]);
        int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
        if (!restrict_tree(devices[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC) || !mounts_attach_closing(devices[i], file)) return false;
    }
    /* Each mount is an instance of its own since 4.7, but all share what the host has: 4096 by default. */
    const char *const options[] = {"ptmxmode", "0666", "mode", "0620", "max", "256", NULL};
    if (!place("dev/pts", 0755)) return false;
    if (!mounts_attach_closing(new_mount("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), place_in_root("dev/pts", 0755))) return false;
    if (!place("dev/shm", 01777)) return false;
    return !symlink("pts/ptmx", "dev/ptmx") && !symlink("/proc/self/fd", "dev/fd") && !symlink("/proc/self/fd/0", "dev/stdin") &&
           !symlink("/proc/self/fd/1", "dev/stdout") && !symlink("/proc/self/fd/2", "dev/stderr");
}

/* What is not there needs no mask. */
static bool mask(const char *path, int null) {
    struct stat info;
    if (lstat(path, &info)) return errno == ENOENT;
    if (S_ISLNK(info.st_mode)) return true;
    return cover(open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW), null);
}

static bool read_only(const char *path) {
    if (access(path, F_OK)) return errno == ENOENT;
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0) return false;
    bool ok = restrict_tree(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    return mounts_attach_closing(tree, open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW)) && ok;
}

static bool make_proc(const char **stage) {
    static const char *const masked[] = {"kcore", "keys", "key-users", "latency_stats", "timer_list", "timer_stats", "sched_debug",
                                         "interrupts", "acpi", "scsi", "asound", "sysrq-trigger", "kallsyms", "kmsg",
                                         "kpagecount", "kpageflags", "kpagecgroup", "vmallocinfo", "slabinfo", "softirqs",
                                         "modules", "config.gz", "iomem", "ioports", "mtrr", "dma"};
    static const char *const fixed[] = {"sys", "bus", "fs", "irq", "driver", "tty", "pressure"};
    const char *const options[] = {NULL};
    char path[64];
    *stage = "proc";
    int tree = new_mount("proc", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (!mounts_attach_closing(tree, place_in_root("proc", 0555))) return false;
    *stage = "proc-masks";
    int null = open("dev/null", O_PATH | O_CLOEXEC);
    if (null < 0) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof masked / sizeof *masked; i++) {
        snprintf(path, sizeof path, "proc/%s", masked[i]);
        ok = mask(path, null);
    }
    for (size_t i = 0; ok && i < sizeof fixed / sizeof *fixed; i++) {
        snprintf(path, sizeof path, "proc/%s", fixed[i]);
        ok = read_only(path);
    }
    int error = errno;
    close(null);
    errno = error;
    return ok;
}

static bool make_tmpfs(const struct spec *s) {
    bool shared_memory = false, run = false;
    for (size_t i = 0; i < s->tmpfs.count; i++) {
        struct spec_tmpfs item;
        char path[4096];
        errno = EINVAL;
        if (!spec_tmpfs(s->tmpfs.list[i], &item) || item.path_size >= sizeof path) return false;
        memcpy(path, s->tmpfs.list[i], item.path_size);
        path[item.path_size] = 0;
        shared_memory = shared_memory || !strcmp(path, "/dev/shm");
        run = run || !strcmp(path, "/run");
        int tree = new_tmpfs(item.bytes, item.inodes, item.mode, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        if (!mounts_attach_closing(tree, place_in_root(path, (mode_t)item.mode))) return false;
    }
    unsigned flags = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if (!shared_memory && !mounts_attach_closing(new_tmpfs(64 << 20, 8192, 01777, flags), place_in_root("dev/shm", 01777))) return false;
    return run || mounts_attach_closing(new_tmpfs(16 << 20, 8192, 0755, flags), place_in_root("run", 0755));
}

/* Else the way up from it would lead there. */
bool rootfs_alone(void) {
    struct stat root, above;
    if (stat("/", &root) || stat("/..", &above)) return false;
    errno = EXDEV;
    return root.st_dev == above.st_dev && root.st_ino == above.st_ino;
}

bool rootfs_make(struct box *box, const char **stage) {
    const struct spec *s = &box->spec;
    *stage = "overlay";
    if (!rootfs_overlay(box)) return false;
    *stage = "binds";
    if (!read_only_binds(s)) return false;
    *stage = "dev";
    if (!make_dev()) return false;
    if (!make_proc(stage)) return false;
    *stage = "tmpfs";
    if (!make_tmpfs(s)) return false;
    *stage = "pivot";
    /* The old root comes to lie over the new one, and goes with everything that was mounted in it. */
    return !syscall(SYS_pivot_root, ".", ".") && !umount2(".", DETACH) && !chdir("/") && rootfs_alone();
}
