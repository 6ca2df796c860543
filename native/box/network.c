/* The network of a box: `lo`, and with a gateway every address of the world on it, so that a connection to anywhere ends at a socket
 * of this namespace. The sockets are made here and given away: whoever holds them hears what the box connects to. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SPARE_SOCKETS = 32, DNS_PORT = 53, QUERIES_WAITING = 16 };

bool network_up(void) {
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    bool ok = !ioctl(fd, SIOCGIFFLAGS, &request);
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
    ok = ok && !ioctl(fd, SIOCSIFFLAGS, &request);
    close(fd);
    /* It is the box's own loopback: a server on port 80 there needs no power. Kernels before 4.11 do not have it. */
    int low = open("/proc/sys/net/ipv4/ip_unprivileged_port_start", O_WRONLY | O_CLOEXEC);
    if (low >= 0) {
        ok = ok && write(low, "0", 1) == 1;
        close(low);
    }
    return ok;
}

/* ip route add local default dev lo: rtnetlink(7). */
static bool route(int family, int device) {
    struct {
        struct nlmsghdr head;
        struct rtmsg route;
        struct rtattr about;
        int device;
    } message = {
        {sizeof message, RTM_NEWROUTE, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, 1, 0},
        {.rtm_family = (unsigned char)family, .rtm_table = RT_TABLE_LOCAL, .rtm_protocol = RTPROT_BOOT, .rtm_scope = RT_SCOPE_HOST,
         .rtm_type = RTN_LOCAL},
        {sizeof(struct rtattr) + sizeof(int), RTA_OIF},
        device,
    };
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char rest[512];
    } answer;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) return false;
    bool ok = send(fd, &message, sizeof message, 0) == sizeof message;
    ok = ok && recv(fd, &answer, sizeof answer, 0) >= (ssize_t)(sizeof answer.head + sizeof answer.error);
    int error = ok ? -answer.error.error : errno;
    close(fd);
    errno = error;
    return !error;
}

static int new_socket(int family, int kind) {
    const int on = 1, off = 0;
    int fd = socket(family, kind | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ok = ok && (family == AF_INET || !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off));
    if (kind == SOCK_DGRAM) { /* an answer has to come from the address that was asked */
        ok = ok && !setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
        ok = ok && (family == AF_INET || !setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on));
    }
    if (ok || fd < 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool on_port(int fd, int family, unsigned short port) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    return family == AF_INET6 ? !bind(fd, (struct sockaddr *)&six, sizeof six) : !bind(fd, (struct sockaddr *)&four, sizeof four);
}

bool network_open(struct box *box) {
    int device = (int)if_nametoindex("lo"), family = AF_INET6;
    if (!device || !route(AF_INET, device)) return false;
    if (!route(AF_INET6, device)) family = AF_INET; /* a kernel without IPv6: then there are no such destinations either */
    box->network_count = 0;
    for (int i = 0; i < SPARE_SOCKETS + 2; i++) {
        int fd = new_socket(family, i ? SOCK_STREAM : SOCK_DGRAM);
        if (fd < 0) return false;
        box->network[box->network_count++] = fd;
        if (i < 2 && !on_port(fd, family, DNS_PORT)) return false;
        if (i == 1 && listen(fd, QUERIES_WAITING)) return false;
    }
    return true;
}
