/* Starts a command. The child shares our memory until it becomes the program, and only makes system calls. That is what vfork does,
 * but who stops the child would stop us: we wait for it by ourselves. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "walk.h"

enum { STACK = 64 * 1024, LOOK_MS = 50, STOPPED_LOOKS = 20 };
enum { ARGV_MAX = 8192, ENV_MAX = 4096, RLIMITS_MAX = 16, COMMAND_MAX = 256 };

struct one_rlimit {
    int resource;
    struct rlimit value;
};

struct plan {
    char *argv[ARGV_MAX + 1], *env[ENV_MAX + 1];
    char texts[1024]; /* HOME=.. and the like */
    const char *cwd, *path;
    struct user user;
    struct one_rlimit rlimits[RLIMITS_MAX];
    size_t rlimit_count;
    int in, out, err; /* for the child */
    int becoming;     /* closed when it has become the program, or ended */
    bool pty;
    int64_t memory_kills, disk_kills;
    char program[4096];
    volatile int failed; /* errno of a child that did not become the program */
    volatile const char *failed_at;
};

static const struct {
    const char *name;
    int resource;
} RLIMITS[] = {{"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC}, {"fsize", RLIMIT_FSIZE}, {"data", RLIMIT_DATA},
               {"as", RLIMIT_AS}, {"cpu", RLIMIT_CPU}, {"stack", RLIMIT_STACK}, {"core", RLIMIT_CORE}, {"memlock", RLIMIT_MEMLOCK}};

static void add_rlimit(struct plan *plan, int resource, int64_t value) {
    if (value <= 0 || plan->rlimit_count == RLIMITS_MAX) return;
    plan->rlimits[plan->rlimit_count++] = (struct one_rlimit){resource, {(rlim_t)value, (rlim_t)value}};
}

static bool read_rlimits(struct plan *plan, const struct fields *fields) {
    const struct spec *spec = agent.setup.spec;
    plan->rlimit_count = 0;
    add_rlimit(plan, RLIMIT_NOFILE, spec->nofile);
    add_rlimit(plan, RLIMIT_FSIZE, spec->fsize_max);
    add_rlimit(plan, RLIMIT_NPROC, spec->pids_max);
    if (spec->by_rlimit) add_rlimit(plan, RLIMIT_DATA, spec->memory_max);
    plan->rlimits[plan->rlimit_count++] = (struct one_rlimit){RLIMIT_CORE, {0, 0}};
    for (size_t i = 0; i < fields->count; i++) {
        if (fields->list[i].tag != T_RLIMIT) continue;
        const char *text = fields->list[i].text, *colon = strchr(text, ':');
        char *end;
        int resource = -1;
        for (size_t k = 0; colon && k < sizeof RLIMITS / sizeof *RLIMITS; k++)
            if (strlen(RLIMITS[k].name) == (size_t)(colon - text) && !memcmp(RLIMITS[k].name, text, (size_t)(colon - text)))
                resource = RLIMITS[k].resource;
        long long value = colon && colon[1] ? strtoll(colon + 1, &end, 10) : -1;
        if (resource < 0 || value < 0 || *end || plan->rlimit_count == RLIMITS_MAX) return false;
        plan->rlimits[plan->rlimit_count++] = (struct one_rlimit){resource, {(rlim_t)value, (rlim_t)value}};
    }
    return true;
}

static bool same_name(const char *a, const char *b) {
    size_t size = strcspn(a, "=");
    return strcspn(b, "=") == size && !memcmp(a, b, size);
}

static bool set_env(struct plan *plan, size_t *count, char *text) {
    for (size_t i = 0; i < *count; i++)
        if (same_name(plan->env[i], text)) {
            plan->env[i] = text;
            return true;
        }
    if (*count == ENV_MAX) return false;
    plan->env[(*count)++] = text;
    return true;
}

/* Ours, then the box's, then who asks for another user gets that one's, then the command's. */
static bool read_env(struct plan *plan, const struct fields *fields) {
    static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", lang[] = "LANG=C.UTF-8";
    const struct spec *spec = agent.setup.spec;
    size_t count = 0, used = 0;
    bool ok = set_env(plan, &count, path) && set_env(plan, &count, lang);
    const char *const names[][2] = {{"HOME", plan->user.home}, {"USER", plan->user.name}, {"LOGNAME", plan->user.name},
                                    {"SHELL", spec->shell}};
    bool other = wire_find(fields, T_USER) != NULL;
    for (size_t i = 0; ok && !other && i < spec->env.count; i++) ok = set_env(plan, &count, (char *)spec->env.list[i]);
    for (size_t i = 0; ok && i < 4; i++) {
        int size = snprintf(plan->texts + used, sizeof plan->texts - used, "%s=%s", names[i][0], names[i][1]);
        ok = size > 0 && (size_t)size < sizeof plan->texts - used;
        bool given = false;
        for (size_t k = 0; ok && !other && k < count; k++) given = given || same_name(plan->env[k], plan->texts + used);
        if (ok && !given) ok = set_env(plan, &count, plan->texts + used);
        used += (size_t)size + 1;
    }
    for (size_t i = 0; ok && other && i < spec->env.count; i++)
        if (strncmp(spec->env.list[i], "HOME=", 5) && strncmp(spec->env.list[i], "USER=", 5) &&
            strncmp(spec->env.list[i], "LOGNAME=", 8))
            ok = set_env(plan, &count, (char *)spec->env.list[i]);
    for (size_t i = 0; ok && i < fields->count; i++)
        if (fields->list[i].tag == T_ENV) ok = strchr(fields->list[i].text, '=') && set_env(plan, &count, fields->list[i].text);
    plan->env[count] = NULL;
    plan->path = "";
    for (size_t i = 0; i < count; i++)
        if (!strncmp(plan->env[i], "PATH=", 5)) plan->path = plan->env[i] + 5;
    return ok;
}

static bool read_argv(struct plan *plan, const struct fields *fields) {
    size_t count = 0;
    const struct field *shell = wire_find(fields, T_SHELL);
    if (shell) {
        plan->argv[count++] = (char *)agent.setup.spec->shell;
        plan->argv[count++] = (char *)"-c";
        plan->argv[count++] = shell->text;
        if (memchr(shell->text, 0, shell->size)) return false;
    }
    for (size_t i = 0; i < fields->count; i++) {
        const struct field *f = &fields->list[i];
        if (f->tag != T_ARGV) continue;
        if (shell || count == ARGV_MAX || memchr(f->text, 0, f->size)) return false;
        plan->argv[count++] = f->text;
    }
    plan->argv[count] = NULL;
    return count > 0;
}

static const char *read_plan(struct plan *plan, const struct fields *fields) {
    const char *user = wire_text(fields, T_USER);
    if (!read_argv(plan, fields)) return "argv";
    if (!user_find(user, &plan->user) || !user_possible(&plan->user)) return "user";
    plan->cwd = wire_text(fields, T_CWD);
    if (!plan->cwd) plan->cwd = agent.setup.spec->cwd;
    if (plan->cwd[0] != '/') return "cwd";
    if (!read_env(plan, fields)) return "env";
    if (!read_rlimits(plan, fields)) return "rlimit";
    return NULL;
}

/* execvp(3) with the PATH of the command. Returns errno: whoever returns has not become the program. */
static int become(struct plan *plan) {
    const char *name = plan->argv[0], *path = plan->path;
    int worst = ENOENT;
    if (strchr(name, '/')) {
        syscall(SYS_execve, name, plan->argv, plan->env);
        return errno;
    }
    for (size_t size = strlen(name); size;) {
        size_t part = strcspn(path, ":");
        if (part + size + 2 <= sizeof plan->program) {
            memcpy(plan->program, path, part);
            plan->program[part] = '/';
            memcpy(plan->program + part + !!part, name, size + 1);
            syscall(SYS_execve, plan->program, plan->argv, plan->env);
            if (errno == EACCES) worst = errno; /* perhaps another folder has one that may be run */
            else if (errno != ENOENT && errno != ENOTDIR) return errno;
        }
        if (!path[part]) break;
        path += part + 1;
    }
    return worst;
}

static int child(void *of) {
    struct plan *plan = of;
    const uint64_t none = 0;
    signal(SIGPIPE, SIG_DFL); /* the only one that is not as it should be */
    syscall(SYS_setsid);
    plan->failed_at = "descriptors";
    if (dup2(plan->in, 0) < 0 || dup2(plan->out, 1) < 0 || dup2(plan->err, 2) < 0) goto failed; /* all of ours are above 2 */
    if (plan->becoming != 3 && dup3(plan->becoming, 3, O_CLOEXEC) < 0) goto failed;
    if (!close_between(4, INT_MAX)) goto failed; /* ours are all to be closed by execve as well: this is the second lock */
    if (plan->pty && ioctl(0, TIOCSCTTY, 0)) goto failed;
    plan->failed_at = "limits";
    for (size_t i = 0; i < plan->rlimit_count; i++)
        if (syscall(SYS_prlimit64, 0, plan->rlimits[i].resource, &plan->rlimits[i].value, NULL)) goto failed;
    plan->failed_at = "user";
    if (!user_become(&plan->user)) goto failed;
    plan->failed_at = "cwd";
    if (chdir(plan->cwd)) goto failed;
    plan->failed_at = "program";
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8);
    plan->failed = become(plan);
    _exit(plan->failed == ENOENT || plan->failed == ENOTDIR ? 127 : 126);
failed:
    plan->failed = errno;
    _exit(126);
}

