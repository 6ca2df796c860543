/* The processes of a box, as /proc tells them: from pid 1 downwards. */
#ifndef BOX_WALK_H
#define BOX_WALK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Calls `visit` for each child that `pid` has now, of all its threads. */
void walk_children(pid_t pid, void (*visit)(void *context, pid_t child), void *context);

/* The letter of what `pid` does, proc_pid_stat(5); of its threads, that of one that goes on, if there is one. 0: it is gone. */
char walk_state(pid_t pid);

enum { WALK_PLACE = 64 };
/* Where /proc tells of `pid` when its first thread has ended and another goes on. False: that is not so. */
bool walk_other_thread(pid_t pid, char place[WALK_PLACE]);

/* Signals `pid` if it still is below `first`: a number that was looked up a moment ago may be another's by now, and not in the box. */
bool walk_signal(pid_t first, pid_t pid, int signo);

/* Kills `pid` in the same way, and waits until what it had is given back. False: it is not there, or not so fast. */
bool walk_kill(pid_t first, pid_t pid, int wait_ms);

struct sample {
    int64_t memory;   /* bytes: at most this much (quick), or by proportional shares (exact) */
    int64_t pids, cpu_ms;
    int64_t unlinked; /* bytes of files on disk that only descriptors hold */
    int64_t memfd;    /* bytes of files in memory that are in no file system */
    pid_t largest;    /* never the first */
    int64_t largest_bytes;
};
/* Of `first` and all below it. */
struct sample walk_sample(pid_t first, bool exact);

#endif
