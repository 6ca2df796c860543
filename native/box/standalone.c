/* The agent as process 1 of what another driver made: it listens by itself, and nobody hands connections to it.
 *
 * A driver that writes all of a machine down (gVisor's checkpoint) cannot write down sockets that lead out of it. So it says QUIESCE: the
 * agent answers, closes every connection and its own socket, and then looks for the file `SOCKET.go` until that is there. Then it listens
 * again, in the same machine or in a copy of it. Clients come back and attach to their commands by offset. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

enum { LOOK_NS = 5000000 };

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static char go[sizeof address.sun_path + 3];
static struct source wake = {S_WAKE, -1, 0, NULL};

static int listen_again(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(address.sun_path);
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof address) && !listen(fd, 128)) return fd;
    note("agent: %s: %s", address.sun_path, strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
}

bool standalone_sleep(struct connection *asked) {
    for (struct connection *c = agent.connections; c; c = c->next)
        if (c->worker) return false;
    int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    const struct itimerspec often = {{0, LOOK_NS}, {0, LOOK_NS}};
    if (timer < 0 || timerfd_settime(timer, 0, &often, NULL)) {
        if (timer >= 0) close(timer);
        return false;
    }
    unlink(go);
    connection_ok(asked);
    connection_flush(asked);
    for (struct connection *c = agent.connections; c; c = c->next) connection_close(c);
    relays_sleep();
    source_close(&agent.listen);
    unlink(address.sun_path); /* to the driver: done */
    source_close(&wake);
    wake.fd = timer;
    source_watch(&wake, EPOLLIN);
    return true;
}

void standalone_tick(void) {
    uint64_t ticks;
    if (read(wake.fd, &ticks, sizeof ticks) != sizeof ticks || unlink(go)) return;
    int fd = listen_again();
    if (fd < 0) return; /* the next tick comes only with another file: the driver notices and gives up */
    source_close(&wake);
    agent.listen.fd = fd;
    source_watch(&agent.listen, EPOLLIN);
    relays_wake();
}

int agent_main(int argc, char **argv) {
    static char text[SPEC_MAX];
    static struct spec spec;
    static struct activity activity;
    char wrong[128];
    if (argc != 2) return 2;
    ssize_t size = read_file(AT_FDCWD, argv[0], text, sizeof text);
    if (size < 0 || !spec_parse(text, (size_t)size, &spec, wrong, sizeof wrong)) {
        note("agent: %s", size < 0 ? strerror(errno) : wrong);
        return 1;
    }
    if (strlen(argv[1]) >= sizeof address.sun_path) return 2;
    strcpy(address.sun_path, argv[1]);
    snprintf(go, sizeof go, "%s.go", argv[1]);
    int fd = listen_again();
    if (fd < 0) return 1;
    prctl(PR_SET_DUMPABLE, 0);
    struct agent_setup setup = {-1, fd, &spec, NULL, &activity, -1};
    return agent_run(&setup);
}
