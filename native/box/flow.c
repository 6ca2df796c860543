#include "flow.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { TURNS = 16 };

bool flow_move(struct flow *f, int from, int to) {
    for (int turns = 0;;) {
        if (!f->size && !f->ended) {
            if (turns++ == TURNS) break; /* others wait as well: epoll tells again */
            if (!f->data && !(f->data = malloc(FLOW_ROOM))) return false;
            ssize_t n = recv(from, f->data, FLOW_ROOM, MSG_DONTWAIT);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0 && errno != EAGAIN) return false;
            f->ended = n == 0;
            f->at = 0;
            f->size = n > 0 ? (size_t)n : 0;
        }
        if (!f->size) break;
        ssize_t n = send(to, f->data + f->at, f->size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return true;
        if (n < 0) { /* nobody takes it any more: what that end has said before is still to be had */
            f->ended = f->told = true;
            f->size = 0;
            break;
        }
        f->at += (size_t)n;
        f->size -= (size_t)n;
    }
    flow_free(f);
    if (f->ended && !f->told) {
        f->told = true;
        shutdown(to, SHUT_WR);
    }
    return true;
}

uint32_t flow_events(const struct flow *in, const struct flow *out) {
    return (in->ended || in->size ? 0 : EPOLLIN) | (out->size ? EPOLLOUT : 0);
}

void flow_free(struct flow *f) {
    free(f->data);
    f->data = NULL;
}
