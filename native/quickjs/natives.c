/* `native`: what the bootstrap files need and JavaScript cannot do safely. It exists only while the image is baked;
 * the functions that they keep never reach the guest's own code. None of these runs a getter or a trap. */

static JSValue native_class_of(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSObject *p = as_object(argv[0]);
    if (!p)
        return js_new_string8(c, "primitive");
    const char *name = "object";
    switch (p->class_id) {
    case JS_CLASS_ARRAY: name = "array"; break;
    case JS_CLASS_ARGUMENTS:
    case JS_CLASS_MAPPED_ARGUMENTS: name = "arguments"; break;
    case JS_CLASS_ERROR:
    case JS_CLASS_DOM_EXCEPTION: name = "error"; break;
    case JS_CLASS_NUMBER:
    case JS_CLASS_STRING:
    case JS_CLASS_BOOLEAN:
    case JS_CLASS_BIG_INT:
    case JS_CLASS_SYMBOL: name = "boxed"; break;
    case JS_CLASS_DATE: name = "date"; break;
    case JS_CLASS_REGEXP: name = "regexp"; break;
    case JS_CLASS_MAP: name = "map"; break;
    case JS_CLASS_SET: name = "set"; break;
    case JS_CLASS_WEAKMAP: name = "weakmap"; break;
    case JS_CLASS_WEAKSET: name = "weakset"; break;
    case JS_CLASS_WEAK_REF: name = "weakref"; break;
    case JS_CLASS_PROMISE: name = "promise"; break;
    case JS_CLASS_PROXY: name = "proxy"; break;
    case JS_CLASS_ARRAY_BUFFER:
    case JS_CLASS_SHARED_ARRAY_BUFFER: name = "arraybuffer"; break;
    case JS_CLASS_DATAVIEW: name = "dataview"; break;
    case JS_CLASS_GENERATOR:
    case JS_CLASS_ASYNC_GENERATOR: name = "generator"; break;
    case JS_CLASS_MODULE_NS: name = "module"; break;
    default:
        if (is_typed_array(p->class_id))
            name = "typedarray";
        else if (JS_IsFunction(c, argv[0]))
            name = "function";
        else if (is_iterator(p))
            name = "iterator";
    }
    return js_new_string8(c, name);
}

static JSValue native_is_proxy(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)c;
    (void)this_val;
    (void)argc;
    JSObject *p = as_object(argv[0]);
    return js_bool(p && p->class_id == JS_CLASS_PROXY);
}

/* The object of argument 0 when it can be looked into, else NULL. */
static JSObject *inspectable(JSValueConst v)
{
    JSObject *p = as_object(v);
    return p && p->class_id != JS_CLASS_PROXY ? p : NULL;
}

/* ownKeys(object): own keys, strings and symbols; an array without elements for a Proxy or a primitive */
static JSValue native_own_keys(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    if (!inspectable(argv[0]))
        return JS_NewArray(c);
    return JS_GetOwnPropertyNames2(c, argv[0], JS_GPN_STRING_MASK | JS_GPN_SYMBOL_MASK, JS_ITERATOR_KIND_KEY);
}

enum { PROP_NONE = 0, PROP_DATA = 1, PROP_GETTER = 2, PROP_SETTER = 4, PROP_ENUMERABLE = 8 };

/* ownKind(object, key): PROP_* bits; 0 when there is no such property */
static JSValue native_own_kind(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSPropertyDescriptor d;
    int kind = 0;
    if (!inspectable(argv[0]))
        return js_int32(0);
    JSAtom atom = JS_ValueToAtom(c, argv[1]);
    if (atom == JS_ATOM_NULL)
        return JS_EXCEPTION;
    int r = JS_GetOwnProperty(c, &d, argv[0], atom);
    JS_FreeAtom(c, atom);
    if (r < 0)
        return JS_EXCEPTION;
    if (r) {
        if (d.flags & JS_PROP_GETSET)
            kind = (JS_IsUndefined(d.getter) ? 0 : PROP_GETTER) | (JS_IsUndefined(d.setter) ? 0 : PROP_SETTER);
        else
            kind = PROP_DATA;
        if (d.flags & JS_PROP_ENUMERABLE)
            kind |= PROP_ENUMERABLE;
        js_free_desc(c, &d);
    }
    return js_int32(kind);
}

