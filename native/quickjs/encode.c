/* JavaScript values to JSON (see Values in src/gloveport/wire/PROTOCOL.md).
 *
 * Own enumerable accessors are called, as a reader of `{...value}` would expect; nothing else of the guest runs (no
 * toJSON, no iterators, no traps). A getter may change what is being encoded, so no pointer into an object is kept across
 * one: shapes are pinned, arrays are read by index, maps are copied first. */

enum { MAX_DEPTH = 200, MAX_VALUES = 1000000, MAX_PATH = 300 };

enum { NO_INDEX = 0xFFFFFFFF };

typedef struct level {
    JSObject *object;
    JSAtom key;     /* JS_ATOM_NULL: `index` is the key */
    uint32_t index; /* NO_INDEX: no member is being encoded yet */
} level;

typedef struct encoder {
    JSContext *ctx;
    buf *b;
    int flags;
    uint32_t values;
    int depth;
    const char *problem, *advice; /* why it cannot cross, and what to do */
    buf path;                     /* and where: written at once, while every object on the way is alive */
    level levels[MAX_DEPTH];
} encoder;

enum { ENC_OK = 0, ENC_THROWN = -1, ENC_REFUSED = -2 };

static int encode_value(encoder *e, JSValueConst v);

static bool is_identifier(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || (c & 0x80);
        if (!letter && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return n > 0;
}

/* `lines[0].order`, cut in the middle of nowhere when it is endless. */
static void write_path(encoder *e, buf *to)
{
    for (int i = 0; i < e->depth; i++) {
        if (to->len > MAX_PATH) {
            buf_lit(to, "\xE2\x80\xA6");
            return;
        }
        level *l = &e->levels[i];
        if (l->key == JS_ATOM_NULL && l->index == NO_INDEX)
            continue;
        if (l->key == JS_ATOM_NULL || __JS_AtomIsTaggedInt(l->key)) {
            buf_byte(to, '[');
            buf_u32(to, l->key == JS_ATOM_NULL ? l->index : __JS_AtomToUInt32(l->key));
            buf_byte(to, ']');
            continue;
        }
        size_t n;
        const char *name = JS_AtomToCStringLen(e->ctx, &n, l->key);
        if (!name) {
            JS_FreeValue(e->ctx, JS_GetException(e->ctx));
            return;
        }
        if (n > MAX_PATH)
            n = MAX_PATH;
        bool plain = is_identifier(name, n);
        if (plain && to->len)
            buf_byte(to, '.');
        if (!plain)
            buf_lit(to, "[\"");
        buf_put(to, name, (uint32_t)n);
        if (!plain)
            buf_lit(to, "\"]");
        JS_FreeCString(e->ctx, name);
    }
}

static int refuse(encoder *e, const char *problem, const char *advice)
{
    e->problem = problem;
    e->advice = advice;
    write_path(e, &e->path);
    return ENC_REFUSED;
}

/* "a function at `handler` cannot leave the sandbox: return plain data" */
static void write_refusal(encoder *e, buf *to, const char *default_advice)
{
    buf_str(to, e->problem);
    if (e->path.len) {
        buf_lit(to, " at `");
        buf_put(to, e->path.p, e->path.len);
        buf_byte(to, '`');
    }
    buf_free(&e->path);
    buf_lit(to, " cannot leave the sandbox: ");
    buf_str(to, e->advice ? e->advice : default_advice);
}

static int enter(encoder *e, JSObject *p)
{
    for (int i = 0; i < e->depth; i++)
        if (e->levels[i].object == p)
            return refuse(e, "a cycle", NULL);
    if (e->depth == MAX_DEPTH)
        return refuse(e, "data nested more than 200 levels deep", "return flatter data");
    if (js_check_stack_overflow(e->ctx->rt, 4096)) {
        JS_ThrowStackOverflow(e->ctx);
        return ENC_THROWN;
    }
    e->levels[e->depth++] = (level){p, JS_ATOM_NULL, NO_INDEX};
    return ENC_OK;
}

static void tag_open(encoder *e, const char *tag)
{
    e->flags |= FLAG_TAGGED;
    buf_lit(e->b, "{\"$\":\"");
    buf_str(e->b, tag);
    buf_lit(e->b, "\",\"v\":");
}

static int encode_number(encoder *e, double d)
{
    if (isfinite(d) && !(d == 0 && signbit(d))) {
        buf_double(e->b, d);
        return ENC_OK;
    }
    tag_open(e, "number");
    buf_str(e->b, isnan(d) ? "\"NaN\"" : d == 0 ? "\"-0\"" : d > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    buf_byte(e->b, '}');
    return ENC_OK;
}

static int encode_bigint(encoder *e, JSValueConst v)
{
    JSValue s = js_bigint_toString(e->ctx, v, 0, NULL);
    if (JS_IsException(s))
        return ENC_THROWN;
    tag_open(e, "bigint");
    int r = json_string(e->ctx, e->b, s, &e->flags);
    buf_byte(e->b, '}');
    JS_FreeValue(e->ctx, s);
    return r;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(buf *b, const uint8_t *s, uint32_t n, const char *digits, bool pad)
{
    if (n > OUTPUT_MAX || !buf_room(b, (n / 3 + 1) * 4)) {
        b->failed = true;
        return;
    }
    uint8_t *to = b->p + b->len, *start = to;
    for (; n >= 3; s += 3, n -= 3) {
        uint32_t v = (uint32_t)s[0] << 16 | (uint32_t)s[1] << 8 | s[2];
        *to++ = (uint8_t)digits[v >> 18];
        *to++ = (uint8_t)digits[v >> 12 & 63];
        *to++ = (uint8_t)digits[v >> 6 & 63];
        *to++ = (uint8_t)digits[v & 63];
    }
    if (n) {
        uint32_t v = (uint32_t)s[0] << 16 | (n == 2 ? (uint32_t)s[1] << 8 : 0);
        *to++ = (uint8_t)digits[v >> 18];
        *to++ = (uint8_t)digits[v >> 12 & 63];
        if (n == 2)
            *to++ = (uint8_t)digits[v >> 6 & 63];
        for (uint32_t i = n; pad && i < 3; i++)
            *to++ = '=';
    }
    b->len += (uint32_t)(to - start);
}

static int encode_bytes(encoder *e, const uint8_t *data, uint32_t n)
{
    tag_open(e, "bytes");
    buf_byte(e->b, '"');
    put_base64(e->b, data, n, base64_digits, true);
    buf_lit(e->b, "\"}");
    return ENC_OK;
}

static int encode_element(encoder *e, JSValueConst v)
{
    if (JS_IsUndefined(v)) {
        e->flags |= FLAG_TAGGED;
        buf_lit(e->b, "{\"$\":\"undefined\"}");
        return ++e->values > MAX_VALUES ? refuse(e, "data of more than 1,000,000 values", "return less") : ENC_OK;
    }
    return encode_value(e, v);
}

static int too_many(encoder *e, uint64_t more)
{
    if (e->values + more > MAX_VALUES)
        return refuse(e, "data of more than 1,000,000 values", "return less");
    return ENC_OK;
}

static int encode_array(encoder *e, JSObject *p)
{
    int64_t length;
    JSValueConst v = JS_MKPTR(JS_TAG_OBJECT, p);
    if (js_get_length64(e->ctx, &length, v) < 0)
        return ENC_THROWN;
    if (too_many(e, (uint64_t)length))
        return ENC_REFUSED;
    level *l = &e->levels[e->depth - 1];
    buf_byte(e->b, '[');
    for (uint32_t i = 0; i < (uint32_t)length; i++) {
        if (i)
            buf_byte(e->b, ',');
        l->index = i;
        int r;
        if (p->fast_array && p->class_id != JS_CLASS_MAPPED_ARGUMENTS && i < p->u.array.count) {
            JSValueConst item = p->u.array.u.values[i];
            if (JS_VALUE_GET_TAG(item) == JS_TAG_INT) { /* the common case, without a call */
                char digits[12];
                buf_put(e->b, digits, (uint32_t)i32toa(digits, JS_VALUE_GET_INT(item)));
                e->values++;
                continue;
            }
            JSValue held = js_dup(item);
            r = encode_element(e, held);
            JS_FreeValue(e->ctx, held);
        } else {
            JSValue item = JS_GetPropertyInt64(e->ctx, v, i);
            if (JS_IsException(item))
                return ENC_THROWN;
            r = encode_element(e, item);
            JS_FreeValue(e->ctx, item);
        }
        if (r)
            return r;
        if (e->b->failed)
            break;
    }
    buf_byte(e->b, ']');
    return ENC_OK;
}

static int encode_typed_array(encoder *e, JSObject *p)
{
    uint8_t *data;
    uint32_t n;
    bytes_of(p, &data, &n);
    if (p->class_id == JS_CLASS_UINT8_ARRAY || p->class_id == JS_CLASS_UINT8C_ARRAY)
        return encode_bytes(e, data, n);
    uint32_t count = n >> typed_array_size_log2(p->class_id);
    if (too_many(e, count))
        return ENC_REFUSED;
    e->values += count;
    buf_byte(e->b, '[');
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            buf_byte(e->b, ',');
        JSValue v = JS_GetPropertyUint32(e->ctx, JS_MKPTR(JS_TAG_OBJECT, p), i); /* no guest code: exotic own element */
        if (JS_IsException(v))
            return ENC_THROWN;
        double d;
        int tag = JS_VALUE_GET_NORM_TAG(v), r = ENC_OK;
        if (tag == JS_TAG_INT || tag == JS_TAG_FLOAT64) {
            JS_ToFloat64(e->ctx, &d, v);
            r = encode_number(e, d);
        } else {
            r = encode_bigint(e, v);
        }
        JS_FreeValue(e->ctx, v);
        if (r)
            return r;
    }
    buf_byte(e->b, ']');
    return ENC_OK;
}

/* A Map or a Set, from a copy of its members: a getter in a member may change it. */
static int encode_collection(encoder *e, JSObject *p)
{
    bool map = p->class_id == JS_CLASS_MAP;
    JSMapState *s = p->u.map_state;
    uint32_t n = s->record_count, k = 0;
    if (too_many(e, (uint64_t)n * 2))
        return ENC_REFUSED;
    JSValue *copy = n ? js_malloc(e->ctx, (size_t)n * 2 * sizeof(JSValue)) : NULL;
    if (n && !copy)
        return ENC_THROWN;
    struct list_head *el;
    list_for_each(el, &s->records) {
        JSMapRecord *r = list_entry(el, JSMapRecord, link);
        if (r->empty || k == n)
            continue;
        copy[2 * k] = js_dup(r->key);
        copy[2 * k + 1] = map ? js_dup(r->value) : JS_UNDEFINED;
        k++;
    }
    tag_open(e, map ? "map" : "set");
    buf_byte(e->b, '[');
    level *l = &e->levels[e->depth - 1];
    int r = ENC_OK;
    for (uint32_t i = 0; i < k && !r; i++) {
        l->index = i;
        buf_str(e->b, i ? (map ? ",[" : ",") : (map ? "[" : ""));
        r = encode_element(e, copy[2 * i]);
        if (!r && map) {
            buf_byte(e->b, ',');
            r = encode_element(e, copy[2 * i + 1]);
            buf_byte(e->b, ']');
        }
    }
    for (uint32_t i = 0; i < 2 * k; i++)
        JS_FreeValue(e->ctx, copy[i]);
    js_free(e->ctx, copy);
    buf_lit(e->b, "]}");
    return r;
}

static int encode_error(encoder *e, JSObject *p)
{
    JSValue name = error_name(e->ctx, p), message = error_message(e->ctx, p);
    int r = ENC_THROWN;
    if (!JS_IsException(name) && !JS_IsException(message)) {
        tag_open(e, "error");
        buf_lit(e->b, "{\"name\":");
        r = json_string(e->ctx, e->b, name, &e->flags);
        buf_lit(e->b, ",\"message\":");
        r = r ? r : json_string(e->ctx, e->b, message, &e->flags);
        buf_lit(e->b, "}}");
    }
    JS_FreeValue(e->ctx, name);
    JS_FreeValue(e->ctx, message);
    return r;
}

/* One property: nothing when it is gone or undefined. `first` is cleared when something was written. */
static int encode_property(encoder *e, JSObject *p, JSAtom atom, JSShapeProperty *prs, JSProperty *pr, bool *first)
{
    level *l = &e->levels[e->depth - 1];
    JSValue v;
    l->key = atom;
    if ((prs->flags & JS_PROP_TMASK) == JS_PROP_NORMAL)
        v = js_dup(pr->u.value);
    else
        v = JS_GetProperty(e->ctx, JS_MKPTR(JS_TAG_OBJECT, p), atom); /* a getter of the guest, or a lazy builtin */
    if (JS_IsException(v))
        return ENC_THROWN;
    int r = ENC_OK;
    if (!JS_IsUndefined(v)) {
        if (!*first)
            buf_byte(e->b, ',');
        *first = false;
        JSValue name = JS_AtomToString(e->ctx, atom);
        r = JS_IsException(name) ? ENC_THROWN : json_string(e->ctx, e->b, name, &e->flags);
        JS_FreeValue(e->ctx, name);
        buf_byte(e->b, ':');
        r = r ? r : encode_value(e, v);
    }
    JS_FreeValue(e->ctx, v);
    return r;
}

/* Keys in another order than that of creation (integer keys come first), or an object with exotic properties. */
static int encode_listed_properties(encoder *e, JSObject *p, bool *first)
{
    JSPropertyEnum *tab;
    uint32_t n;
    JSValueConst v = JS_MKPTR(JS_TAG_OBJECT, p);
    if (JS_GetOwnPropertyNames(e->ctx, &tab, &n, v, JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY) < 0)
        return ENC_THROWN;
    int r = too_many(e, n);
    for (uint32_t i = 0; i < n && !r && !e->b->failed; i++) {
        JSProperty *pr;
        JSShapeProperty *prs = find_own_property(&pr, p, tab[i].atom);
        JSShapeProperty exotic = {.flags = JS_PROP_GETSET};
        if (!prs && p->is_exotic)
            prs = &exotic;
        if (prs)
            r = encode_property(e, p, tab[i].atom, prs, pr, first);
    }
    JS_FreePropertyEnum(e->ctx, tab, n);
    return r;
}

static int encode_plain(encoder *e, JSObject *p)
{
    JSShape *sh = js_dup_shape(p->shape); /* pinned: a change of the object clones it */
    bool first = true, ordered = !p->is_exotic;
    int r = ENC_OK, count = sh->prop_count;
    JSShapeProperty *prop = get_shape_prop(sh);
    for (int i = 0; i < count && ordered; i++)
        ordered = !(prop[i].atom != JS_ATOM_NULL && __JS_AtomIsTaggedInt(prop[i].atom));
    JSAtom dollar = JS_NewAtomLen(e->ctx, "$", 1);
    bool tagged = find_own_property1(p, dollar) != NULL;
    JS_FreeAtom(e->ctx, dollar);
    if (tagged)
        tag_open(e, "object");
    buf_byte(e->b, '{');
    if (!ordered) {
        r = encode_listed_properties(e, p, &first);
    } else {
        for (int i = 0; i < count && !r && !e->b->failed; i++) {
            JSAtom atom = prop[i].atom;
            if (atom == JS_ATOM_NULL || !(prop[i].flags & JS_PROP_ENUMERABLE) ||
                JS_AtomGetKind(e->ctx, atom) != JS_ATOM_KIND_STRING)
                continue;
            JSProperty *pr = &p->prop[i];
            JSShapeProperty *prs = &prop[i];
            if (p->shape != sh) /* changed by a getter: look it up again */
                prs = find_own_property(&pr, p, atom);
            if (prs)
                r = encode_property(e, p, atom, prs, pr, &first);
        }
    }
    buf_str(e->b, tagged ? "}}" : "}");
    js_free_shape(e->ctx->rt, sh);
    return r;
}

static int encode_date(encoder *e, JSObject *p)
{
    double ms = NAN;
    if (JS_IsNumber(p->u.object_data))
        JS_ToFloat64(e->ctx, &ms, p->u.object_data);
    tag_open(e, "date");
    if (isfinite(ms))
        buf_double(e->b, ms == 0 ? 0 : ms);
    else
        buf_lit(e->b, "null");
    buf_byte(e->b, '}');
    return ENC_OK;
}

/* Classes that are a leaf: returns 1 when it was not one of them. */
static int encode_leaf_object(encoder *e, JSValueConst v, JSObject *p)
{
    uint8_t *data;
    uint32_t n;
    switch (p->class_id) {
    case JS_CLASS_PROXY:
        return refuse(e, "a Proxy", NULL);
    case JS_CLASS_PROMISE:
        return refuse(e, "a Promise", "await it first");
    case JS_CLASS_WEAKMAP:
        return refuse(e, "a WeakMap", NULL);
    case JS_CLASS_WEAKSET:
        return refuse(e, "a WeakSet", NULL);
    case JS_CLASS_WEAK_REF:
        return refuse(e, "a WeakRef", NULL);
    case JS_CLASS_FINALIZATION_REGISTRY:
        return refuse(e, "a FinalizationRegistry", NULL);
    case JS_CLASS_NUMBER:
    case JS_CLASS_STRING:
    case JS_CLASS_BOOLEAN:
    case JS_CLASS_BIG_INT:
    case JS_CLASS_SYMBOL:
        e->values--;
        return encode_value(e, p->u.object_data);
    case JS_CLASS_DATE:
        return encode_date(e, p);
    case JS_CLASS_ERROR:
    case JS_CLASS_DOM_EXCEPTION:
        return encode_error(e, p);
    case JS_CLASS_REGEXP: {
        JSValue text = regexp_text(e->ctx, v);
        int r = JS_IsException(text) ? ENC_THROWN : json_string(e->ctx, e->b, text, &e->flags);
        JS_FreeValue(e->ctx, text);
        return r;
    }
    case JS_CLASS_ARRAY_BUFFER:
    case JS_CLASS_DATAVIEW:
        bytes_of(p, &data, &n);
        return encode_bytes(e, data, n);
    default:
        if (is_typed_array(p->class_id))
            return encode_typed_array(e, p);
        if (JS_IsFunction(e->ctx, v))
            return refuse(e, "a function", NULL);
        if (is_iterator(p))
            return refuse(e, "an iterator", "make an array of it first, as with Array.from()");
        return 1;
    }
}

static int encode_object(encoder *e, JSValueConst v)
{
    JSObject *p = JS_VALUE_GET_OBJ(v);
    int r = encode_leaf_object(e, v, p);
    if (r != 1)
        return r;
    r = enter(e, p);
    if (r)
        return r;
    if (p->class_id == JS_CLASS_ARRAY || p->class_id == JS_CLASS_ARGUMENTS || p->class_id == JS_CLASS_MAPPED_ARGUMENTS)
        r = encode_array(e, p);
    else if (p->class_id == JS_CLASS_MAP || p->class_id == JS_CLASS_SET)
        r = encode_collection(e, p);
    else
        r = encode_plain(e, p);
    e->depth--;
    return r;
}

static int encode_value(encoder *e, JSValueConst v)
{
    if (++e->values > MAX_VALUES)
        return refuse(e, "data of more than 1,000,000 values", "return less");
    switch (JS_VALUE_GET_NORM_TAG(v)) {
    case JS_TAG_INT: {
        char digits[12];
        buf_put(e->b, digits, (uint32_t)i32toa(digits, JS_VALUE_GET_INT(v)));
        return ENC_OK;
    }
    case JS_TAG_FLOAT64:
        return encode_number(e, JS_VALUE_GET_FLOAT64(v));
    case JS_TAG_BOOL:
        buf_str(e->b, JS_VALUE_GET_BOOL(v) ? "true" : "false");
        return ENC_OK;
    case JS_TAG_NULL:
        buf_lit(e->b, "null");
        return ENC_OK;
    case JS_TAG_STRING:
    case JS_TAG_STRING_ROPE:
        return json_string(e->ctx, e->b, v, &e->flags);
    case JS_TAG_BIG_INT:
    case JS_TAG_SHORT_BIG_INT:
        return encode_bigint(e, v);
    case JS_TAG_OBJECT:
        return encode_object(e, v);
    case JS_TAG_SYMBOL:
        return refuse(e, "a symbol", NULL);
    default:
        return encode_element(e, JS_UNDEFINED);
    }
}
