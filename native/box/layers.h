/* Puts what a box has written under a new writable layer, while the box goes on. */
#ifndef BOX_LAYERS_H
#define BOX_LAYERS_H

#include "supervisor.h"

enum layers { LAYERS_DONE, LAYERS_BUSY, LAYERS_FAILED, LAYERS_BROKEN };

/* Frozen boxes only. `below`: the layers under the current upper one, top first; none: those that are known. BUSY: a process still
 * holds files or a directory of the old tree. BROKEN: the box cannot go on. `stage` says where; errno why. */
enum layers layers_push(struct box *box, const struct fields *below, char stage[32]);
/* The name of the writable layer after `count` pushes. */
void layers_name(char into[32], const char *what, int count);

#endif