/* ownData(object, key): the value of an own data property, undefined when there is none or it is an accessor */
static JSValue native_own_data(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSPropertyDescriptor d;
    if (!inspectable(argv[0]))
        return JS_UNDEFINED;
    JSAtom atom = JS_ValueToAtom(c, argv[1]);
    if (atom == JS_ATOM_NULL)
        return JS_EXCEPTION;
    int r = JS_GetOwnProperty(c, &d, argv[0], atom);
    JS_FreeAtom(c, atom);
    if (r <= 0)
        return r < 0 ? JS_EXCEPTION : JS_UNDEFINED;
    JSValue v = d.flags & JS_PROP_GETSET ? JS_UNDEFINED : js_dup(d.value);
    js_free_desc(c, &d);
    return v;
}

/* protoOf(object): the prototype, null at the end of the chain and for a Proxy */
static JSValue native_proto_of(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)c;
    (void)this_val;
    (void)argc;
    JSObject *p = inspectable(argv[0]);
    return p && p->shape->proto ? js_dup(JS_MKPTR(JS_TAG_OBJECT, p->shape->proto)) : JS_NULL;
}

/* entriesOf(map or set, limit): a flat array, key value key value... or members */
static JSValue native_entries_of(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSObject *p = as_object(argv[0]);
    JSValue list = JS_NewArray(c);
    uint32_t limit, n = 0;
    if (JS_IsException(list) || JS_ToUint32(c, &limit, argv[1]) < 0 || !p ||
        (p->class_id != JS_CLASS_MAP && p->class_id != JS_CLASS_SET))
        return list;
    struct list_head *el;
    list_for_each(el, &p->u.map_state->records) {
        JSMapRecord *r = list_entry(el, JSMapRecord, link);
        if (r->empty)
            continue;
        if (n >= limit)
            break;
        bool map = p->class_id == JS_CLASS_MAP;
        if (JS_DefinePropertyValueUint32(c, list, map ? n * 2 : n, js_dup(r->key), JS_PROP_C_W_E) < 0 ||
            (map && JS_DefinePropertyValueUint32(c, list, n * 2 + 1, js_dup(r->value), JS_PROP_C_W_E) < 0)) {
            JS_FreeValue(c, list);
            return JS_EXCEPTION;
        }
        n++;
    }
    return list;
}

/* sizeOf(map, set, array, typed array, buffer or view): number of members, elements or bytes; 0 for others */
static JSValue native_size_of(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSObject *p = inspectable(argv[0]);
    uint8_t *data;
    uint32_t n;
    if (!p)
        return js_int32(0);
    if (p->class_id == JS_CLASS_MAP || p->class_id == JS_CLASS_SET)
        return js_uint32(p->u.map_state->record_count);
    if (p->class_id == JS_CLASS_ARRAY)
        return js_dup(p->prop[0].u.value);
    if (!bytes_of(p, &data, &n))
        return js_int32(0);
    (void)c;
    return js_uint32(is_typed_array(p->class_id) ? n >> typed_array_size_log2(p->class_id) : n);
}

/* promiseState(promise): 0 pending, 1 fulfilled, 2 rejected; promiseResult(promise) */
static JSValue native_promise(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int magic)
{
    (void)this_val;
    (void)argc;
    return magic ? JS_PromiseResult(c, argv[0]) : js_int32(JS_PromiseState(c, argv[0]));
}

/* unbox(value): the primitive in a boxed one, the time of a Date; itself otherwise */
static JSValue native_unbox(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)c;
    (void)this_val;
    (void)argc;
    JSObject *p = as_object(argv[0]);
    if (p)
        switch (p->class_id) {
        case JS_CLASS_NUMBER:
        case JS_CLASS_STRING:
        case JS_CLASS_BOOLEAN:
        case JS_CLASS_BIG_INT:
        case JS_CLASS_SYMBOL:
        case JS_CLASS_DATE:
            return js_dup(p->u.object_data);
        }
    return js_dup(argv[0]);
}

static JSValue native_regexp_text(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSObject *p = as_object(argv[0]);
    if (!p || p->class_id != JS_CLASS_REGEXP)
        return JS_ThrowTypeError(c, "not a RegExp");
    return regexp_text(c, argv[0]);
}

