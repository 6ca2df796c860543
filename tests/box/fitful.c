/* A `send` whose socket is full at some times, and takes everything the next: what a client makes of it that reads just then. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

ssize_t fitful_send(int fd, const void *data, size_t size, int flags) {
    static unsigned chance = 1;
    chance = chance * 1103515245 + 12345; /* the same at each run */
    if (chance >> 16 & 1) {
        errno = EAGAIN;
        return -1;
    }
    for (size_t sent = 0; sent < size;) {
        struct pollfd room = {fd, POLLOUT, 0};
        poll(&room, 1, -1);
        ssize_t n = send(fd, (const char *)data + sent, size - sent, flags);
        if (n < 0 && errno != EAGAIN) return n;
        if (n > 0) sent += (size_t)n;
    }
    return (ssize_t)size;
}
