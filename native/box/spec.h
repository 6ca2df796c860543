/* What a box is to be: the `spec` file of its directory, NUL-terminated `key=value` strings. No I/O here. */
#ifndef BOX_SPEC_H
#define BOX_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPEC_MAX = 256 << 10, SPEC_LIST = 256 };

struct texts {
    size_t count;
    const char *list[SPEC_LIST];
};

struct spec {
    const char *id, *hostname, *cwd, *shell, *gateway_socket, *limits, *network, *upper;
    const char *proxy; /* PORT:/SOCKET; of the agent below another driver */
    struct texts lower, bind_ro, bind_keep, tmpfs, env, cgroup, gateway_argv;
    int64_t version, uid_base, uid_count, map_uid, uid, gid;
    int64_t memory_max, pids_max, nofile, fsize_max, disk_max, cpu_ms_per_s;
    int64_t pause_after_ms, idle_ms, delete_after_ms, wake, fake_owners;
    int64_t tmpfs_bytes, tmpfs_inodes; /* of upper=tmpfs:..; 0: on disk */
    bool by_rlimit, gateway;
};

/* `text` must stay as long as the spec. False: `error` (of `room` bytes) says what is wrong. */
bool spec_parse(char *text, size_t size, struct spec *into, char *error, size_t room);

/* One item of `tmpfs`: the end of the path is in `path_size`. */
struct spec_tmpfs {
    size_t path_size;
    int64_t mode, bytes, inodes;
};
bool spec_tmpfs(const char *text, struct spec_tmpfs *into);

#endif
