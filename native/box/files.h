/* Operations on files, each in a process of its own that ends with it. They block. */
#ifndef BOX_FILES_H
#define BOX_FILES_H

#include <sys/stat.h>
#include <sys/types.h>

#include "wire.h"

enum { PATH_ROOM = 4096 };

/* All of them end the process when the client is gone. */
void answer_frame(struct writer *w);
void answer_ok(int64_t size);
void answer_error(int error, const char *code);
void answer_data(const void *data, size_t size);
void answer_done(int64_t size);
/* An entry for `path` (relative to `dir`), told as `shown`. */
void answer_entry(uint8_t kind, int dir, const char *path, const char *shown, const struct stat *info);
/* The next bytes of what the client streams: 0 at its END, -1 when it broke off. Until the next call. */
ssize_t stream_next(const uint8_t **data);
/* Whatever is left of it. */
void stream_drain(void);

/* path.c. realpath(3) where what is missing may be missing. False: errno. */
bool path_resolve(const char *path, char into[PATH_ROOM]);
/* The place itself: its folder resolved, its own name kept. */
bool path_place(const char *path, char into[PATH_ROOM]);
bool path_parents(const char *path, mode_t mode);
/* Whether `path` is `inner` or above it. */
bool path_above(const char *path, const char *inner);

/* tree.c */
bool tree_remove(const char *path);
bool tree_list(const char *path, int64_t depth);
bool tree_copy(const char *from, const char *to);
bool tree_glob(const char *path, const char *pattern);

/* tar.c: they answer themselves when they succeed. */
bool tar_pack(const char *path);
bool tar_unpack(const char *path);

/* watch.c */
bool watch_run(int client, const char *path, bool recursive);

#endif
