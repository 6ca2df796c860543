/* Tool calls: a native function per tool, and the table of promises that wait for the host.
 *
 * The tools of a catalog are not installed. Its object is a Proxy that makes a function of any name that it does not have; a call
 * says the name as the code wrote it, `object.name`, and the host decides what that is. */

typedef struct call {
    JSValue resolve, reject;
    JSValue code; /* the guest function that called, for the position of an error; JS_UNDEFINED when unknown */
    uint32_t pc;
    uint32_t tool; /* an index into `names`, or CATALOG */
    JSValue name;  /* of a tool of the catalog; JS_UNDEFINED else */
} call;

enum { CATALOG = UINT32_MAX };

static struct {
    id_map open;
    uint32_t last_id;
    uint8_t **names; /* JSON strings, zero-terminated */
    uint32_t count;
    uint8_t *catalog; /* the name of its object, zero-terminated; NULL without one */
} tools;

/* What is called, as a JSON string. Negative: no memory, an exception is pending. */
static int put_tool_name(buf *b, uint32_t tool, JSValueConst name, int *flags)
{
    if (tool != CATALOG) {
        buf_str(b, (char *)tools.names[tool]);
        return 0;
    }
    buf own = {0};
    if (json_string(ctx, &own, name, flags) < 0)
        return -1;
    buf_byte(b, '"');
    buf_str(b, (char *)tools.catalog);
    buf_byte(b, '.');
    if (own.len)
        buf_put(b, own.p + 1, own.len - 1);
    b->failed = b->failed || own.failed;
    b->too_long = b->too_long || own.too_long;
    buf_free(&own);
    return 0;
}

/* The same without quotes, for texts. */
static void put_tool_text(buf *b, uint32_t tool, JSValueConst name)
{
    buf quoted = {0};
    int ignored = 0;
    if (put_tool_name(&quoted, tool, name, &ignored) < 0)
        JS_FreeValue(ctx, JS_GetException(ctx));
    else if (quoted.len > 1)
        buf_put(b, quoted.p + 1, quoted.len - 2);
    buf_free(&quoted);
}

static void call_free(call *k)
{
    JS_FreeValue(ctx, k->resolve);
    JS_FreeValue(ctx, k->reject);
    JS_FreeValue(ctx, k->code);
    JS_FreeValue(ctx, k->name);
    js_free(ctx, k);
}

/* Where the guest is: kept as (function, pc) because finding a line is slow and only errors need it. */
static void call_position(call *k)
{
    for (JSStackFrame *f = rt->current_stack_frame; f; f = f->prev_frame) {
        JSObject *p = as_object(f->cur_func);
        if (!p || !js_class_has_bytecode(p->class_id) || !f->cur_pc)
            continue;
        JSFunctionBytecode *b = p->u.func.function_bytecode;
        k->code = js_dup(JS_MKPTR(JS_TAG_FUNCTION_BYTECODE, b));
        k->pc = (uint32_t)(f->cur_pc - b->byte_code_buf - 1);
        return;
    }
}

/* "    at save (<run>:3:9)\n", undefined when the position is unknown */
static JSValue call_stack(const call *k)
{
    if (JS_IsUndefined(k->code))
        return JS_UNDEFINED;
    JSFunctionBytecode *b = JS_VALUE_GET_PTR(k->code);
    int col, line = find_line_num(ctx, b, k->pc, &col);
    const char *file = b->filename ? JS_AtomToCString(ctx, b->filename) : NULL;
    buf text = {0};
    buf_lit(&text, "    at ");
    put_tool_text(&text, k->tool, k->name);
    buf_lit(&text, " (");
    buf_str(&text, file ? file : "<unknown>");
    buf_byte(&text, ':');
    buf_u32(&text, (uint32_t)(line < 0 ? 0 : line));
    buf_byte(&text, ':');
    buf_u32(&text, (uint32_t)(col < 0 ? 0 : col));
    buf_lit(&text, ")\n");
    JS_FreeCString(ctx, file);
    JSValue s = buf_to_string(ctx, &text);
    buf_free(&text);
    return s;
}

