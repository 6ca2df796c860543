/* The way out of a machine that has no network of its own: on its loopback is a proxy, which is a unix socket of the host. The host
 * decides about each request; here bytes are carried. Who replaces anything of this in the machine has no way out any more. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent.h"
#include "flow.h"

enum { RELAYS_MAX = 512, RETRY_NS = 20000000, RETRY_TRIES = 500 };

struct relay {
    struct source guest, host;
    struct flow out, in; /* to the host, from it */
    struct relay *next;
    int tries;
    bool over;
};

static const char NOBODY[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
                             "the network gateway of this machine does not answer: try again later\n";
static struct sockaddr_un proxy = {.sun_family = AF_UNIX};
static struct source listener = {S_PROXY, -1, 0, NULL}, again = {S_RETRY, -1, 0, NULL};
static struct relay *relays;
static int count;

static void end(struct relay *r) {
    if (r->over) return;
    r->over = true; /* freed by the sweep: an event for its other end may be next */
    source_close(&r->guest);
    source_close(&r->host);
}

static void carry(struct relay *r) {
    bool ok = flow_move(&r->out, r->guest.fd, r->host.fd) && flow_move(&r->in, r->host.fd, r->guest.fd);
    if (!ok || (r->out.told && r->in.told) || !source_watch(&r->guest, flow_events(&r->out, &r->in)) ||
        !source_watch(&r->host, flow_events(&r->in, &r->out)))
        end(r);
}

/* A gateway that died is back soon: until then who connects waits. */
static void retry_soon(void) {
    const struct itimerspec soon = {{0, 0}, {0, RETRY_NS}};
    timerfd_settime(again.fd, 0, &soon, NULL);
}

static void reach(struct relay *r) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&proxy, sizeof proxy)) {
        r->host = (struct source){S_RELAY, fd, 0, r};
        carry(r);
        return;
    }
    if (fd >= 0) close(fd);
    if (++r->tries < RETRY_TRIES) {
        retry_soon();
        return;
    }
    send(r->guest.fd, NOBODY, sizeof NOBODY - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(r->guest.fd, SHUT_WR);
    uint8_t rest[4096];
    while (recv(r->guest.fd, rest, sizeof rest, MSG_DONTWAIT) > 0) continue; /* what was not read would take the answer back */
    end(r);
}

void relay_listen(const char *where) {
    const char *path = strchr(where, ':');
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    if (!path || strlen(path + 1) >= sizeof proxy.sun_path) return;
    strcpy(proxy.sun_path, path + 1);
    here.sin_port = htons((uint16_t)atoi(where));
    again.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (again.fd < 0 || listener.fd < 0 || setsockopt(listener.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(listener.fd, (struct sockaddr *)&here, sizeof here) || listen(listener.fd, 128) ||
        !source_watch(&again, EPOLLIN) || !source_watch(&listener, EPOLLIN)) {
        note("agent: the proxy: %s", strerror(errno));
        source_close(&listener);
    }
}

void relay_accept(void) {
    int fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    struct relay *r = calloc(1, sizeof *r);
    if (!r) {
        close(fd);
        return;
    }
    r->guest = (struct source){S_RELAY, fd, 0, r};
    r->host = (struct source){S_RELAY, -1, 0, r};
    r->next = relays;
    relays = r;
    if (++count == RELAYS_MAX) source_watch(&listener, 0); /* the others wait in the queue of the kernel */
    reach(r);
}

void relay_ready(struct source *source) {
    struct relay *r = source->owner;
    if (!r->over && r->host.fd >= 0) carry(r);
}

void relay_retry(void) {
    uint64_t ticks;
    if (read(again.fd, &ticks, sizeof ticks) != sizeof ticks || agent.listen.fd < 0) return;
    for (struct relay *r = relays; r; r = r->next)
        if (!r->over && r->host.fd < 0) reach(r);
}

void relays_sleep(void) {
    source_watch(&listener, 0);
    for (struct relay *r = relays; r; r = r->next) end(r);
}

void relays_wake(void) {
    if (count < RELAYS_MAX) source_watch(&listener, EPOLLIN);
}

void relays_sweep(void) {
    for (struct relay **at = &relays; *at;) {
        struct relay *r = *at;
        if (!r->over) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        flow_free(&r->out);
        flow_free(&r->in);
        free(r);
        if (count-- == RELAYS_MAX && agent.listen.fd >= 0) source_watch(&listener, EPOLLIN);
    }
}
