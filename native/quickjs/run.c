/* Runs: evaluate, drain, decide whether it is over, say so. */

enum { ST_OK = 0, ST_INTERRUPTED = 1, ST_TRAP = 2, ST_OUT_OF_MEMORY = 3, ST_MALFORMED = 4 };

enum { MAX_UNHANDLED_LINES = 20 };

/* Promises that were rejected and that nobody handles (yet). */
static struct {
    JSValue *items;
    uint32_t count, cap;
} unhandled;

static void rejection_tracker(JSContext *c, JSValueConst promise, JSValueConst reason, bool handled, void *opaque)
{
    (void)reason;
    (void)opaque;
    if (handled) {
        for (uint32_t i = unhandled.count; i-- > 0;) { /* the newest is the likely one */
            if (JS_VALUE_GET_PTR(unhandled.items[i]) != JS_VALUE_GET_PTR(promise))
                continue;
            JS_FreeValue(c, unhandled.items[i]);
            unhandled.count--;
            memmove(&unhandled.items[i], &unhandled.items[i + 1], (unhandled.count - i) * sizeof(JSValue));
            return;
        }
        return;
    }
    if (unhandled.count == unhandled.cap) {
        uint32_t cap = unhandled.cap ? unhandled.cap * 2 : 64;
        JSValue *p = slab_realloc(NULL, unhandled.items, cap * sizeof(JSValue));
        if (!p)
            return;
        unhandled.items = p;
        unhandled.cap = cap;
    }
    unhandled.items[unhandled.count++] = js_dup(promise);
}

static void unhandled_clear(void)
{
    for (uint32_t i = 0; i < unhandled.count; i++)
        JS_FreeValue(ctx, unhandled.items[i]);
    slab_free(NULL, unhandled.items);
    memset(&unhandled, 0, sizeof unhandled);
}

static void unhandled_report(void)
{
    for (uint32_t i = 0; i < unhandled.count && i < MAX_UNHANDLED_LINES; i++) {
        buf line = {0};
        JSValue reason = JS_PromiseResult(ctx, unhandled.items[i]);
        buf_lit(&line, "Uncaught (in promise) ");
        thrown_text(&line, reason, 0);
        console_text(2, line.p, line.len);
        JS_FreeValue(ctx, reason);
        buf_free(&line);
    }
    if (unhandled.count > MAX_UNHANDLED_LINES) {
        char line[64];
        snprintf(line, sizeof line, "... and %u more rejected promises", (unsigned)(unhandled.count - MAX_UNHANDLED_LINES));
        console_line(2, line);
    }
    unhandled_clear();
}

/* An exception that left a timer or a microtask: it does not fail the run. */
static void report_uncaught(void)
{
    JSValue e = JS_GetException(ctx);
    if (!JS_IsUncatchableError(e)) {
        buf line = {0};
        buf_lit(&line, "Uncaught ");
        thrown_text(&line, e, 0);
        console_text(2, line.p, line.len);
        buf_free(&line);
    }
    JS_FreeValue(ctx, e);
}

static void pump(void)
{
    JSContext *c;
    while (!list_empty(&rt->job_list) && !interrupted())
        if (JS_ExecutePendingJob(rt, &c) < 0)
            report_uncaught();
}

/* Whatever the run left behind; after this the session is ready for the next one. */
static void run_close(void)
{
    session.active = false;
    pump();
    uint32_t n = timers_cancel_all();
    if (n) {
        char line[96];
        snprintf(line, sizeof line, "%u timer%s still set when the run ended and %s cancelled", (unsigned)n,
                 n == 1 ? " was" : "s were", n == 1 ? "was" : "were");
        console_line(2, line);
    }
    unhandled_report();
    console_flush();
    console_reset(0);
    JS_FreeValue(ctx, session.promise);
    session.promise = JS_UNDEFINED;
}

static int finish_thrown(JSValue reason)
{
    bool memory = is_out_of_memory(reason);
    run_close();
    bool ok = emit_thrown(reason);
    JS_FreeValue(ctx, reason);
    return memory || !ok ? ST_OUT_OF_MEMORY : ST_OK;
}

static int finish_refused(buf *text)
{
    run_close();
    bool ok = emit_fail_text("value", "TypeError", text);
    buf_free(text);
    return ok ? ST_OK : ST_OUT_OF_MEMORY;
}

static int finish_value(JSValue v)
{
    message m;
    encoder *e = js_mallocz(ctx, sizeof *e);
    if (!e) {
        JS_FreeValue(ctx, v);
        return finish_thrown(JS_GetException(ctx));
    }
    session.active = false; /* getters of the result run now: they cannot call tools */
    message_begin(&m, "done");
    int r = ENC_OK;
    if (!JS_IsUndefined(v)) {
        e->ctx = ctx;
        e->b = m.b;
        buf_lit(m.b, ",\"v\":");
        r = encode_value(e, v);
        m.flags = e->flags;
    }
    JS_FreeValue(ctx, v);
    buf text = {0};
    if (r == ENC_REFUSED)
        write_refusal(e, &text, "return plain data");
    js_free(ctx, e);
    if (r == ENC_OK) {
        bool too_long = m.b->too_long;
        if (!m.b->failed)
            run_close(); /* its messages go before ours */
        if (message_end(&m))
            return interrupted() ? ST_INTERRUPTED : ST_OK;
        if (!too_long)
            return ST_OUT_OF_MEMORY;
        buf_lit(&text, "a result of more than 63 MiB cannot leave the sandbox: return less");
        return finish_refused(&text);
    }
    message_drop(&m);
    return r == ENC_REFUSED ? finish_refused(&text) : finish_thrown(JS_GetException(ctx));
}

