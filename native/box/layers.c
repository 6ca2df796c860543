#include "layers.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mounts.h"
#include "open_files.h"

struct report {
    int error;
    bool broken;
    char stage[32];
};

void layers_name(char into[32], const char *what, int count) {
    if (count) snprintf(into, 32, "%.16s.%d", what, count);
    else snprintf(into, 32, "%.16s", what);
}

/* The tops of what is mounted in the box: the rest hangs on them. */
static void tops(const struct spec *s, struct texts *into) {
    static char copies[SPEC_LIST][256];
    size_t copied = 0;
    const char *const own[] = {"/proc", "/dev", "/run"};
    into->count = 0;
    for (size_t i = 0; i < 3; i++) into->list[into->count++] = own[i];
    for (size_t i = 0; i < s->bind_ro.count && into->count < SPEC_LIST; i++) into->list[into->count++] = strchr(s->bind_ro.list[i], ':') + 1;
    for (size_t i = 0; i < s->tmpfs.count && into->count < SPEC_LIST; i++) {
        struct spec_tmpfs item;
        if (!spec_tmpfs(s->tmpfs.list[i], &item) || item.path_size >= sizeof *copies) continue;
        memcpy(copies[copied], s->tmpfs.list[i], item.path_size);
        copies[copied][item.path_size] = 0;
        into->list[into->count++] = copies[copied++];
    }
    for (size_t i = 0; i < into->count; i++)
        for (size_t k = 0; k < into->count; k++) {
            size_t size = strlen(into->list[k]);
            if (i == k || strncmp(into->list[i], into->list[k], size) || (into->list[i][size] && into->list[i][size] != '/')) continue;
            into->list[i--] = into->list[--into->count];
            break;
        }
}

