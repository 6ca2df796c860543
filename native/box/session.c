/* The processes that belong to a command: its session, and whatever still descends from it. */
#include "agent.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 40, SEEN_MAX = 1 << 16 };

struct seen {
    pid_t pid, parent, session;
    bool ours;
};

static bool look(const char *name, struct seen *into) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.16s/stat", name);
    if (read_file(AT_FDCWD, path, text, sizeof text) <= 0) return false;
    char *at = strrchr(text, ')'); /* the name may have anything in it */
    if (!at || at[1] != ' ' || at[2] == 'X') return false;
    bool ended = at[2] == 'Z';
    long parent = strtol(at + 3, &at, 10), session;
    strtol(at, &at, 10); /* the group */
    session = strtol(at, &at, 10);
    for (int field = 7; field < 20; field++) strtol(at, &at, 10);
    if (ended && strtol(at, NULL, 10) < 2) return false; /* its threads, proc_pid_stat(5): others go on without the first */
    *into = (struct seen){atoi(name), (pid_t)parent, (pid_t)session, false};
    return true;
}

static size_t look_at_all(struct seen **list) {
    size_t count = 0, room = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all && (entry = readdir(all));) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        if (count == room) {
            room = room ? room * 2 : 64;
            struct seen *more = room > SEEN_MAX ? NULL : realloc(*list, room * sizeof **list);
            if (!more) break;
            *list = more;
        }
        if (look(entry->d_name, &(*list)[count])) count++;
    }
    if (all) closedir(all);
    return count;
}

static bool is_ours(const struct seen *list, size_t count, pid_t pid) {
    for (size_t i = 0; i < count; i++)
        if (list[i].pid == pid) return list[i].ours;
    return false;
}

static int once(pid_t leader, int signo) {
    struct seen *list = NULL;
    size_t count = look_at_all(&list);
    for (size_t i = 0; i < count; i++) list[i].ours = list[i].pid > 1 && (list[i].pid == leader || list[i].session == leader);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < count; i++) {
            if (list[i].ours || list[i].pid <= 1 || list[i].parent <= 1 || !is_ours(list, count, list[i].parent)) continue;
            list[i].ours = more = true;
        }
    }
    int hit = 0;
    for (size_t i = 0; i < count; i++)
        if (list[i].ours && list[i].pid != getpid() && !kill(list[i].pid, signo)) hit++;
    free(list);
    return hit;
}

int session_signal(pid_t leader, int signo) {
    int all = 0;
    for (int round = 0; round < (signo == SIGKILL ? ROUNDS : 1); round++) {
        int hit = once(leader, signo);
        all += hit;
        if (!hit) break; /* a whole look that met nobody: nobody is left who could start another */
    }
    return all;
}
