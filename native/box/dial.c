/* DIAL: a connection becomes a pipe of bytes to a port of the box's own loopback. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent.h"
#include "flow.h"

struct dial {
    struct source source;
    struct connection *connection;
    struct flow in, out; /* to the port, from it */
    unsigned short port;
    bool connected, six;
    bool gone; /* the client, wholly: nobody hears an answer */
};

/* `connect_cookie`: who listens in for all connections of the box must not hold us up. */
static int begin(struct dial *d) {
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(d->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(d->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(d->six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    const void *to = d->six ? (const void *)&six : (const void *)&four;
    if (!syscall(SYS_connect, fd, to, d->six ? sizeof six : sizeof four, (unsigned long)connect_cookie) || errno == EINPROGRESS) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool wait_for_it(struct dial *d) {
    d->source = (struct source){S_DIAL, begin(d), 0, d};
    return d->source.fd >= 0 && source_watch(&d->source, EPOLLOUT);
}

void dial_start(struct connection *c, const struct fields *fields) {
    int64_t port = wire_number(fields, T_PORT, 0);
    struct dial *d = port > 0 && port < 65536 ? calloc(1, sizeof *d) : NULL;
    errno = port > 0 && port < 65536 ? ENOMEM : EINVAL;
    if (d) {
        d->connection = c;
        d->port = (unsigned short)port;
    }
    if (d && wait_for_it(d) && source_watch(&c->source, EPOLLPRI)) { /* its bytes wait until there is somebody to have them */
        c->dial = d;
        return;
    }
    int error = errno;
    if (d) source_close(&d->source);
    free(d);
    connection_error(c, error, strerror(error), "dial");
}

struct source *dial_source(struct dial *d) { return &d->source; }

void dial_free(struct dial *d) {
    if (!d) return;
    source_close(&d->source);
    flow_free(&d->in);
    flow_free(&d->out);
    free(d);
}

static void flow(struct dial *d) {
    struct connection *c = d->connection;
    if (c->out_size) connection_flush(c);
    if (c->closing) return;
    if (c->out_size) {
        source_watch(&d->source, 0);
        source_watch(&c->source, EPOLLOUT);
        return;
    }
    atomic_store(&agent.setup.activity->last_ms, boot_ms());
    bool ok = flow_move(&d->in, c->source.fd, d->source.fd) && flow_move(&d->out, d->source.fd, c->source.fd);
    if (!ok || (d->in.told && (d->out.told || d->gone))) {
        connection_close(c);
        return;
    }
    uint32_t of_the_client = flow_events(&d->in, &d->out);
    if (!of_the_client && !d->gone) of_the_client = EPOLLPRI; /* to hear that it goes: an end that waits for nothing is not watched */
    if (!source_watch(&c->source, of_the_client) || !source_watch(&d->source, flow_events(&d->out, &d->in))) connection_close(c);
}

/* What the client sent right behind its request was read with it. */
static bool take_early(struct dial *d) {
    struct connection *c = d->connection;
    if (!c->in_size) return true;
    uint8_t *roomier = c->in_room < FLOW_ROOM ? realloc(c->in, FLOW_ROOM) : c->in;
    if (!roomier) {
        connection_close(c);
        return false;
    }
    d->in.data = roomier;
    d->in.size = c->in_size;
    d->in.at = 0;
    c->in = NULL;
    c->in_size = c->in_room = 0;
    return true;
}

static void connected(struct dial *d) {
    struct connection *c = d->connection;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(d->source.fd, SOL_SOCKET, SO_ERROR, &error, &size)) error = errno;
    if (error == ECONNREFUSED && !d->six) { /* a server that listens on ::1 only */
        source_close(&d->source);
        d->six = true;
        if (wait_for_it(d)) return;
    }
    if (error) {
        c->dial = NULL;
        dial_free(d);
        connection_error(c, error, strerror(error), "dial");
        connection_go_on(c);
        return;
    }
    d->connected = true;
    connection_ok(c);
    connection_flush(c);
    if (c->closing || !take_early(d)) return;
    flow(d);
}

void dial_ready(struct dial *d, bool of_the_client, uint32_t events) {
    if (d->connection->closing) return;
    if (of_the_client && events & (EPOLLHUP | EPOLLERR)) d->gone = true;
    if (d->connected) flow(d);
    else if (of_the_client) connection_close(d->connection); /* it has gone */
    else connected(d);
}
