/* Virtual time. Nothing here knows the real time: the host says where the clock starts and how far a tool call took it;
 * between calls it jumps from timer to timer. The time zone is UTC. */

static double read_clock(void)
{
    io.clock_reads++;
    return session.frozen ? session.origin : session.timer_clock;
}

static int guest_gettimeofday(struct timeval *tv, void *zone)
{
    (void)zone;
    double us = floor(read_clock()) * 1000;
    tv->tv_sec = (time_t)floor(us / 1e6);
    tv->tv_usec = (suseconds_t)(us - (double)tv->tv_sec * 1e6);
    return 0;
}

static int guest_clock_gettime(clockid_t id, struct timespec *ts)
{
    (void)id;
    double ms = read_clock();
    ts->tv_sec = (time_t)floor(ms / 1000);
    ts->tv_nsec = (long)((ms - (double)ts->tv_sec * 1000) * 1e6);
    return 0;
}

static struct tm *guest_localtime_r(const time_t *t, struct tm *out)
{
    (void)t;
    memset(out, 0, sizeof *out); /* only tm_gmtoff is read */
    return out;
}

typedef struct timer {
    double due;
    double interval;  /* ms; 0: fires once */
    uint32_t seq;     /* order among equal due times */
    uint32_t id;
    uint32_t at;      /* index in the heap */
    bool firing, dead;
    bool quiet;       /* of AbortSignal.timeout: nobody can clear it, so one that is left over is no news */
    int argc;
    JSValue fn;
    JSValue args[];
} timer;

static struct {
    id_map by_id;
    timer **heap;     /* a binary heap by (due, seq) */
    uint32_t count, cap;
    uint32_t last_id, last_seq;
} timers;

static bool timer_before(const timer *a, const timer *b)
{
    return a->due < b->due || (a->due == b->due && a->seq < b->seq);
}

static void heap_set(uint32_t i, timer *t)
{
    timers.heap[i] = t;
    t->at = i;
}

