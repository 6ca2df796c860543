/* The guest: QuickJS-ng and our glue, as one unit.
 *
 * One unit, because including quickjs.c gives us its internals (shapes, map records, byte code positions) without a patch
 * to upstream. The order of the includes is the order of dependence. See README.md. */

#include "platform.h"

#include "quickjs.c"

#undef malloc
#undef free
#undef realloc

#include "page_slab.c"
#include "text.c"
#include "output.c"
#include "objects.c"
#include "state.c"
#include "idmap.c"
#include "encode.c"
#include "decode.c"
#include "thrown.c"
#include "console.c"
#include "clock.c"
#include "calls.c"
#include "run.c"
#include "plain.c"
#include "natives.c"
#include "entry.c"
