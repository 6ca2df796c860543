/* Small things that every process of a box needs. */
#include "box.h"

#pragma clang diagnostic ignored "-Wsign-compare" /* musl 1.2.5: inside of CMSG_NXTHDR */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t clock_ms(clockid_t which) {
    struct timespec t;
    if (clock_gettime(which, &t)) return 0;
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t boot_ms(void) { return clock_ms(CLOCK_BOOTTIME); }
int64_t wall_ms(void) { return clock_ms(CLOCK_REALTIME); }

void note(const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (size < 0) return;
    size_t used = (size_t)size < sizeof line - 1 ? (size_t)size : sizeof line - 2;
    line[used++] = '\n';
    ssize_t ignored = write(2, line, used);
    (void)ignored;
}

bool write_all(int fd, const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {fd, POLLOUT, 0};
            if (poll(&wait, 1, -1) < 0 && errno != EINTR) return false;
            continue;
        }
        if (n <= 0) return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

bool write_file(int dir, const char *path, const char *text) {
    int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int error = errno;
    close(fd);
    errno = error;
    return ok;
}

ssize_t read_file(int dir, const char *path, char *into, size_t room) {
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    size_t size = 0;
    while (size < room - 1) {
        ssize_t n = read(fd, into + size, room - 1 - size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            int error = errno;
            close(fd);
            errno = error;
            return -1;
        }
        if (!n) break;
        size += (size_t)n;
    }
    close(fd);
    into[size] = 0;
    return (ssize_t)size;
}

bool send_message(int fd, const void *data, size_t size, const int *fds, int count) {
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(64 * sizeof(int))];
    } control;
    struct iovec part = {(void *)data, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 64) return false;
    if (count) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = (socklen_t)CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = (socklen_t)CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, (size_t)count * sizeof(int));
    }
    ssize_t n;
    do n = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)size;
}

ssize_t receive_message(int fd, void *data, size_t room, int *fds, int *count, int max) {
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(64 * sizeof(int))];
    } control;
    struct iovec part = {data, room};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n;
    do n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    *count = 0;
    if (n < 0) return n;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        int given = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < given; i++) {
            int one;
            memcpy(&one, CMSG_DATA(head) + (size_t)i * sizeof(int), sizeof one);
            if (*count < max) fds[(*count)++] = one;
            else close(one);
        }
    }
    return n;
}

/* gVisor of 2024 has no close_range. */
bool close_between(int first, int last) {
    if (!syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0U)) return true;
    if (errno != ENOSYS && errno != EINVAL) return false;
    for (int fd = first; fd <= last && fd < 4096; fd++) close(fd);
    return true;
}
