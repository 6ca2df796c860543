/* Headers of tar archives (POSIX.1-2001 pax, ustar, the GNU long names). No I/O here. */
#ifndef BOX_TARHEAD_H
#define BOX_TARHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TAR_BLOCK = 512, TAR_NAME = 4096, TAR_EXTRA_MAX = 64 << 10 };

struct tar_entry {
    char name[TAR_NAME], link[TAR_NAME];
    char type; /* '0' file, '1' hard link, '2' symbolic link, '5' folder, others as they are */
    uint32_t mode;
    int64_t size, mtime, uid, gid;
};

/* What headers before an entry said about it. */
struct tar_extra {
    bool has_name, has_link, has_size, has_mtime;
    char name[TAR_NAME], link[TAR_NAME];
    int64_t size, mtime;
};

enum tar_is { TAR_BAD, TAR_END, TAR_ENTRY, TAR_EXTRA_PAX, TAR_EXTRA_NAME, TAR_EXTRA_LINK, TAR_EXTRA_GLOBAL };

/* Of a TAR_EXTRA_*, `into->size` bytes of text follow, at most TAR_EXTRA_MAX. */
enum tar_is tar_parse(const uint8_t block[TAR_BLOCK], struct tar_extra *extra, struct tar_entry *into);
bool tar_extra_add(enum tar_is kind, const char *text, size_t size, struct tar_extra *extra);
/* A name that stays below where it is unpacked: without a slash in front, "." and empty parts; false with "..", or nothing left. */
bool tar_clean(const char *name, char into[TAR_NAME]);
/* The blocks of a header (with a pax one before it when it is needed); 0: it does not fit in `room`. */
size_t tar_build(const struct tar_entry *entry, uint8_t *into, size_t room);

#endif
