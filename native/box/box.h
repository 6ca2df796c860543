/* What the holder, the supervisor and the start of pid 1 share. */
#ifndef BOX_BOX_H
#define BOX_BOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "spec.h"

enum { STOPPED_MAX = 65536, NETWORK_FDS = 40 };

enum phase { RUNNING, FREEZING, PAUSED, THAWING, GONE };

/* Of the holder and of every supervisor; pid 1 never has it. */
struct state {
    enum phase phase;
    int64_t since, frozen_at, pause_at, delete_at; /* CLOCK_BOOTTIME ms; 0: none */
    int64_t pause_after_ms, idle_ms, delete_after_ms;
    bool wake;
    int32_t restarts;
    char reason[64];
    int32_t layers;      /* how many have been put under it: its upper layer is `upper`, then `upper.1` ... */
    bool resume_after;   /* a snapshot is being made of a box that ran */
    uint32_t stopped_count;
    pid_t stopped[STOPPED_MAX]; /* by us, in that order */
};

/* Written by the supervisor, read by pid 1 (which maps it read-only). */
struct clocks {
    _Atomic int64_t frozen_total_ms;
    _Atomic int64_t memory_kills, disk_kills; /* how often processes were killed for it */
    _Atomic bool disk_over;
};

/* Written by pid 1, so nothing that it says can be trusted with more than the box's own idleness. */
struct activity {
    _Atomic int64_t last_ms;
    _Atomic int32_t busy;
};

struct box {
    int dir, lock, log;
    int agent_listen, control_listen;
    int handoff;        /* our end */
    int handoff_inside; /* pid 1's end; -1 once it is closed here */
    pid_t holder, pid1, supervisor;
    int report;   /* to who started the holder; -1 once a supervisor was started */
    int first_up; /* closed by the first supervisor when it has begun; -1 in later ones */
    int pid1_fd, holder_fd;
    int user_namespace, mount_namespace; /* of pid 1: it lets nobody look into it later */
    struct spec spec;
    struct state *state;
    struct clocks *clocks;
    struct activity *activity;
    int memory[SPEC_LIST], memory_count;     /* its file systems in memory */
    int oom;                                 /* in pid 1: how often the kernel killed for memory; -1: it does not tell */
    int network[NETWORK_FDS], network_count; /* descriptors of sockets in the box's namespace */
};

int64_t boot_ms(void);
int64_t wall_ms(void);
/* One line in the log. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whole, or false with errno. */
bool write_all(int fd, const void *data, size_t size);
bool write_file(int dir, const char *path, const char *text);
ssize_t read_file(int dir, const char *path, char *into, size_t room);
/* The descriptors from `first` to `last`, in a child. */
bool close_between(int first, int last);
/* One message with at most 64 descriptors over a SOCK_SEQPACKET pair. */
bool send_message(int fd, const void *data, size_t size, const int *fds, int count);
ssize_t receive_message(int fd, void *data, size_t room, int *fds, int *count, int max);

int holder_run(const char *path, bool foreground);
_Noreturn void supervisor_run(struct box *box);
/* In the new process: makes the box around itself and becomes its agent. `go` gives one byte once it may start. */
_Noreturn void inside_run(struct box *box, int go);

/* The writable layer of that name in the box's directory, owned by the root of the box. */
bool holder_make_layer(struct box *box, const char *name);
/* enter.c: a path as the box has it (O_PATH), found by a process that looks from inside. -1: errno. */
int enter_open(const struct box *box, const char *path);
/* inside.c: in a process of the box's user namespace. */
bool inside_become_root(const struct spec *spec);

bool rootfs_open(struct box *box, const char **stage);
bool rootfs_make(struct box *box, const char **stage);
/* `watcher`: gets where the kernel tells of each connect(2) before it makes it; NULL: nobody wants to know.
 * With one, only who gives `connect_cookie` as fourth argument is not told of: the agent, which must not wait. */
bool seccomp_install(int *watcher, bool fake_owners);
extern uint32_t connect_cookie;
/* network.c: in the new namespace. */
bool network_up(void);
/* All addresses on `lo`; fills box->network. */
bool network_open(struct box *box);
bool privileges_drop(void);

bool freezer_freeze(struct box *box);
bool freezer_thaw(struct box *box);
/* What was sent SIGKILL: with control groups of version 1 nothing that is frozen dies. */
void freezer_let_die(const struct box *box);

bool limits_enter(const struct spec *spec, pid_t pid);
/* The file that tells how often the kernel killed a process of the box for its memory; -1: none. */
int limits_oom(const struct spec *spec);
void limits_release(const struct spec *spec);

#endif
