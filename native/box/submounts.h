/* What is mounted below a directory of the host. It must not come along when the directory is bound into a box. */
#ifndef BOX_SUBMOUNTS_H
#define BOX_SUBMOUNTS_H

#include <stdbool.h>
#include <stddef.h>

enum { SUBMOUNTS_MAX = 256 };

struct submounts {
    size_t count;
    char *list[SUBMOUNTS_MAX]; /* relative to the directory; none is below another */
};

/* Reads the lines of proc(5) mountinfo in `text`, which it changes. `below`: a resolved path. False: more than fit, or no memory. */
bool submounts_parse(char *text, const char *below, struct submounts *into);
/* Of this mount namespace. False: errno. */
bool submounts_find(const char *path, struct submounts *into);

#endif