static int finish_stuck(void)
{
    if (alloc_failed) { /* a job was lost for want of memory */
        run_close();
        return ST_OUT_OF_MEMORY;
    }
    run_close();
    buf text = {0};
    buf_lit(&text, "the code waits for a promise that nothing can settle: no tool call is open and no timer is set");
    bool ok = emit_fail_text("stuck", "Error", &text);
    buf_free(&text);
    return ok ? ST_OK : ST_OUT_OF_MEMORY;
}

static int emit_idle(void)
{
    message m;
    message_begin(&m, "idle");
    buf_lit(m.b, ",\"calls\":");
    buf_u32(m.b, tools.open.count);
    buf_lit(m.b, ",\"timer\":");
    if (timers.count)
        buf_double(m.b, fmax(0, timers.heap[0]->due - session.timer_clock));
    else
        buf_lit(m.b, "null");
    buf_lit(m.b, ",\"now\":");
    buf_double(m.b, session.timer_clock);
    return message_end(&m) ? ST_OK : ST_OUT_OF_MEMORY;
}

/* Go on until the run is over or only the host can help. */
static int run_drain(void)
{
    for (;;) {
        pump();
        if (interrupted()) {
            console_flush();
            return ST_INTERRUPTED;
        }
        if (tools.open.count)
            return emit_idle();
        int state = JS_PromiseState(ctx, session.promise);
        if (state == JS_PROMISE_FULFILLED)
            return finish_value(JS_PromiseResult(ctx, session.promise));
        if (state == JS_PROMISE_REJECTED)
            return finish_thrown(JS_PromiseResult(ctx, session.promise));
        if (!timers.count)
            return finish_stuck();
        timer_fire_next();
    }
}

/* `$({__proto__: null, x: [getter, setter], ...})`: the run's top-level bindings become accessors of the global object,
 * so that a later run sees the same live variables. Builtins and tools cannot be shadowed beyond the run. */
static JSValue publish(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSObject *p = as_object(argv[0]), *reserved = as_object(session.reserved);
    if (!p || p->class_id != JS_CLASS_OBJECT)
        return JS_ThrowTypeError(c, "not the bindings of a run");
    JSPropertyEnum *tab;
    uint32_t n;
    if (JS_GetOwnPropertyNames(c, &tab, &n, argv[0], JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY) < 0)
        return JS_EXCEPTION;
    int r = 0;
    for (uint32_t i = 0; i < n && r >= 0; i++) {
        JSAtom atom = tab[i].atom;
        JSValueConst pair = own_data(c, p, atom);
        JSObject *q = as_object(pair);
        if ((reserved && find_own_property1(reserved, atom)) || !q || q->class_id != JS_CLASS_ARRAY || !q->fast_array ||
            q->u.array.count != 2)
            continue;
        JSValue get = js_dup(q->u.array.u.values[0]), set = js_dup(q->u.array.u.values[1]);
        r = JS_DefinePropertyGetSet(c, c->global_obj, atom, get, set,
                                    JS_PROP_CONFIGURABLE | JS_PROP_HAS_CONFIGURABLE | JS_PROP_HAS_ENUMERABLE |
                                        JS_PROP_HAS_GET | JS_PROP_HAS_SET | JS_PROP_THROW);
    }
    JS_FreePropertyEnum(c, tab, n);
    return r < 0 ? JS_EXCEPTION : JS_UNDEFINED;
}

/* From here on a run is under way: whatever happens, it ends with `done` or `fail`. */
static void run_open(uint32_t number, uint32_t cap)
{
    session.number = number;
    session.active = true;
    alloc_failed = false;
    reserve_take();
    console_reset(cap);
    io.clock_reads = 0;
}

/* The function whose source has a prelude as its first line. Line 0: so the second line is the guest's line 1. (JS_Eval2
 * takes 0 for 1.) */
static JSValue run_compile(const char *source, uint32_t n)
{
    return JS_EvalInternal(ctx, ctx->global_obj, source, n, "<run>", 0, JS_EVAL_TYPE_GLOBAL, -1);
}

static int run_function(JSValue f)
{
    JSValue promise = JS_EXCEPTION;
    if (!JS_IsException(f)) {
        JSValue arg = JS_NewCFunction(ctx, publish, "", 1);
        promise = JS_IsException(arg) ? arg : JS_Call(ctx, f, JS_UNDEFINED, 1, vc(&arg));
        JS_FreeValue(ctx, arg);
        JS_FreeValue(ctx, f);
    }
    if (JS_IsException(promise)) {
        JSValue e = JS_GetException(ctx);
        if (interrupted()) {
            JS_FreeValue(ctx, e);
            console_flush();
            return ST_INTERRUPTED;
        }
        return finish_thrown(e);
    }
    if (JS_PromiseState(ctx, promise) == (int)JS_PROMISE_NOT_A_PROMISE) {
        JS_FreeValue(ctx, promise);
        JS_ThrowTypeError(ctx, "the source of a run must be an async function");
        return finish_thrown(JS_GetException(ctx));
    }
    JS_PromiseMarkAsHandled(ctx, promise); /* its rejection is the run's failure, not an unhandled one */
    session.promise = promise;
    return run_drain();
}

static int run_start(uint32_t number, uint32_t cap, const char *source, uint32_t n)
{
    run_open(number, cap);
    return run_function(run_compile(source, n));
}
