#include "spec.h"

#include <stdio.h>
#include <string.h>

enum shape { TEXT, LIST, NUMBER };

static const struct key {
    const char *name;
    enum shape shape;
    size_t offset;
} KEYS[] = {
#define KEY(name, shape, member) {name, shape, offsetof(struct spec, member)}
    KEY("version", NUMBER, version), KEY("id", TEXT, id), KEY("hostname", TEXT, hostname), KEY("cwd", TEXT, cwd),
    KEY("shell", TEXT, shell), KEY("gateway_socket", TEXT, gateway_socket), KEY("limits", TEXT, limits),
    KEY("network", TEXT, network), KEY("upper", TEXT, upper), KEY("lower", LIST, lower), KEY("bind_ro", LIST, bind_ro),
    KEY("bind_keep", LIST, bind_keep), KEY("tmpfs", LIST, tmpfs), KEY("env", LIST, env), KEY("cgroup", LIST, cgroup),
    KEY("gateway_argv", LIST, gateway_argv), KEY("proxy", TEXT, proxy),
    KEY("uid_base", NUMBER, uid_base), KEY("uid_count", NUMBER, uid_count), KEY("map_uid", NUMBER, map_uid),
    KEY("uid", NUMBER, uid), KEY("gid", NUMBER, gid), KEY("memory_max", NUMBER, memory_max),
    KEY("pids_max", NUMBER, pids_max), KEY("nofile", NUMBER, nofile), KEY("fsize_max", NUMBER, fsize_max),
    KEY("disk_max", NUMBER, disk_max), KEY("cpu_ms_per_s", NUMBER, cpu_ms_per_s),
    KEY("pause_after_ms", NUMBER, pause_after_ms), KEY("idle_ms", NUMBER, idle_ms),
    KEY("delete_after_ms", NUMBER, delete_after_ms), KEY("wake", NUMBER, wake),
    KEY("fake_owners", NUMBER, fake_owners),
#undef KEY
};

/* Digits of `base` up to `end`, at most 2^53. */
static bool number(const char *text, const char *end, int base, int64_t *into) {
    int64_t value = 0;
    if (text == end) return false;
    for (; text < end; text++) {
        if (*text < '0' || *text >= '0' + base) return false;
        value = value * base + (*text - '0');
        if (value > (INT64_C(1) << 53)) return false;
    }
    *into = value;
    return true;
}

static bool two_numbers(const char *text, int64_t *first, int64_t *second) {
    const char *colon = strchr(text, ':');
    return colon && number(text, colon, 10, first) && number(colon + 1, colon + strlen(colon), 10, second);
}

bool spec_tmpfs(const char *text, struct spec_tmpfs *into) {
    const char *path = strchr(text, ':'), *mode = path ? strchr(path + 1, ':') : NULL;
    if (!mode || text[0] != '/') return false;
    into->path_size = (size_t)(path - text);
    return number(path + 1, mode, 8, &into->mode) && two_numbers(mode + 1, &into->bytes, &into->inodes);
}

static bool set(struct spec *s, const struct key *key, const char *value) {
    char *at = (char *)s + key->offset;
    if (key->shape == NUMBER) return number(value, value + strlen(value), 10, (int64_t *)(void *)at);
    if (key->shape == TEXT) {
        *(const char **)(void *)at = value;
        return true;
    }
    struct texts *texts = (struct texts *)(void *)at;
    if (texts->count == SPEC_LIST) return false;
    texts->list[texts->count++] = value;
    return true;
}

static bool one(struct spec *s, const char *text) {
    const char *equals = strchr(text, '=');
    if (!equals) return false;
    size_t size = (size_t)(equals - text);
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (strlen(KEYS[i].name) == size && !memcmp(KEYS[i].name, text, size)) return set(s, &KEYS[i], equals + 1);
    return false;
}

/* What is wrong with the whole; NULL: nothing. */
static const char *judge(struct spec *s) {
    if (s->version != 1) return "version: only 1 is known";
    if (!s->id || !*s->id) return "id is missing";
    if (!s->lower.count) return "lower is missing";
    if (s->uid_count ? s->uid_base < 1 || s->uid_base + s->uid_count > UINT32_MAX || s->uid_count < 1001 : s->map_uid < 0)
        return "uid_base and uid_count, or map_uid, are needed";
    if (s->fake_owners && s->uid_count) return "fake_owners: only with map_uid; a range of ids has real owners";
    if (s->uid < 0 || s->gid < 0 || s->uid > UINT32_MAX || s->gid > UINT32_MAX) return "uid or gid";
    if (strcmp(s->network, "none") && strcmp(s->network, "gateway")) return "network: none or gateway";
    if (!strcmp(s->network, "gateway") && (!s->gateway_socket || s->gateway_socket[0] != '/')) return "gateway_socket: a path";
    if (strcmp(s->limits, "cgroup") && strcmp(s->limits, "rlimit")) return "limits: cgroup or rlimit";
    if (!strncmp(s->upper, "tmpfs:", 6)) {
        if (!two_numbers(s->upper + 6, &s->tmpfs_bytes, &s->tmpfs_inodes) || !s->tmpfs_bytes) return "upper=tmpfs:BYTES:INODES";
    } else if (strcmp(s->upper, "disk")) {
        return "upper: disk or tmpfs:BYTES:INODES";
    }
    for (size_t i = 0; i < s->bind_ro.count; i++) {
        const char *to = strchr(s->bind_ro.list[i], ':');
        if (!to || s->bind_ro.list[i][0] != '/' || to[1] != '/') return "bind_ro=/SOURCE:/PLACE";
    }
    for (size_t i = 0; i < s->bind_keep.count; i++)
        if (s->bind_keep.list[i][0] != '/') return "bind_keep: a path";
    struct spec_tmpfs ignored;
    for (size_t i = 0; i < s->tmpfs.count; i++)
        if (!spec_tmpfs(s->tmpfs.list[i], &ignored)) return "tmpfs=/PLACE:MODE:BYTES:INODES";
    for (size_t i = 0; i < s->env.count; i++)
        if (!strchr(s->env.list[i], '=')) return "env=NAME=VALUE";
    return NULL;
}

bool spec_parse(char *text, size_t size, struct spec *into, char *error, size_t room) {
    memset(into, 0, sizeof *into);
    into->uid = into->gid = 1000;
    into->map_uid = -1;
    into->wake = 1;
    into->hostname = "sandbox";
    into->cwd = "/workspace";
    into->shell = "/bin/sh";
    into->limits = "rlimit";
    into->network = "none";
    into->upper = "disk";
    if (!size || text[size - 1]) {
        snprintf(error, room, "spec: it does not end with a NUL");
        return false;
    }
    for (size_t at = 0; at < size; at += strlen(text + at) + 1)
        if (!one(into, text + at)) {
            snprintf(error, room, "spec: %.60s", text + at);
            return false;
        }
    const char *wrong = judge(into);
    if (wrong) {
        snprintf(error, room, "spec: %s", wrong);
        return false;
    }
    into->by_rlimit = !strcmp(into->limits, "rlimit");
    into->gateway = !strcmp(into->network, "gateway");
    return true;
}
