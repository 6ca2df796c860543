/* What the engine would otherwise take from an operating system.
 *
 * The guest has no wasm imports at all: a clock, a random source or a file descriptor that does not exist cannot leak.
 * quickjs.c and libc are redirected here before they are compiled, so no patch to either is needed. */
#ifndef GUEST_PLATFORM_H
#define GUEST_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static int guest_gettimeofday(struct timeval *tv, void *zone);
static int guest_clock_gettime(clockid_t id, struct timespec *ts);
static struct tm *guest_localtime_r(const time_t *t, struct tm *out);

#define gettimeofday guest_gettimeofday
#define clock_gettime guest_clock_gettime
#define localtime_r guest_localtime_r
/* A trap ends the instance; the host rolls back. There is nothing to print to. */
#define abort() __builtin_trap()
#define printf(...) ((void)0)
#define fprintf(...) ((void)0)
#define putchar(...) ((void)0)
#define fwrite(...) ((void)0)

#define EXPORT(name) __attribute__((export_name(name), used))

#endif
