/* Stops every process of a box and lets them go on: by a control group where there is one, else by SIGSTOP from pid 1 downwards. */
#include "box.h"
#include "walk.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATIENCE_MS = 5000, BLOCKED_ROUNDS = 40 };

/* The first of the box's control groups that can freeze; -1: none. `name` is the file to write. */
static int freezing_group(const struct spec *spec, const char **name, const char **watch) {
    for (size_t i = 0; i < spec->cgroup.count; i++) {
        if (!*spec->cgroup.list[i]) continue;
        int dir = open(spec->cgroup.list[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0) continue;
        *name = "cgroup.freeze";
        *watch = "cgroup.events";
        if (!faccessat(dir, *name, W_OK, 0)) return dir;
        *name = *watch = "freezer.state";
        if (!faccessat(dir, *name, W_OK, 0)) return dir;
        close(dir);
    }
    return -1;
}

static bool by_group(int dir, const char *name, const char *watch, bool freeze) {
    bool v2 = !strcmp(name, "cgroup.freeze");
    const char *wanted = v2 ? (freeze ? "frozen 1" : "frozen 0") : (freeze ? "FROZEN" : "THAWED");
    if (!write_file(dir, name, v2 ? (freeze ? "1" : "0") : wanted)) return false;
    char text[256];
    for (int64_t end = boot_ms() + PATIENCE_MS; boot_ms() < end; usleep(100)) {
        if (read_file(dir, watch, text, sizeof text) < 0) return false;
        if (strstr(text, wanted)) return true;
    }
    errno = ETIMEDOUT;
    return false;
}

static bool ours(const struct state *s, pid_t pid) {
    for (uint32_t i = 0; i < s->stopped_count; i++)
        if (s->stopped[i] == pid) return true;
    return false;
}

struct walk {
    struct box *box;
    unsigned fresh, running, blocked;
};

/* The first process has no parent in the box by which `walk_signal` could tell that it still is the one. */
static bool stop(const struct box *box, pid_t pid) {
    if (pid != box->pid1) return walk_signal(box->pid1, pid, SIGSTOP);
    return !syscall(SYS_pidfd_send_signal, box->pid1_fd, SIGSTOP, NULL, 0);
}

static void visit(void *context, pid_t pid) {
    struct walk *walk = context;
    struct state *s = walk->box->state;
    char letter = walk_state(pid);
    if (!letter) return;
    bool known = ours(s, pid);
    if (letter == 'Z' || letter == 'X') {
        /* its children are not its any more */
    } else if (letter == 'T' && !known) {
        /* Stopped by the guest itself: it stays so when the others go on. */
    } else if (!known && s->stopped_count < STOPPED_MAX) {
        s->stopped[s->stopped_count] = pid;
        s->stopped_count++; /* after it is recorded: who comes after us may find us killed here */
        if (stop(walk->box, pid)) {
            walk->fresh++;
        } else { /* it has just gone, and may have left a child behind */
            s->stopped_count--;
            walk->running++;
        }
    } else if (letter != 'T' && letter != 't') {
        if (letter == 'D') {
            walk->blocked++;
        } else { /* not yet, or somebody in there has let it go on */
            if (known) stop(walk->box, pid);
            walk->running++;
        }
    }
    walk_children(pid, visit, walk);
}

/* Until two whole walks meet nothing that runs: past the first, a child of one that has just ended may have gone. Who waits for a
 * vfork of a stopped child cannot stop, nor run. */
static bool by_signals(struct box *box) {
    unsigned calm = 0;
    for (int64_t end = boot_ms() + PATIENCE_MS; boot_ms() < end;) {
        struct walk walk = {.box = box};
        visit(&walk, box->pid1);
        if (!walk.fresh && !walk.running) {
            if (++calm > (walk.blocked ? BLOCKED_ROUNDS : 1)) return true;
        } else {
            calm = 0;
        }
        if (!walk.fresh) usleep(200);
    }
    errno = ETIMEDOUT;
    return false;
}

static void by_signals_on(struct box *box) {
    struct state *s = box->state;
    while (s->stopped_count) {
        kill(s->stopped[s->stopped_count - 1], SIGCONT); /* children first: nobody is told that its child stopped */
        s->stopped_count--;
    }
}

bool freezer_freeze(struct box *box) {
    const char *name, *watch;
    int dir = freezing_group(&box->spec, &name, &watch);
    if (dir < 0) {
        if (by_signals(box)) return true;
        int error = errno;
        by_signals_on(box);
        errno = error;
        return false;
    }
    bool ok = by_group(dir, name, watch, true);
    int error = errno;
    if (!ok) by_group(dir, name, watch, false);
    close(dir);
    errno = error;
    return ok;
}

void freezer_let_die(const struct box *box) {
    const char *name, *watch;
    int dir = freezing_group(&box->spec, &name, &watch);
    if (dir < 0) return;
    if (!strcmp(name, "freezer.state")) write_file(dir, name, "THAWED");
    close(dir);
}

bool freezer_thaw(struct box *box) {
    const char *name, *watch;
    by_signals_on(box);
    int dir = freezing_group(&box->spec, &name, &watch);
    if (dir < 0) return true;
    bool ok = by_group(dir, name, watch, false);
    int error = errno;
    close(dir);
    errno = error;
    return ok;
}