/* Encode the arguments into the open message. On failure an exception is pending. */
static int encode_arguments(message *m, encoder *e, int argc, JSValueConst *argv, uint32_t tool, JSValueConst name)
{
    e->ctx = ctx;
    e->b = m->b;
    buf_lit(m->b, ",\"a\":[");
    for (int i = 0; i < argc; i++) {
        if (i)
            buf_byte(m->b, ',');
        int r = encode_element(e, argv[i]);
        if (r == ENC_THROWN)
            return -1;
        if (r == ENC_REFUSED) {
            buf text = {0};
            char head[48];
            snprintf(head, sizeof head, "argument %d of ", i + 1);
            buf_str(&text, head);
            put_tool_text(&text, tool, name);
            buf_lit(&text, ": ");
            write_refusal(e, &text, "pass plain data");
            JSValue s = buf_to_string(ctx, &text);
            buf_free(&text);
            JSValue error = JS_NewObjectProtoClass(ctx, ctx->native_error_proto[JS_TYPE_ERROR], JS_CLASS_ERROR);
            if (!JS_IsException(s) && !JS_IsException(error)) {
                JS_DefinePropertyValue(ctx, error, JS_ATOM_message, s, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
                build_backtrace(ctx, error, JS_UNDEFINED, NULL, 0, 0, 0);
                JS_Throw(ctx, error);
            }
            return -1;
        }
    }
    buf_byte(m->b, ']');
    m->flags |= e->flags;
    return 0;
}

static JSValue make_call(JSContext *c, int argc, JSValueConst *argv, uint32_t tool, JSValueConst name)
{
    if (!session.active)
        return JS_ThrowTypeError(c, "tools can be called only while a run is going on");
    message m;
    encoder *e = js_mallocz(c, sizeof *e); /* 2.5 KB: too much for the stack of a deep recursion */
    if (!e)
        return JS_EXCEPTION;
    message_begin(&m, "call");
    buf_lit(m.b, ",\"n\":");
    int r = put_tool_name(m.b, tool, name, &m.flags);
    r = r < 0 ? r : encode_arguments(&m, e, argc, argv, tool, name);
    js_free(c, e);
    if (r < 0) {
        message_drop(&m);
        return JS_EXCEPTION;
    }
    call *k = js_mallocz(c, sizeof *k);
    JSValue resolving[2], promise = k ? JS_NewPromiseCapability(c, resolving) : JS_EXCEPTION;
    if (JS_IsException(promise)) {
        js_free(c, k);
        message_drop(&m);
        return JS_EXCEPTION;
    }
    *k = (call){resolving[0], resolving[1], JS_UNDEFINED, 0, tool, js_dup(name)};
    call_position(k);
    uint32_t id = tools.last_id + 1;
    buf_lit(m.b, ",\"id\":");
    buf_u32(m.b, id);
    bool too_long = m.b->too_long, stored = id_map_put(&tools.open, id, k);
    too_long = too_long || m.b->too_long;
    if (!stored || !message_end(&m)) {
        if (stored)
            id_map_take(&tools.open, id);
        else
            message_drop(&m);
        call_free(k);
        JS_FreeValue(c, promise);
        return too_long ? JS_ThrowRangeError(c, "more than 63 MiB of tool arguments at once") : JS_ThrowOutOfMemory(c);
    }
    tools.last_id = id;
    return promise;
}

static JSValue tool_call(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int magic, JSValueConst *data)
{
    (void)this_val;
    (void)data;
    return make_call(c, argc, argv, (uint32_t)magic, JS_UNDEFINED);
}

/* The function of a name of the catalog, which is its data. */
static JSValue catalog_call(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int magic, JSValueConst *data)
{
    (void)this_val;
    (void)magic;
    return make_call(c, argc, argv, CATALOG, data[0]);
}

/* Settle call `id` with what the host says. False: there is no such call. */
static bool call_settle(uint32_t id, bool ok, const uint8_t *json, uint32_t n)
{
    call *k = id_map_take(&tools.open, id);
    if (!k)
        return false;
    JSValue v = decode_value(ctx, json, n);
    if (!ok && !JS_IsException(v)) {
        JSObject *p = as_object(v);
        JSValueConst name = p ? own_text(ctx, p, JS_ATOM_name) : JS_UNINITIALIZED;
        JSValueConst text = p ? own_text(ctx, p, JS_ATOM_message) : JS_UNINITIALIZED;
        JSValue error = make_error(ctx, JS_IsUninitialized(name) ? JS_UNDEFINED : js_dup(name),
                                   JS_IsUninitialized(text) ? js_empty_string(ctx->rt) : js_dup(text), call_stack(k));
        JS_FreeValue(ctx, v);
        v = error;
    }
    if (JS_IsException(v)) { /* no memory, or not JSON: the caller of the tool gets that */
        ok = false;
        v = JS_GetException(ctx);
    }
    JSValue r = JS_Call(ctx, ok ? k->resolve : k->reject, JS_UNDEFINED, 1, vc(&v));
    if (JS_IsException(r))
        JS_FreeValue(ctx, JS_GetException(ctx));
    JS_FreeValue(ctx, r);
    JS_FreeValue(ctx, v);
    call_free(k);
    return true;
}

static int tool_install(JSValueConst target, JSValueConst name, int flags)
{
    buf json = {0};
    int ignored = 0;
    if (tools.count > UINT16_MAX) /* what the engine keeps of `magic` */
        return -1;
    if (json_string(ctx, &json, name, &ignored) < 0)
        return -1;
    buf_byte(&json, 0);
    uint8_t **names = slab_realloc(NULL, tools.names, (tools.count + 1) * sizeof *names);
    if (!names || json.failed) {
        JS_ThrowOutOfMemory(ctx);
        return -1;
    }
    tools.names = names;
    names[tools.count] = js_malloc(ctx, json.len);
    if (!names[tools.count])
        return -1;
    memcpy(names[tools.count], json.p, json.len);
    buf_free(&json);
    const char *text = JS_ToCString(ctx, name);
    if (!text)
        return -1;
    JSValue f = JS_NewCFunctionData2(ctx, tool_call, text, 0, (int)tools.count, 0, NULL);
    JS_FreeCString(ctx, text);
    JSAtom atom = JS_ValueToAtom(ctx, name);
    tools.count++;
    int r = JS_IsException(f) || atom == JS_ATOM_NULL ? -1 : JS_DefinePropertyValue(ctx, target, atom, f, flags);
    JS_FreeAtom(ctx, atom);
    return r < 0 ? -1 : 0;
}

/* The proxy's `get`: what its object has, or inherits, as it is; for any other name the function that calls it. `then` and
 * `toJSON` would make a promise, or JSON text, of it whenever it is awaited or written out. */
static JSValue catalog_get(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int magic, JSValueConst *data)
{
    (void)this_val;
    (void)magic;
    (void)data;
    if (argc < 2 || !JS_IsObject(argv[0]))
        return JS_UNDEFINED;
    JSAtom atom = JS_ValueToAtom(c, argv[1]);
    if (atom == JS_ATOM_NULL)
        return JS_EXCEPTION;
    int known = JS_HasProperty(c, argv[0], atom);
    JSValue v = JS_EXCEPTION;
    if (known > 0 || !is_string(argv[1]) || atom == JS_ATOM_then || atom == JS_ATOM_toJSON) {
        v = known < 0 ? JS_EXCEPTION : JS_GetProperty(c, argv[0], atom);
    } else if (known == 0) {
        const char *text = JS_ToCString(c, argv[1]);
        if (text)
            v = JS_NewCFunctionData2(c, catalog_call, text, 0, 0, 1, &argv[1]);
        JS_FreeCString(c, text);
    }
    JS_FreeAtom(c, atom);
    return v;
}

/* The proxy around `target`, which is called `name`. */
static JSValue catalog_install(JSValueConst target, JSValueConst name)
{
    size_t n;
    const char *text = JS_ToCStringLen(ctx, &n, name);
    if (!text)
        return JS_EXCEPTION;
    tools.catalog = js_malloc(ctx, n + 1);
    if (tools.catalog)
        memcpy(tools.catalog, text, n + 1);
    JS_FreeCString(ctx, text);
    JSValue handler = tools.catalog ? JS_NewObjectProto(ctx, JS_NULL) : JS_EXCEPTION;
    JSValue get = JS_IsException(handler) ? JS_EXCEPTION : JS_NewCFunctionData(ctx, catalog_get, 3, 0, 0, NULL);
    if (JS_IsException(get) || JS_DefinePropertyValue(ctx, handler, JS_ATOM_get, get, JS_PROP_C_W_E) < 0) {
        JS_FreeValue(ctx, handler);
        return JS_EXCEPTION;
    }
    JSValue proxy = JS_NewProxy(ctx, target, handler);
    JS_FreeValue(ctx, handler);
    return proxy;
}