/* It is of the command's user before it is the command, so others of that user may stop it. Whoever does not let it go on loses it. */
static void await_program(pid_t pid, int becoming) {
    struct pollfd end = {becoming, POLLIN, 0};
    for (int stopped = 0; poll(&end, 1, LOOK_MS) != 1;) {
        char state = walk_state(pid);
        if (state != 'T' && state != 't') continue;
        kill(pid, ++stopped < STOPPED_LOOKS ? SIGCONT : SIGKILL);
    }
}

static pid_t start(struct plan *plan) {
    plan->memory_kills = agent_memory_kills();
    plan->disk_kills = agent_disk_kills();
    static _Alignas(16) uint8_t stack[STACK];
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return -1;
    plan->becoming = ends[1];
    plan->failed = 0;
    pid_t pid = clone(child, stack + STACK, CLONE_VM | SIGCHLD, plan);
    int error = errno;
    close(ends[1]);
    if (pid > 0) await_program(pid, ends[0]);
    close(ends[0]);
    agent_tell_usage(); /* now there is something to be seen */
    prctl(PR_SET_DUMPABLE, 0); /* a change of identity in the child may have set what fs.suid_dumpable says */
    errno = error;
    return pid;
}

static void close_pair(const int pair[2]) {
    if (pair[0] >= 0) close(pair[0]);
    if (pair[1] >= 0) close(pair[1]);
}

