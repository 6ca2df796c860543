/* What the host calls: `init` and `boot` while the image is baked, then one `step` per request. */

/* Requests up to this size need no allocation; after each one what was used is zeroed, so it is not in any image. */
static uint8_t in_static[65536];

static void in_reset(uint32_t used)
{
    if (io.in_ptr != (uint32_t)(uintptr_t)in_static) {
        slab_free(NULL, (void *)(uintptr_t)io.in_ptr);
        io.in_ptr = (uint32_t)(uintptr_t)in_static;
        io.in_cap = sizeof in_static;
    } else {
        memset(in_static, 0, used < sizeof in_static ? used : sizeof in_static);
    }
}

/* Room for a request of `n` bytes: its address, 0 when there is no memory. */
EXPORT("reserve") uint32_t reserve(uint32_t n)
{
    in_reset(0);
    if (n >= sizeof in_static) {
        uint8_t *p = slab_malloc(NULL, (size_t)n + 1);
        if (!p)
            return 0;
        io.in_ptr = (uint32_t)(uintptr_t)p;
        io.in_cap = n + 1;
    }
    return io.in_ptr;
}

EXPORT("io") uint32_t io_address(void) { return (uint32_t)(uintptr_t)&io; }

static char *refuse_module(JSContext *c, const char *base, const char *name, void *opaque)
{
    (void)base;
    (void)opaque;
    JS_ThrowTypeError(c, "import is not available here: '%.100s' cannot be loaded", name);
    return NULL;
}

static JSModuleDef *no_module(JSContext *c, const char *name, void *opaque)
{
    (void)opaque;
    JS_ThrowTypeError(c, "import is not available here: '%.100s' cannot be loaded", name);
    return NULL;
}

/* How deep JavaScript may recurse, in bytes of the C stack in linear memory: about 4,000 plain calls. A level takes at most
 * three times as much of the native stack (measured with wasmtime 50 on x86-64: 2.3 for plain calls, 2.95 for a tool call in a
 * getter), of which the host allows 4 MiB, so code gets a RangeError that it can catch. Recursion inside of the engine's C
 * code (a JSON text of 20,000 brackets) can still reach the native limit first: a trap, and the host rolls back. */
enum { STACK_LIMIT = 1280 * 1024 };

static JSValue boot_native, boot_primordials;

