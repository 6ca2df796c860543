/* Whether processes of a box hold on to its present tree of files. */
#ifndef BOX_OPEN_FILES_H
#define BOX_OPEN_FILES_H

#include "box.h"

/* A directory or a file for writing, opened, mapped or stood in, of the box's own layers. Also true when it cannot be told. */
bool open_files(const struct box *box);

#endif
