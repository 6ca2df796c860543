/* How much a box uses of what the kernel does not limit for us. */
#ifndef BOX_USAGE_H
#define BOX_USAGE_H

#include "supervisor.h"

/* Looks when it is time; acts when the box is over its limits. */
void usage_tick(struct supervisor *s);
/* When to look next; 0: never. */
int64_t usage_due(const struct supervisor *s);
/* A command began: look soon. */
void usage_soon(struct supervisor *s);
/* The size of the writable layer has been counted. */
void usage_counted(struct supervisor *s);
void usage_report(struct supervisor *s, struct writer *w);

/* disk.c: bytes below `dir`; INT64_MAX when it is nested too deep to tell. */
int64_t disk_usage(int dir);

#endif