/* errorName(error), errorMessage(error), errorStack(error): text, read as data */
static JSValue native_error_text(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int magic)
{
    (void)this_val;
    (void)argc;
    JSObject *p = inspectable(argv[0]);
    if (!p)
        return js_empty_string(c->rt);
    if (magic < 2)
        return magic ? error_message(c, p) : error_name(c, p);
    buf text = {0};
    thrown_stack(&text, argv[0]);
    JSValue s = buf_to_string(c, &text);
    buf_free(&text);
    return s;
}

static JSValue native_is_class(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSObject *p = as_object(argv[0]);
    if (!p || !js_class_has_bytecode(p->class_id))
        return JS_FALSE;
    JSFunctionBytecode *b = p->u.func.function_bytecode;
    return js_bool(b->source && b->source_len > 5 && !memcmp(b->source, "class", 5) && JS_IsConstructor(c, argv[0]));
}

/* now(): the virtual clock, ms since 1970 with fractions; origin(): where it started */
static JSValue native_now(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int magic)
{
    (void)c;
    (void)this_val;
    (void)argc;
    (void)argv;
    return js_float64(magic ? session.origin : read_clock());
}

/* splitmix64: any seed is good, and the state is one word of the heap, so it is part of every image */
static uint64_t random_bits(void)
{
    uint64_t z = session.bytes_state += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* randomFill(buffer or view): fills its bytes from the seeded stream, returns it */
static JSValue native_random_fill(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSObject *p = as_object(argv[0]);
    uint8_t *data;
    uint32_t n;
    if (!p || !bytes_of(p, &data, &n))
        return JS_ThrowTypeError(c, "not a buffer");
    for (uint32_t i = 0; i < n; i += 8) {
        uint64_t bits = random_bits();
        memcpy(data + i, &bits, n - i < 8 ? n - i : 8);
    }
    return js_dup(argv[0]);
}

/* utf8Encode(string): Uint8Array; a lone surrogate becomes U+FFFD, as in the Encoding standard */
static JSValue native_utf8_encode(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    buf text = {0};
    if (!is_string(argv[0]))
        return JS_ThrowTypeError(c, "not a string");
    if (text_string(c, &text, argv[0], UINT32_MAX) < 0)
        return JS_EXCEPTION;
    for (uint32_t i = 0; i + 2 < text.len; i++)
        if (text.p[i] == 0xED && text.p[i + 1] >= 0xA0)
            memcpy(text.p + i, "\xEF\xBF\xBD", 3);
    JSValue bytes = text.failed ? JS_ThrowOutOfMemory(c) : JS_NewUint8ArrayCopy(c, text.p, text.len);
    buf_free(&text);
    return bytes;
}

/* utf8EncodeInto(string, Uint8Array): [units read, bytes written], whole characters only */
static JSValue native_utf8_encode_into(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSObject *p = as_object(argv[1]);
    uint8_t *data, ch[4];
    uint32_t room, written = 0, read = 0;
    if (!is_string(argv[0]) || !p || p->class_id != JS_CLASS_UINT8_ARRAY || !bytes_of(p, &data, &room))
        return JS_ThrowTypeError(c, "utf8EncodeInto needs a string and a Uint8Array");
    JSValue flat = flat_string(c, argv[0]);
    if (JS_IsException(flat))
        return flat;
    JSString *s = JS_VALUE_GET_STRING(flat);
    while (read < s->len) {
        uint32_t step = 1, v = s->is_wide_char ? str16(s)[read] : str8(s)[read];
        if (is_high(v) && read + 1 < s->len && is_low(str16(s)[read + 1])) {
            v = 0x10000 + ((v & 0x3FF) << 10) + (str16(s)[read + 1] & 0x3FF);
            step = 2;
        } else if ((v & 0xF800) == 0xD800) {
            v = 0xFFFD;
        }
        uint32_t n = put_utf8(ch, v);
        if (written + n > room)
            break;
        memcpy(data + written, ch, n);
        written += n;
        read += step;
    }
    JS_FreeValue(c, flat);
    JSValue pair[2] = {js_uint32(read), js_uint32(written)};
    return js_create_array(c, 2, vc(pair));
}

/* One character of UTF-8 by the Encoding standard: its length, or the length of the ill-formed part with *ok false.
 * 0: the input ends inside of a character that is well-formed so far. */
static uint32_t utf8_step(const uint8_t *s, uint32_t n, bool *ok)
{
    uint8_t c = s[0], low = 0x80, high = 0xBF;
    uint32_t need;
    *ok = true;
    if (c < 0x80)
        return 1;
    if (c >= 0xC2 && c <= 0xDF) {
        need = 1;
    } else if (c >= 0xE0 && c <= 0xEF) {
        need = 2;
        if (c == 0xE0) low = 0xA0;
        if (c == 0xED) high = 0x9F;
    } else if (c >= 0xF0 && c <= 0xF4) {
        need = 3;
        if (c == 0xF0) low = 0x90;
        if (c == 0xF4) high = 0x8F;
    } else {
        *ok = false;
        return 1;
    }
    for (uint32_t i = 1; i <= need; i++) {
        if (i >= n)
            return 0;
        if (s[i] < low || s[i] > high) {
            *ok = false;
            return i;
        }
        low = 0x80;
        high = 0xBF;
    }
    return need + 1;
}

/* utf8Decode(bytes, fatal, stream): [text, bytes used]. Ill-formed parts become U+FFFD; with `fatal`, null is returned
 * for them. With `stream`, an incomplete character at the end is left for the next call. No BOM handling. */
static JSValue native_utf8_decode(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSObject *p = as_object(argv[0]);
    uint8_t *data;
    uint32_t n, at = 0;
    bool fatal = JS_ToBool(c, argv[1]) > 0, stream = JS_ToBool(c, argv[2]) > 0;
    if (!p || !bytes_of(p, &data, &n))
        return JS_ThrowTypeError(c, "not a buffer");
    buf text = {0};
    while (at < n && !text.failed) {
        uint32_t run = 0, k = 1;
        bool ok = true;
        while (at + run < n && data[at + run] < 0x80)
            run++;
        while (at + run < n && (k = utf8_step(data + at + run, n - at - run, &ok)) && ok)
            run += k;
        buf_put(&text, data + at, run);
        at += run;
        if (at >= n)
            break;
        if (!k && stream)
            break;
        if (fatal) {
            buf_free(&text);
            return JS_NULL;
        }
        buf_lit(&text, "\xEF\xBF\xBD");
        at += k ? k : n - at;
    }
    JSValue pair[2] = {buf_to_string(c, &text), js_uint32(at)};
    buf_free(&text);
    if (JS_IsException(pair[0]))
        return JS_EXCEPTION;
    JSValue result = js_create_array(c, 2, vc(pair));
    JS_FreeValue(c, pair[0]);
    return result;
}

static const char base64url_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* base64Encode(bytes, url): text, without padding when `url` */
static JSValue native_base64_encode(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    JSObject *p = as_object(argv[0]);
    uint8_t *data;
    uint32_t n;
    bool url = JS_ToBool(c, argv[1]) > 0;
    if (!p || !bytes_of(p, &data, &n))
        return JS_ThrowTypeError(c, "not a buffer");
    buf text = {0};
    put_base64(&text, data, n, url ? base64url_digits : base64_digits, !url);
    JSValue s = buf_to_string(c, &text);
    buf_free(&text);
    return s;
}

/* base64Decode(string): Uint8Array, null when malformed; both alphabets */
static JSValue native_base64_decode(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    if (!is_string(argv[0]))
        return JS_ThrowTypeError(c, "not a string");
    return bytes_from_base64(c, argv[0]);
}

/* log(stream, text) */
static JSValue native_log(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    int32_t s;
    buf line = {0};
    if (JS_ToInt32(c, &s, argv[0]) < 0 || s < 1 || s > 2 || !is_string(argv[1]))
        return JS_ThrowTypeError(c, "log needs a stream and a text");
    text_string(c, &line, argv[1], UINT32_MAX);
    if (!line.failed)
        console_text(s, line.p, line.len);
    bool failed = line.failed;
    buf_free(&line);
    return failed ? JS_ThrowOutOfMemory(c) : JS_UNDEFINED;
}

/* indent(change): the group indentation after adding `change`; it is gone at the end of the run */
static JSValue native_indent(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv)
{
    (void)this_val;
    (void)argc;
    int32_t change;
    if (JS_ToInt32(c, &change, argv[0]) < 0)
        return JS_EXCEPTION;
    int64_t next = (int64_t)group_indent + change;
    group_indent = (uint32_t)(next < 0 ? 0 : next > 64 ? 64 : next);
    return js_uint32(group_indent);
}

/* setFormatter(f), setInspector(f): see `session` */
static JSValue native_set_hook(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int magic)
{
    (void)this_val;
    (void)argc;
    JSValue *hook = magic ? &session.inspector : &session.formatter;
    JS_FreeValue(c, *hook);
    *hook = js_dup(argv[0]);
    return JS_UNDEFINED;
}

static const JSCFunctionListEntry native_functions[] = {
    JS_CFUNC_DEF("classOf", 1, native_class_of),
    JS_CFUNC_DEF("isProxy", 1, native_is_proxy),
    JS_CFUNC_DEF("ownKeys", 1, native_own_keys),
    JS_CFUNC_DEF("ownKind", 2, native_own_kind),
    JS_CFUNC_DEF("ownData", 2, native_own_data),
    JS_CFUNC_DEF("protoOf", 1, native_proto_of),
    JS_CFUNC_DEF("entriesOf", 2, native_entries_of),
    JS_CFUNC_DEF("sizeOf", 1, native_size_of),
    JS_CFUNC_MAGIC_DEF("promiseState", 1, native_promise, 0),
    JS_CFUNC_MAGIC_DEF("promiseResult", 1, native_promise, 1),
    JS_CFUNC_DEF("unbox", 1, native_unbox),
    JS_CFUNC_DEF("regexpText", 1, native_regexp_text),
    JS_CFUNC_MAGIC_DEF("errorName", 1, native_error_text, 0),
    JS_CFUNC_MAGIC_DEF("errorMessage", 1, native_error_text, 1),
    JS_CFUNC_MAGIC_DEF("errorStack", 1, native_error_text, 2),
    JS_CFUNC_DEF("isClass", 1, native_is_class),
    JS_CFUNC_MAGIC_DEF("now", 0, native_now, 0),
    JS_CFUNC_MAGIC_DEF("origin", 0, native_now, 1),
    JS_CFUNC_DEF("randomFill", 1, native_random_fill),
    JS_CFUNC_DEF("utf8Encode", 1, native_utf8_encode),
    JS_CFUNC_DEF("utf8EncodeInto", 2, native_utf8_encode_into),
    JS_CFUNC_DEF("utf8Decode", 3, native_utf8_decode),
    JS_CFUNC_DEF("base64Encode", 2, native_base64_encode),
    JS_CFUNC_DEF("base64Decode", 1, native_base64_decode),
    JS_CFUNC_DEF("log", 2, native_log),
    JS_CFUNC_MAGIC_DEF("quietTimer", 2, timer_set, QUIET), /* setTimeout, without a word when it is left over */
    JS_CFUNC_DEF("indent", 1, native_indent),
    JS_CFUNC_MAGIC_DEF("setFormatter", 1, native_set_hook, 0),
    JS_CFUNC_MAGIC_DEF("setInspector", 1, native_set_hook, 1),
};

static const JSCFunctionListEntry global_functions[] = {
    JS_CFUNC_MAGIC_DEF("setTimeout", 1, timer_set, TIMEOUT),
    JS_CFUNC_MAGIC_DEF("setInterval", 1, timer_set, INTERVAL),
    JS_CFUNC_MAGIC_DEF("setImmediate", 1, timer_set, IMMEDIATE),
    JS_CFUNC_DEF("clearTimeout", 1, timer_clear),
    JS_CFUNC_DEF("clearInterval", 1, timer_clear),
    JS_CFUNC_DEF("clearImmediate", 1, timer_clear),
};

static const JSCFunctionListEntry console_functions[] = {
    JS_CFUNC_MAGIC_DEF("log", 0, console_log, 1),
    JS_CFUNC_MAGIC_DEF("info", 0, console_log, 1),
    JS_CFUNC_MAGIC_DEF("debug", 0, console_log, 1),
    JS_CFUNC_MAGIC_DEF("warn", 0, console_log, 2),
    JS_CFUNC_MAGIC_DEF("error", 0, console_log, 2),
};
