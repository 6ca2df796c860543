/* What changes below a folder, by inotify(7), until the client goes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include "files.h"

#ifndef WATCHED_MAX
#define WATCHED_MAX 8192
#endif
enum { FOLDERS_MAX = WATCHED_MAX, NESTED = 64 };
enum { CHANGES = IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_ONLYDIR };

static struct {
    int id;
    char *path;
} folders[FOLDERS_MAX];
static size_t folder_count;

static bool add(int notify, const char *path, bool recursive, int nested) {
    int id = inotify_add_watch(notify, path, CHANGES | (nested ? IN_DONT_FOLLOW : 0));
    if (id < 0) return false;
    size_t at = 0;
    while (at < folder_count && folders[at].id != id) at++;
    if (at == FOLDERS_MAX) {
        inotify_rm_watch(notify, id);
        errno = ENOSPC;
        return false;
    }
    char *copy = strdup(path);
    if (!copy) return false;
    if (at == folder_count) folder_count++;
    else free(folders[at].path);
    folders[at].id = id;
    folders[at].path = copy;
    DIR *dir = recursive && nested < NESTED ? opendir(path) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char inner[PATH_ROOM];
        if (entry->d_type != DT_DIR || !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        int size = snprintf(inner, sizeof inner, "%s/%s", strcmp(path, "/") ? path : "", entry->d_name);
        if (size > 0 && (size_t)size < sizeof inner) add(notify, inner, true, nested + 1);
    }
    if (dir) closedir(dir);
    return true;
}

static const char *kind_of(uint32_t mask) {
    return mask & IN_CREATE ? "create" : mask & (IN_DELETE | IN_DELETE_SELF) ? "delete" : mask & IN_MODIFY ? "modify" :
           mask & IN_ATTRIB ? "attributes" : mask & IN_MOVED_FROM ? "moved-from" : mask & IN_MOVED_TO ? "moved-to" :
           mask & IN_CLOSE_WRITE ? "written" : mask & IN_Q_OVERFLOW ? "overflow" : NULL;
}

static void tell(int notify, const struct inotify_event *event, bool recursive) {
    uint8_t room[PATH_ROOM + 128];
    char path[PATH_ROOM];
    struct writer w;
    const char *kind = kind_of(event->mask), *folder = "";
    for (size_t i = 0; i < folder_count; i++) {
        if (folders[i].id != event->wd) continue;
        folder = folders[i].path;
        if (!(event->mask & IN_IGNORED)) break;
        free(folders[i].path); /* it is watched no more, and its number will be another's */
        folders[i] = folders[--folder_count];
        return;
    }
    if (!*folder && event->wd >= 0) return;
    int size = snprintf(path, sizeof path, "%s%s%s", event->len && !strcmp(folder, "/") ? "" : folder, event->len ? "/" : "",
                        event->len ? event->name : "");
    if (!kind || size < 0 || (size_t)size >= sizeof path) return;
    if (recursive && event->mask & IN_ISDIR && event->mask & (IN_CREATE | IN_MOVED_TO)) add(notify, path, true, 1);
    wire_begin(&w, room, sizeof room, K_EVENT);
    wire_add_text(&w, T_PATH, path);
    wire_add_text(&w, T_EVENT, kind);
    answer_frame(&w);
}

bool watch_run(int client, const char *path, bool recursive) {
    static char buffer[16 << 10] __attribute__((aligned(8)));
    int notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (notify < 0 || !add(notify, path, recursive, 0)) return false;
    answer_ok(-1);
    for (;;) {
        struct pollfd both[2] = {{notify, POLLIN, 0}, {client, POLLIN | POLLRDHUP, 0}};
        if (poll(both, 2, -1) < 0 && errno != EINTR) _exit(1);
        if (both[1].revents) _exit(1); /* gone, or asks for something else: the connection ends */
        ssize_t size = read(notify, buffer, sizeof buffer);
        for (ssize_t at = 0; at < size;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)(buffer + at);
            tell(notify, event, recursive);
            at += (ssize_t)sizeof *event + event->len;
        }
    }
}