static char *describe(const struct plan *plan) {
    char text[COMMAND_MAX];
    size_t size = 0;
    for (size_t i = 0; plan->argv[i] && size < sizeof text - 1; i++) {
        int n = snprintf(text + size, sizeof text - size, "%s%s", i ? " " : "", plan->argv[i]);
        if (n < 0) break;
        size += (size_t)n;
    }
    return strdup(text);
}

static struct process *remember(const struct plan *plan, const struct fields *fields, pid_t pid) {
    struct process *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    int64_t keep = wire_number(fields, T_KEEP_BYTES, KEEP_DEFAULT), timeout = wire_number(fields, T_TIMEOUT_MS, 0);
    if (keep < 1024) keep = 1024;
    if (keep > KEEP_MAX) keep = KEEP_MAX;
    p->id = agent.next_id++;
    p->pid = pid;
    p->started_ms = wall_ms();
    p->memory_kills = plan->memory_kills;
    p->disk_kills = plan->disk_kills;
    p->detached = wire_flag(fields, T_DETACH);
    p->output_limit = wire_number(fields, T_OUTPUT_LIMIT, 0);
    output_init(&p->out, (size_t)keep);
    output_init(&p->err, (size_t)keep);
    const char *label = wire_text(fields, T_LABEL);
    p->label = strdup(label && strlen(label) < 1024 ? label : "");
    p->command = describe(plan);
    if (timeout > 0) {
        p->deadline = active_ms() + timeout;
        agent_due(p->deadline);
    }
    p->next = agent.processes;
    agent.processes = p;
    agent.process_count++;
    return p;
}

