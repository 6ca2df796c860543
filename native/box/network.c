/* The network of a box with a gateway, made by pid 1 before it gives up what it may: every address of the world is one of `lo`'s own,
 * and the sockets on which somebody could answer there are given to the host. A socket stays in the namespace where it was made. */
#include "network.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DNS_PORT = 53, SPARES = 32, QUERIES_WAITING = 16 };

_Static_assert(SPARES + 3 <= NETWORK_FDS, "room for all of them");

/* `ip route add local default dev lo`: rtnetlink(7). */
static bool route(int family, unsigned device) {
    struct {
        struct nlmsghdr head;
        struct rtmsg route;
        struct rtattr attribute;
        unsigned device;
    } ask = {
        .head = {sizeof ask, RTM_NEWROUTE, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, 1, 0},
        .route = {.rtm_family = (unsigned char)family, .rtm_table = RT_TABLE_LOCAL, .rtm_protocol = RTPROT_BOOT,
                  .rtm_scope = RT_SCOPE_HOST, .rtm_type = RTN_LOCAL},
        .attribute = {RTA_LENGTH(sizeof(unsigned)), RTA_OIF},
        .device = device,
    };
    struct {
        struct nlmsghdr head;
        struct nlmsgerr said;
        char more[512];
    } answer;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) return false;
    bool heard = send(fd, &ask, sizeof ask, 0) == (ssize_t)sizeof ask &&
                 recv(fd, &answer, sizeof answer, 0) >= (ssize_t)offsetof(__typeof__(answer), more);
    close(fd);
    if (!heard) return false;
    errno = -answer.said.error;
    return answer.head.nlmsg_type == NLMSG_ERROR && !answer.said.error;
}

static int make(int family, int kind) {
    int on = 1, off = 0;
    int fd = socket(family, kind | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    bool ok = !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) ok = ok && !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (kind == SOCK_DGRAM) { /* an answer has to come from the address that was asked */
        ok = ok && !setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
        if (family == AF_INET6) ok = ok && !setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
    }
    if (ok) return fd;
    close(fd);
    return -1;
}

static bool take_port(int fd, int family, uint16_t port) {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at;
    memset(&at, 0, sizeof at);
    at.any.sa_family = (sa_family_t)family;
    if (family == AF_INET) at.four.sin_port = htons(port);
    else at.six.sin6_port = htons(port);
    return !bind(fd, &at.any, family == AF_INET ? sizeof at.four : sizeof at.six);
}

/* A descriptor on which the kernel tells of each connect(2) of this process and what it starts; -1 where it cannot.
 * It is what makes a refusal an error at once and a port open when it is first wanted. It is no boundary: wherever a connection of the
 * box goes, it ends at a socket of this namespace. Such a call waits for the gateway, so pid 1 never makes one. */
static int watch_connect(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
#ifdef __x86_64__
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
#else
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_AARCH64, 1, 0),
#endif
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), /* seccomp.c refuses it */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
}

static bool listen_for_names(int family, int fds[2]) {
    fds[0] = make(family, SOCK_DGRAM);
    fds[1] = make(family, SOCK_STREAM);
    return fds[0] >= 0 && fds[1] >= 0 && take_port(fds[0], family, DNS_PORT) && take_port(fds[1], family, DNS_PORT) &&
           !listen(fds[1], QUERIES_WAITING);
}

bool network_give(int to) {
    int fds[NETWORK_FDS], count = 2;
    unsigned device = if_nametoindex("lo");
    if (!device || !route(AF_INET, device)) return false;
    /* A kernel without IPv6 has no destinations of it either. */
    int family = route(AF_INET6, device) ? AF_INET6 : AF_INET;
    if (!listen_for_names(family, fds)) return false;
    for (int i = 0; i < SPARES; i++)
        if ((fds[count++] = make(family, SOCK_STREAM)) < 0) return false;
    int watcher = watch_connect();
    if (watcher >= 0) fds[count++] = watcher;
    bool ok = send_message(to, "network", 7, fds, count);
    for (int i = 0; i < count; i++) close(fds[i]);
    return ok;
}

bool network_open_low_ports(void) {
    /* Where the host's /proc/sys may not be written, servers of the box's user begin at 1024. */
    return write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
}
