#include "open_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "walk.h"

enum { MAPS_MAX = 4 << 20 };

struct search {
    long ids[SPEC_LIST]; /* mounts of the box's own layers; the first is its root */
    size_t count;
    struct stat root;
    bool found;
};

static long number_after(const char *text, const char *name, int base) {
    const char *at = strstr(text, name);
    return at ? strtol(at + strlen(name), NULL, base) : -1;
}

/* Closes it. */
static long mount_of(int fd) {
    char info[64], text[1024];
    if (fd < 0) return -1;
    snprintf(info, sizeof info, "/proc/self/fdinfo/%d", fd);
    ssize_t size = read_file(AT_FDCWD, info, text, sizeof text);
    close(fd);
    return size > 0 ? number_after(text, "mnt_id:", 10) : -1;
}

static bool own(const struct search *s, long id) {
    for (size_t i = 0; i < s->count; i++)
        if (s->ids[i] == id) return true;
    return false;
}

/* What is at the root itself moves along: the kernel sees to that. */
static bool stands_elsewhere(const struct search *s, const char *place, const char *what) {
    char path[WALK_PLACE + 8];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", place, what);
    if (stat(path, &info)) return errno != ENOENT; /* ENOENT: it has ended */
    long id = mount_of(open(path, O_PATH | O_CLOEXEC));
    return id < 0 || (own(s, id) && (id != s->ids[0] || info.st_ino != s->root.st_ino || info.st_dev != s->root.st_dev));
}

static bool holds_descriptor(const struct search *s, const char *place) {
    char path[WALK_PLACE + 24], text[1024];
    snprintf(path, sizeof path, "%s/fdinfo", place);
    DIR *all = opendir(path);
    bool found = !all && errno != ENOENT && errno != ESRCH;
    for (struct dirent *entry; all && !found && (entry = readdir(all));) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        if (read_file(dirfd(all), entry->d_name, text, sizeof text) <= 0) continue;
        found = strstr(text, "inotify wd:"); /* it watches directories without having them open, and would hear of nothing more */
        if (found || !own(s, number_after(text, "mnt_id:", 10))) continue;
        struct stat info;
        snprintf(path, sizeof path, "%s/fd/%.16s", place, entry->d_name);
        found = (number_after(text, "flags:", 8) & O_ACCMODE) != O_RDONLY || strstr(text, "lock:") || stat(path, &info) || S_ISDIR(info.st_mode);
    }
    if (all) closedir(all);
    return found;
}

/* A shared mapping for writing outlives its descriptor. */
static bool holds_mapping(const char *place) {
    char path[WALK_PLACE + 8];
    snprintf(path, sizeof path, "%s/maps", place);
    char *text = malloc(MAPS_MAX);
    ssize_t size = text ? read_file(AT_FDCWD, path, text, MAPS_MAX) : -1;
    bool found = !text || size == MAPS_MAX - 1;
    for (char *line = text, *next; size > 0 && !found && line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        const char *modes = strchr(line, ' '), *name = strchr(line, '/');
        if (!modes || strlen(modes) < 5 || !name || modes[2] != 'w' || modes[4] != 's') continue;
        found = strncmp(name, "/dev/", 5) && strncmp(name, "/memfd:", 7) && strncmp(name, "/SYSV", 5) && strncmp(name, "/run/", 5);
    }
    free(text);
    return found;
}

static void look_at(void *context, pid_t pid) {
    struct search *s = context;
    char place[WALK_PLACE], path[WALK_PLACE + 8], link[8];
    snprintf(place, sizeof place, "/proc/%d", (int)pid);
    snprintf(path, sizeof path, "%s/exe", place);
    bool ended = readlink(path, link, sizeof link) < 0 && errno == ENOENT;
    if (ended) ended = !walk_other_thread(pid, place);
    if (!ended && (stands_elsewhere(s, place, "cwd") || stands_elsewhere(s, place, "root") || holds_descriptor(s, place) || holds_mapping(place)))
        s->found = true;
    if (!s->found) walk_children(pid, look_at, s);
}

bool open_files(const struct box *box) {
    static struct search s;
    memset(&s, 0, sizeof s);
    int root = enter_open(box, "/");
    if (root < 0 || fstat(root, &s.root)) return true;
    if ((s.ids[s.count++] = mount_of(root)) < 0) return true;
    for (size_t i = 0; i < box->spec.bind_keep.count && s.count < SPEC_LIST; i++)
        if ((s.ids[s.count++] = mount_of(enter_open(box, box->spec.bind_keep.list[i]))) < 0) return true;
    walk_children(box->pid1, look_at, &s);
    return s.found;
}