static void heap_up(uint32_t i)
{
    timer *t = timers.heap[i];
    for (; i && timer_before(t, timers.heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap_set(i, timers.heap[(i - 1) / 2]);
    heap_set(i, t);
}

static void heap_down(uint32_t i)
{
    timer *t = timers.heap[i];
    for (;;) {
        uint32_t k = 2 * i + 1;
        if (k >= timers.count)
            break;
        if (k + 1 < timers.count && timer_before(timers.heap[k + 1], timers.heap[k]))
            k++;
        if (!timer_before(timers.heap[k], t))
            break;
        heap_set(i, timers.heap[k]);
        i = k;
    }
    heap_set(i, t);
}

static bool heap_push(timer *t)
{
    if (timers.count == timers.cap) {
        uint32_t cap = timers.cap ? timers.cap * 2 : 64;
        timer **p = slab_realloc(NULL, timers.heap, cap * sizeof(timer *));
        if (!p)
            return false;
        timers.heap = p;
        timers.cap = cap;
    }
    t->seq = ++timers.last_seq;
    heap_set(timers.count++, t);
    heap_up(t->at);
    return true;
}

static void heap_remove(timer *t)
{
    uint32_t i = t->at;
    timer *last = timers.heap[--timers.count];
    if (last != t) {
        heap_set(i, last);
        heap_up(i);
        heap_down(last->at);
    }
    if (!timers.count) {
        slab_free(NULL, timers.heap);
        timers.heap = NULL;
        timers.cap = 0;
    }
}

static void timer_free(timer *t)
{
    for (int i = 0; i < t->argc; i++)
        JS_FreeValue(ctx, t->args[i]);
    JS_FreeValue(ctx, t->fn);
    js_free(ctx, t);
}

enum { TIMEOUT, INTERVAL, IMMEDIATE, QUIET };

/* setTimeout, setInterval, setImmediate. A delay is a 32-bit integer as in browsers; less than 1 ms is 1 ms as in Node,
 * so that code that polls with setTimeout(f, 0) makes time pass. Only setImmediate is at once. */
static JSValue timer_set(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int magic)
{
    static const char *const names[] = {"setTimeout", "setInterval", "setImmediate", "setTimeout"};
    (void)this_val;
    int32_t delay = 0;
    int skip = magic == IMMEDIATE ? 1 : 2;
    if (!JS_IsFunction(c, argv[0]))
        return JS_ThrowTypeError(c, "%s: the first argument must be a function", names[magic]);
    if (magic != IMMEDIATE && argc > 1 && JS_ToInt32(c, &delay, argv[1]) < 0)
        return JS_EXCEPTION;
    if (delay < 1)
        delay = magic == IMMEDIATE ? 0 : 1;
    int extra = argc > skip ? argc - skip : 0;
    timer *t = js_mallocz(c, sizeof(timer) + (size_t)extra * sizeof(JSValue));
    if (!t)
        return JS_EXCEPTION;
    t->due = session.timer_clock + delay;
    t->quiet = magic == QUIET;
    t->interval = magic == INTERVAL ? delay : 0;
    t->id = timers.last_id + 1;
    t->fn = js_dup(argv[0]);
    t->argc = extra;
    for (int i = 0; i < extra; i++)
        t->args[i] = js_dup(argv[skip + i]);
    if (!id_map_put(&timers.by_id, t->id, t)) {
        timer_free(t);
        return JS_ThrowOutOfMemory(c);
    }
    if (!heap_push(t)) {
        id_map_take(&timers.by_id, t->id);
        timer_free(t);
        return JS_ThrowOutOfMemory(c);
    }
    timers.last_id = t->id;
    return js_int32((int32_t)t->id);
}

/* clearTimeout, clearInterval, clearImmediate: unknown ids are ignored. */
static JSValue timer_clear(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    double id;
    if (!JS_IsNumber(argv[0]))
        return JS_UNDEFINED;
    JS_ToFloat64(c, &id, argv[0]);
    if (!(id >= 1 && id <= 4294967295.0))
        return JS_UNDEFINED;
    timer *t = id_map_take(&timers.by_id, (uint32_t)id);
    if (!t)
        return JS_UNDEFINED;
    if (t->firing) {
        t->dead = true;
    } else {
        heap_remove(t);
        timer_free(t);
    }
    return JS_UNDEFINED;
}

/* How many were cancelled that the guest could have cleared. */
static uint32_t timers_cancel_all(void)
{
    uint32_t n = 0;
    while (timers.count) {
        timer *t = timers.heap[timers.count - 1];
        n += !t->quiet;
        id_map_take(&timers.by_id, t->id);
        heap_remove(t);
        timer_free(t);
    }
    return n;
}

static void report_uncaught(void); /* run.c */
static void pump(void);

/* Take the first timer, move the clock to it, call it, and drain what it queued. */
static void timer_fire_next(void)
{
    timer *t = timers.heap[0];
    heap_remove(t);
    if (t->due > session.timer_clock)
        session.timer_clock = t->due;
    if (!t->interval)
        id_map_take(&timers.by_id, t->id);
    t->firing = true;
    JSValue r = JS_Call(ctx, t->fn, ctx->global_obj, t->argc, vc(t->args));
    t->firing = false;
    if (JS_IsException(r))
        report_uncaught();
    JS_FreeValue(ctx, r);
    if (t->interval && !t->dead) {
        t->due = session.timer_clock + t->interval;
        if (!heap_push(t)) {
            id_map_take(&timers.by_id, t->id);
            timer_free(t);
        }
    } else {
        timer_free(t);
    }
    pump();
}

static void advance_clock(double ms)
{
    double target = session.timer_clock + (ms > 0 && isfinite(ms) ? ms : 0);
    while (timers.count && timers.heap[0]->due <= target && !interrupted())
        timer_fire_next();
    if (target > session.timer_clock)
        session.timer_clock = target;
}