static bool open_streams(struct plan *plan, const struct fields *fields, int in[2], int out[2], int err[2]) {
    if (wire_flag(fields, T_PTY)) {
        int main_end = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), unlock = 0;
        struct winsize size = {.ws_row = (unsigned short)wire_number(fields, T_ROWS, 24),
                               .ws_col = (unsigned short)wire_number(fields, T_COLS, 80)};
        if (main_end < 0) return false;
        in[1] = main_end;
        if (ioctl(main_end, TIOCSPTLCK, &unlock)) return false;
        int guest_end = ioctl(main_end, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (guest_end < 0 || ioctl(main_end, TIOCSWINSZ, &size)) return false;
        fchown(guest_end, plan->user.uid, plan->user.gid);
        in[0] = guest_end;
        out[0] = fcntl(main_end, F_DUPFD_CLOEXEC, 3);
        plan->in = plan->out = plan->err = guest_end;
        plan->pty = true;
        return out[0] >= 0;
    }
    plan->pty = false;
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) return false;
    if (wire_number(fields, T_STDIN, 0) == 1 ? pipe2(in, O_CLOEXEC) : (in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0) return false;
    /* Theirs, so that they can open /dev/stdout and the like. With one identity there is nothing to change. */
    int given[] = {out[1], err[1], in[1] >= 0 ? in[0] : -1};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i] >= 0 && fchown(given[i], plan->user.uid, plan->user.gid) && errno != EPERM) return false;
    if (in[1] >= 0) fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    plan->in = in[0];
    plan->out = out[1];
    plan->err = err[1];
    return true;
}

static void started(struct connection *c, const struct process *p) {
    uint8_t room[64];
    struct writer w;
    wire_begin(&w, room, sizeof room, K_STARTED);
    wire_add_number(&w, T_ID, p->id);
    wire_add_number(&w, T_PID, p->pid);
    connection_send(c, &w);
}

void exec_start(struct connection *c, const struct fields *fields) {
    static struct plan plan;
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    const char *wrong = read_plan(&plan, fields);
    if (wrong) {
        connection_error(c, !strcmp(wrong, "user") ? EPERM : EINVAL, wrong, wrong);
        return;
    }
    pid_t pid = -1;
    if (agent.process_count >= PROCESSES_MAX) errno = EAGAIN;
    else if (open_streams(&plan, fields, in, out, err)) pid = start(&plan);
    int error = errno;
    struct process *p = pid > 0 ? remember(&plan, fields, pid) : NULL;
    if (!p) {
        close_pair(in);
        close_pair(out);
        close_pair(err);
        connection_error(c, error, strerror(error), "exec");
        return;
    }
    if (plan.failed && strcmp((const char *)plan.failed_at, "program")) { /* nothing ran: not the command's own failure */
        connection_error(c, plan.failed, (const char *)plan.failed_at, (const char *)plan.failed_at);
        p->forgotten = true;
    } else if (plan.failed) {
        char text[512];
        int size = snprintf(text, sizeof text, "%.200s: %s\n", plan.argv[0], strerror(plan.failed));
        output_add(&p->err, (const uint8_t *)text, (size_t)size);
    }
    close(in[0]);
    if (out[1] >= 0) close(out[1]);
    if (err[1] >= 0) close(err[1]);
    p->pty = plan.pty;
    p->in_eof = in[1] < 0;
    p->in_source = (struct source){S_IN, in[1], 0, p};
    p->out_source = (struct source){S_OUT, out[0], 0, p};
    p->err_source = (struct source){S_ERR, err[0], 0, p};
    if (!source_watch(&p->out_source, EPOLLIN) || !source_watch(&p->err_source, EPOLLIN)) {
        source_close(&p->out_source);
        source_close(&p->err_source);
    }
    if (p->forgotten) return;
    started(c, p);
    c->out_offset = c->err_offset = 0;
    if (wire_flag(fields, T_FOLLOW)) process_follow(c, p);
}