EXPORT("init") int init(void)
{
    heap_init();
    static const JSMallocFunctions slab = {slab_calloc, slab_malloc, slab_free, slab_realloc, slab_usable_size};
    io.in_ptr = (uint32_t)(uintptr_t)in_static;
    io.in_cap = sizeof in_static;
    io.flag_ptr = (uint32_t)(uintptr_t)flag_page;
    out.p = out_static;
    out.cap = sizeof out_static;
    out_publish(0);
    rt = JS_NewRuntime2(&slab, NULL);
    if (!rt)
        return 1;
    JS_SetMaxStackSize(rt, STACK_LIMIT);
    JS_SetInterruptHandler(rt, interrupt_handler, NULL);
    JS_SetHostPromiseRejectionTracker(rt, rejection_tracker, NULL);
    JS_SetModuleLoaderFunc(rt, refuse_module, no_module, NULL);
    JS_SetCanBlock(rt, false);
    ctx = JS_NewContextRaw(rt);
    if (!ctx || JS_AddIntrinsicBaseObjects(ctx) || JS_AddIntrinsicDate(ctx) || JS_AddIntrinsicEval(ctx) ||
        JS_AddIntrinsicRegExp(ctx) || JS_AddIntrinsicJSON(ctx) || JS_AddIntrinsicProxy(ctx) ||
        JS_AddIntrinsicMapSet(ctx) || JS_AddIntrinsicTypedArrays(ctx) || JS_AddIntrinsicPromise(ctx) ||
        JS_AddIntrinsicWeakRef(ctx) || JS_AddIntrinsicAToB(ctx))
        return 2;
    boot_native = JS_NewObjectProto(ctx, JS_NULL);
    boot_primordials = JS_NewObjectProto(ctx, JS_NULL);
    JSValue console = JS_NewObject(ctx);
    JS_SetPropertyFunctionList(ctx, boot_native, native_functions, countof(native_functions));
    JS_SetPropertyFunctionList(ctx, ctx->global_obj, global_functions, countof(global_functions));
    JS_SetPropertyFunctionList(ctx, console, console_functions, countof(console_functions));
    JS_DefinePropertyValueStr(ctx, ctx->global_obj, "console", console, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JSAtom shared = JS_NewAtom(ctx, "SharedArrayBuffer"); /* nothing to share it with, and its clock is a timer */
    JS_DeleteProperty(ctx, ctx->global_obj, shared, 0);
    JS_FreeAtom(ctx, shared);
    return 0;
}

/* One bootstrap file: "name\0source\0" of `n` bytes in the input, an expression `(native, primordials) => {...}`. Its
 * source text is stripped after compiling (Function.prototype.toString says [native code]; 300 KB less in the image).
 * 0, or 1 with a `fail` message. */
EXPORT("boot") int boot(uint32_t n)
{
    const char *name = (char *)(uintptr_t)io.in_ptr, *source = name + strlen(name) + 1;
    size_t size;
    out_reset();
    console_reset(65536);
    JSValue f = JS_Eval(ctx, source, n - (size_t)(source - name) - 1, name, JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_COMPILE_ONLY);
    if (!JS_IsException(f)) {
        uint8_t *code = JS_WriteObject(ctx, &size, f, JS_WRITE_OBJ_BYTECODE | JS_WRITE_OBJ_STRIP_SOURCE);
        JS_FreeValue(ctx, f);
        f = code ? JS_ReadObject(ctx, code, size, JS_READ_OBJ_BYTECODE) : JS_EXCEPTION;
        js_free(ctx, code);
    }
    if (!JS_IsException(f))
        f = JS_EvalFunction(ctx, f);
    JSValue r = JS_EXCEPTION;
    if (!JS_IsException(f)) {
        JSValueConst args[2] = {boot_native, boot_primordials};
        r = JS_Call(ctx, f, JS_UNDEFINED, 2, args);
        JS_FreeValue(ctx, f);
    }
    in_reset(n);
    if (JS_IsException(r)) {
        JSValue e = JS_GetException(ctx);
        emit_thrown(e);
        JS_FreeValue(ctx, e);
        return 1;
    }
    JS_FreeValue(ctx, r);
    pump();
    return 0;
}

/* What is in the image stays for the whole session, so the collector need not walk it: some ten thousand objects, whose
 * reference counts it would write, which makes a private copy of every page that they are on. References from here count as
 * references from outside. A cycle through such an object that the guest lets go of is not found: bounded by the guest's memory. */
static struct list_head baked_objects;

static void exempt_baked_objects(void)
{
    baked_objects = rt->gc_obj_list;
    baked_objects.next->prev = baked_objects.prev->next = &baked_objects;
    init_list_head(&rt->gc_obj_list);
}

/* After the last bootstrap file: remember the builtin names, forget `native`, and tidy up before the image is taken. */
EXPORT("boot_end") int boot_end(void)
{
    JSPropertyEnum *tab;
    uint32_t n;
    session.reserved = JS_NewObjectProto(ctx, JS_NULL);
    if (JS_GetOwnPropertyNames(ctx, &tab, &n, ctx->global_obj, JS_GPN_STRING_MASK) < 0)
        return 1;
    for (uint32_t i = 0; i < n; i++)
        JS_DefinePropertyValue(ctx, session.reserved, tab[i].atom, JS_TRUE, JS_PROP_C_W_E);
    JS_FreePropertyEnum(ctx, tab, n);
    JS_FreeValue(ctx, boot_native);
    JS_FreeValue(ctx, boot_primordials);
    boot_native = boot_primordials = JS_UNDEFINED;
    timers_cancel_all();
    unhandled_clear();
    console_reset(0);
    JS_RunGC(rt);
    exempt_baked_objects();
    out_reset();
    io.clock_reads = 0;
    io.heap_pages = heap_end;
    return 0;
}

/* ── requests ── */

typedef struct reader {
    const uint8_t *p, *end;
    bool bad;
} reader;

static void take(reader *r, void *to, uint32_t n)
{
    if ((size_t)(r->end - r->p) < n) {
        r->bad = true;
        memset(to, 0, n);
        return;
    }
    memcpy(to, r->p, n);
    r->p += n;
}

static uint32_t take_u32(reader *r)
{
    uint32_t v;
    take(r, &v, 4);
    return v;
}

static double take_f64(reader *r)
{
    double v;
    take(r, &v, 8);
    if (!(v >= 0 && v < 1e15))
        r->bad = true;
    return v;
}

/* A `str` or `json`: always the last field, so that the byte after it is ours to be zero. */
static const uint8_t *take_text(reader *r, uint32_t *n)
{
    *n = take_u32(r);
    if (r->bad || (size_t)(r->end - r->p) != *n)
        r->bad = true;
    return r->p;
}

static JSValueConst option(JSObject *o, const char *name)
{
    JSAtom atom = JS_NewAtom(ctx, name);
    JSValueConst v = own_data(ctx, o, atom);
    JS_FreeAtom(ctx, atom);
    return JS_IsUninitialized(v) ? JS_UNDEFINED : v;
}

static void set_seed(uint64_t seed)
{
    session.bytes_state = seed;
    ctx->random_state = random_bits() | 1; /* xorshift needs a state that is not zero */
}

static void set_seed_text(JSValueConst v)
{
    const char *s = is_string(v) ? JS_ToCString(ctx, v) : NULL;
    set_seed(s ? strtoull(s, NULL, 10) : 0);
    JS_FreeCString(ctx, s);
}

static int reserve_name(JSValueConst name)
{
    JSAtom atom = JS_ValueToAtom(ctx, name);
    int r = atom == JS_ATOM_NULL ? -1 : JS_DefinePropertyValue(ctx, session.reserved, atom, JS_TRUE, JS_PROP_C_W_E);
    JS_FreeAtom(ctx, atom);
    return r < 0 ? -1 : 0;
}

/* The tools, as globals or on the object `namespace`; and the catalog's object, which is the same one if there is a namespace. */
static int install_tools(JSValueConst namespace, JSValueConst names, JSValueConst catalog)
{
    JSValue *items;
    uint32_t n;
    if (!parsed_array(names, &items, &n))
        return JS_IsUndefined(names) ? 0 : -1;
    bool own = is_string(namespace), open = is_string(catalog);
    JSValueConst name = own ? namespace : catalog;
    JSValue target = own || open ? JS_NewObject(ctx) : JS_UNDEFINED;
    int r = JS_IsException(target) ? -1 : 0;
    for (uint32_t i = 0; i < n && !r; i++) {
        r = is_string(items[i]) ? 0 : -1;
        r = r ? r : tool_install(own ? target : ctx->global_obj, items[i],
                                 own ? JS_PROP_C_W_E : JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
        if (!r && !own)
            r = reserve_name(items[i]);
    }
    if (!r && (own || open)) {
        JSValue object = open ? catalog_install(target, name) : js_dup(target);
        JSAtom atom = JS_ValueToAtom(ctx, name);
        r = JS_IsException(object) || atom == JS_ATOM_NULL
                ? -1
                : JS_DefinePropertyValue(ctx, ctx->global_obj, atom, object, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
        JS_FreeAtom(ctx, atom);
        r = r < 0 ? -1 : reserve_name(name);
    }
    JS_FreeValue(ctx, target);
    return r;
}

/* The application's own script, before the first run. Tools exist but cannot be called yet. */
static int run_bootstrap(JSValueConst source)
{
    size_t n;
    const char *s = JS_ToCStringLen(ctx, &n, source);
    JSValue r = s ? JS_Eval(ctx, s, n, "<bootstrap>", JS_EVAL_TYPE_GLOBAL) : JS_EXCEPTION;
    JS_FreeCString(ctx, s);
    console_reset(65536);
    if (JS_IsException(r))
        return finish_thrown(JS_GetException(ctx));
    JS_FreeValue(ctx, r);
    run_close();
    return ST_OK;
}

static int op_options(reader *r)
{
    uint32_t n;
    const uint8_t *text = take_text(r, &n);
    if (r->bad || session.configured)
        return ST_MALFORMED;
    JSValue options = JS_ParseJSON(ctx, (const char *)text, n, "<host>");
    JSObject *o = as_object(options);
    if (!o) {
        JS_FreeValue(ctx, JS_IsException(options) ? JS_GetException(ctx) : options);
        return ST_MALFORMED;
    }
    JSValueConst clock = option(o, "clock"), bootstrap = option(o, "bootstrap");
    session.configured = true;
    session.frozen = JS_VALUE_GET_TAG(option(o, "frozen")) == JS_TAG_BOOL && JS_VALUE_GET_BOOL(option(o, "frozen"));
    session.origin = 0;
    if (JS_IsNumber(clock))
        JS_ToFloat64(ctx, &session.origin, clock);
    session.timer_clock = session.origin;
    set_seed_text(option(o, "seed"));
    int status = install_tools(option(o, "namespace"), option(o, "tools"), option(o, "catalog")) < 0 ? ST_MALFORMED : ST_OK;
    if (status != ST_OK)
        JS_FreeValue(ctx, JS_GetException(ctx));
    else if (is_string(bootstrap))
        status = run_bootstrap(bootstrap);
    JS_FreeValue(ctx, options);
    return status;
}

static int op_run(reader *r)
{
    uint32_t number = take_u32(r), cap = take_u32(r), n;
    const uint8_t *source = take_text(r, &n);
    if (r->bad || !session.configured || session.active)
        return ST_MALFORMED;
    return run_start(number, cap, (const char *)source, n);
}

static int op_plain(reader *r)
{
    uint32_t number = take_u32(r), cap = take_u32(r), n;
    const uint8_t *source = take_text(r, &n);
    if (r->bad || !session.configured || session.active)
        return ST_MALFORMED;
    return plain_start(number, cap, (const char *)source, n);
}

static int op_answer(reader *r)
{
    double ms = take_f64(r);
    uint32_t id = take_u32(r), n;
    uint8_t ok;
    take(r, &ok, 1);
    const uint8_t *json = take_text(r, &n);
    if (r->bad || !session.active || !id_map_get(&tools.open, id))
        return ST_MALFORMED;
    advance_clock(ms);
    if (!interrupted())
        call_settle(id, ok != 0, json, n);
    return run_drain();
}

static int op_time(reader *r)
{
    double ms = take_f64(r);
    if (r->bad || r->p != r->end || !session.active)
        return ST_MALFORMED;
    advance_clock(ms);
    return run_drain();
}

static int op_reseed(reader *r)
{
    uint64_t seed;
    take(r, &seed, sizeof seed);
    if (r->bad || r->p != r->end)
        return ST_MALFORMED;
    set_seed(seed);
    return ST_OK;
}

/* One more tool, as a global: between runs only. */
static int op_bind(reader *r)
{
    uint32_t n;
    const uint8_t *text = take_text(r, &n);
    if (r->bad || !session.configured || session.active)
        return ST_MALFORMED;
    JSValue name = JS_NewStringLen(ctx, (const char *)text, n);
    int done = JS_IsException(name) ? -1 : tool_install(ctx->global_obj, name, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    if (done < 0 || reserve_name(name) < 0) {
        JS_FreeValue(ctx, name);
        JS_FreeValue(ctx, JS_GetException(ctx));
        return ST_OUT_OF_MEMORY;
    }
    JS_FreeValue(ctx, name);
    return ST_OK;
}

static int op_collect(void)
{
    JS_RunGC(rt);
    return ST_OK;
}

/* One request of `n` bytes in the input: its status (see PROTOCOL.md; 4: malformed, nothing was done). */
EXPORT("step") int step(uint32_t n)
{
    reader r = {(const uint8_t *)(uintptr_t)io.in_ptr, NULL, false};
    if (n >= io.in_cap)
        return ST_MALFORMED;
    ((uint8_t *)(uintptr_t)io.in_ptr)[n] = 0;
    r.end = r.p + n;
    out_reset();
    uint8_t op;
    take(&r, &op, 1);
    int status = ST_MALFORMED;
    if (!r.bad)
        switch (op) {
        case 'O': status = op_options(&r); break;
        case 'R': status = op_run(&r); break;
        case 'P': status = op_plain(&r); break;
        case 'A': status = op_answer(&r); break;
        case 'T': status = op_time(&r); break;
        case 'E': status = op_reseed(&r); break;
        case 'B': status = op_bind(&r); break;
        case 'G': status = n == 1 ? op_collect() : ST_MALFORMED; break;
        }
    in_reset(n);
    io.heap_pages = heap_end;
    if (interrupted() && status != ST_MALFORMED)
        status = ST_INTERRUPTED;
    return status;
}