static int clone_of(int at) {
    int tree = (int)syscall(SYS_open_tree, at, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    int error = errno;
    close(at);
    errno = error;
    return tree;
}

/* When nobody has the old tree any more, the kernel writes what is left of it to disk, however much that is. A process that nobody waits
 * for is the last to have it, and has nothing else. */
static void linger(int old) {
    int ends[2];
    char byte;
    if (pipe2(ends, O_CLOEXEC)) return;
    pid_t pid = fork();
    if (pid) {
        close(ends[0]); /* the other end ends with us */
        if (pid < 0) close(ends[1]);
        return;
    }
    if (dup2(old, 0) || dup2(ends[0], 1) != 1 || syscall(SYS_close_range, 2U, ~0U, 0U)) _exit(1);
    while (read(1, &byte, 1) < 0 && errno == EINTR) continue;
    _exit(0);
}

/* In the box's mount namespace, root of which becomes `tree`. */
static bool change(const struct spec *s, int tree, struct report *r) {
    struct texts places;
    int kept[SPEC_LIST], old = open("/", WALK), stand = old < 0 ? -1 : openat(old, "dev/shm", WALK);
    tops(s, &places);
    strcpy(r->stage, "stand");
    if (stand < 0 || !mounts_attach(tree, stand)) return false;
    strcpy(r->stage, "pivot");
    if (fchdir(tree) || syscall(SYS_pivot_root, ".", ".")) return false;
    r->broken = true;
    strcpy(r->stage, "keep");
    for (size_t i = 0; i < s->bind_keep.count; i++)
        if ((kept[i] = clone_of(mounts_place(tree, s->bind_keep.list[i], 0755))) < 0) return false;
    strcpy(r->stage, "move");
    for (size_t i = 0; i < places.count; i++)
        if (!mounts_attach_closing(openat(old, places.list[i] + 1, O_PATH | O_CLOEXEC), mounts_place(tree, places.list[i], 0755))) return false;
    strcpy(r->stage, "kept");
    for (size_t i = 0; i < s->bind_keep.count; i++) {
        if (fchdir(tree) || umount2(s->bind_keep.list[i] + 1, DETACH)) return false;
        if (!mounts_attach_closing(kept[i], mounts_place(tree, s->bind_keep.list[i], 0755))) return false;
    }
    strcpy(r->stage, "old");
    linger(old);
    return !fchdir(old) && !umount2(".", DETACH) && !chdir("/") && rootfs_alone();
}

/* In a process of its own: the overlay is mounted by the host's paths in a copy of its mounts, then handed over to the box's. */
static bool push(struct box *box, const struct texts *lower, const char *upper, const char *work, struct report *r) {
    strcpy(r->stage, "namespaces");
    if (setns(box->user_namespace, CLONE_NEWUSER) || unshare(CLONE_NEWNS)) return false;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return false;
    strcpy(r->stage, "lower");
    if (!rootfs_open_layers(box, lower, upper, work)) return false;
    strcpy(r->stage, "identity");
    umask(022);
    if (!inside_become_root(&box->spec)) return false;
    strcpy(r->stage, "overlay");
    if (!rootfs_overlay(box)) return false;
    int tree = clone_of(open(".", WALK));
    strcpy(r->stage, "enter");
    if (tree < 0 || setns(box->mount_namespace, CLONE_NEWNS)) return false;
    return change(&box->spec, tree, r);
}

/* As the old one is: its root is that of the box. */
static bool make_upper(struct box *box, const char *old, const char *upper, const char *work) {
    struct stat info;
    if (fstatat(box->dir, old, &info, AT_SYMLINK_NOFOLLOW)) return false;
    unlinkat(box->dir, upper, AT_REMOVEDIR); /* of an attempt that failed */
    if (!holder_make_layer(box, upper) || !holder_make_layer(box, work)) return false;
    return !fchownat(box->dir, upper, info.st_uid, info.st_gid, AT_SYMLINK_NOFOLLOW) && !fchmodat(box->dir, upper, info.st_mode & 07777, 0);
}

enum layers layers_push(struct box *box, const struct fields *below, char stage[32]) {
    static struct texts lower;
    static char names[SPEC_LIST][32];
    char upper[32], work[32];
    int count = box->state->layers, ends[2];
    struct report report = {EIO, false, "helper"};
    strcpy(stage, "upper");
    errno = EINVAL;
    if (box->spec.tmpfs_bytes) return LAYERS_FAILED;
    strcpy(stage, "files");
    if (open_files(box)) return LAYERS_BUSY;
    strcpy(stage, "lower");
    lower.count = 0;
    bool given = wire_find(below, T_LOWER) != NULL;
    for (int i = count; i >= (given ? count : 0) && lower.count < SPEC_LIST; i--) {
        layers_name(names[lower.count], "upper", i);
        lower.list[lower.count] = names[lower.count];
        lower.count++;
    }
    for (size_t i = 0; given && i < below->count; i++)
        if (below->list[i].tag == T_LOWER && lower.count < SPEC_LIST) lower.list[lower.count++] = below->list[i].text;
    for (size_t i = 0; !given && i < box->spec.lower.count && lower.count < SPEC_LIST; i++) lower.list[lower.count++] = box->spec.lower.list[i];
    errno = E2BIG;
    if (lower.count >= SPEC_LIST) return LAYERS_FAILED;
    layers_name(upper, "upper", count + 1);
    layers_name(work, "work", count + 1);
    strcpy(stage, "new-upper");
    if (!make_upper(box, names[0], upper, work) || pipe2(ends, O_CLOEXEC)) return LAYERS_FAILED;
    pid_t pid = fork();
    if (!pid) {
        bool ok = push(box, &lower, upper, work, &report);
        report.error = ok ? 0 : errno;
        _exit(!write_all(ends[1], &report, sizeof report));
    }
    close(ends[1]);
    ssize_t size = pid < 0 ? -1 : read(ends[0], &report, sizeof report);
    close(ends[0]);
    if (pid > 0) waitpid(pid, NULL, 0);
    memcpy(stage, report.stage, sizeof report.stage);
    errno = report.error;
    if (size != sizeof report) return LAYERS_BROKEN; /* it died: nobody knows where */
    if (report.error) return report.broken ? LAYERS_BROKEN : LAYERS_FAILED;
    box->state->layers = count + 1;
    return LAYERS_DONE;
}
