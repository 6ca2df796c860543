/* JSON from the host to JavaScript values: the engine's own parser, then one pass that replaces `{"$": tag, "v": ...}`.
 *
 * Everything is made from intrinsics and by the engine's C functions; no property of the guest is looked up. */

static JSValue revive(JSContext *ctx, JSValue v);

static bool has_tag(const uint8_t *s, uint32_t n)
{
    const uint8_t *end = s + n;
    for (const uint8_t *p = s; p + 3 <= end; p++) {
        p = memchr(p, '"', (size_t)(end - p));
        if (!p || p + 3 > end)
            return false;
        if (p[1] == '$' && p[2] == '"')
            return true;
    }
    return false;
}

static int base64_value(uint32_t c)
{
    if (c >= 'A' && c <= 'Z') return (int)c - 'A';
    if (c >= 'a' && c <= 'z') return (int)c - 'a' + 26;
    if (c >= '0' && c <= '9') return (int)c - '0' + 52;
    if (c == '+' || c == '-') return 62;
    if (c == '/' || c == '_') return 63;
    return -1;
}

/* Uint8Array from base64 (either alphabet, padding optional); JS_NULL when it is malformed. */
static JSValue bytes_from_base64(JSContext *ctx, JSValueConst v)
{
    JSValue flat = flat_string(ctx, v);
    if (JS_IsException(flat))
        return flat;
    JSString *p = JS_VALUE_GET_STRING(flat);
    uint32_t n = p->len, k = 0, acc = 0, bits = 0;
    JSValue result = JS_NULL;
    const uint8_t *s = str8(p);
    if (p->is_wide_char)
        goto done;
    while (n && s[n - 1] == '=' && p->len - n < 2)
        n--;
    if (n % 4 == 1)
        goto done;
    uint8_t *data = js_malloc(ctx, n / 4 * 3 + 3);
    if (!data) {
        result = JS_EXCEPTION;
        goto done;
    }
    for (uint32_t i = 0; i < n; i++) {
        int d = base64_value(s[i]);
        if (d < 0) {
            js_free(ctx, data);
            goto done;
        }
        acc = acc << 6 | (uint32_t)d;
        if ((bits += 6) >= 8) {
            bits -= 8;
            data[k++] = (uint8_t)(acc >> bits);
        }
    }
    result = JS_NewUint8ArrayCopy(ctx, data, k);
    js_free(ctx, data);
done:
    JS_FreeValue(ctx, flat);
    return result;
}

static JSValue revive_number(JSContext *ctx, JSValueConst v)
{
    size_t n;
    const char *s = JS_ToCStringLen(ctx, &n, v);
    if (!s)
        return JS_EXCEPTION;
    double d = !strcmp(s, "-0") ? -0.0 : !strcmp(s, "Infinity") ? INFINITY : !strcmp(s, "-Infinity") ? -INFINITY : NAN;
    JS_FreeCString(ctx, s);
    return js_float64(d);
}

/* The members of an intrinsic array made by the parser; its elements are ours to read directly. */
static bool parsed_array(JSValueConst v, JSValue **items, uint32_t *n)
{
    JSObject *p = as_object(v);
    if (!p || p->class_id != JS_CLASS_ARRAY || !p->fast_array)
        return false;
    *items = p->u.array.u.values;
    *n = p->u.array.count;
    return true;
}

static int map_put(JSContext *ctx, JSMapState *s, JSValueConst key, JSValueConst value)
{
    key = map_normalize_key_const(ctx, key);
    JSMapRecord *r = map_find_record(ctx, s, key);
    if (!r) {
        r = map_add_record(ctx, s, key);
        if (!r)
            return -1;
        r->value = js_dup(value);
        return 0;
    }
    JS_FreeValue(ctx, r->value);
    r->value = js_dup(value);
    return 0;
}

static JSValue revive_collection(JSContext *ctx, JSValue members, bool map)
{
    members = revive(ctx, members);
    JSValue *items, *pair, result = JS_UNDEFINED;
    uint32_t n, two;
    if (JS_IsException(members) || !parsed_array(members, &items, &n))
        goto malformed;
    /* the constructor without arguments: no iteration, no `add` of the guest */
    result = js_map_constructor(ctx, JS_UNDEFINED, 0, NULL, map ? 0 : MAGIC_SET);
    if (JS_IsException(result))
        goto malformed;
    JSMapState *s = JS_VALUE_GET_OBJ(result)->u.map_state;
    for (uint32_t i = 0; i < n; i++) {
        JSValueConst key = items[i], value = JS_UNDEFINED;
        if (map) {
            if (!parsed_array(items[i], &pair, &two) || two != 2)
                goto malformed;
            key = pair[0];
            value = pair[1];
        }
        if (map_put(ctx, s, key, value) < 0)
            goto malformed;
    }
    JS_FreeValue(ctx, members);
    return result;
malformed:
    JS_FreeValue(ctx, members);
    JS_FreeValue(ctx, result);
    return JS_IsUninitialized(ctx->rt->current_exception) ? JS_ThrowTypeError(ctx, "malformed value from the host")
                                                          : JS_EXCEPTION;
}

static JSValue revive_error(JSContext *ctx, JSValueConst v)
{
    JSObject *p = as_object(v);
    JSValueConst name = p ? own_text(ctx, p, JS_ATOM_name) : JS_UNINITIALIZED;
    JSValueConst message = p ? own_text(ctx, p, JS_ATOM_message) : JS_UNINITIALIZED;
    return make_error(ctx, JS_IsUninitialized(name) ? JS_UNDEFINED : js_dup(name),
                      JS_IsUninitialized(message) ? js_empty_string(ctx->rt) : js_dup(message), JS_UNDEFINED);
}

/* The value that `{"$": tag, "v": payload}` stands for. */
static JSValue revive_tagged(JSContext *ctx, JSValueConst tag, JSValueConst payload)
{
    JSValue result = JS_NULL;
    const char *t = JS_ToCString(ctx, tag);
    if (!t)
        return JS_EXCEPTION;
    if (!strcmp(t, "undefined")) {
        result = JS_UNDEFINED;
    } else if (!strcmp(t, "number")) {
        result = revive_number(ctx, payload);
    } else if (!strcmp(t, "bigint") && is_string(payload)) {
        result = JS_StringToBigIntErr(ctx, js_dup(payload));
    } else if (!strcmp(t, "date")) {
        double ms = NAN;
        if (JS_IsNumber(payload))
            JS_ToFloat64(ctx, &ms, payload);
        result = JS_NewDate(ctx, ms);
    } else if (!strcmp(t, "bytes") && is_string(payload)) {
        result = bytes_from_base64(ctx, payload);
    } else if (!strcmp(t, "map") || !strcmp(t, "set")) {
        result = revive_collection(ctx, js_dup(payload), t[0] == 'm');
    } else if (!strcmp(t, "error")) {
        result = revive_error(ctx, payload);
    }
    JS_FreeCString(ctx, t);
    return JS_IsNull(result) ? JS_ThrowTypeError(ctx, "malformed value from the host") : result;
}

static int revive_members(JSContext *ctx, JSObject *p)
{
    JSValue *items;
    uint32_t n;
    if (parsed_array(JS_MKPTR(JS_TAG_OBJECT, p), &items, &n)) {
        for (uint32_t i = 0; i < n; i++) {
            if (!as_object(items[i]))
                continue;
            JSValue v = items[i];
            items[i] = JS_UNDEFINED;
            items[i] = revive(ctx, v);
            if (JS_IsException(items[i])) {
                items[i] = JS_UNDEFINED;
                return -1;
            }
        }
        return 0;
    }
    for (int i = 0; i < p->shape->prop_count; i++) {
        if (get_shape_prop(p->shape)[i].atom == JS_ATOM_NULL || !as_object(p->prop[i].u.value))
            continue;
        JSValue v = p->prop[i].u.value;
        p->prop[i].u.value = JS_UNDEFINED;
        v = revive(ctx, v);
        if (JS_IsException(v))
            return -1;
        p->prop[i].u.value = v;
    }
    return 0;
}

/* Consumes a value that the parser made. Nothing here can run guest code, so its objects are walked in place. */
static JSValue revive(JSContext *ctx, JSValue v)
{
    JSObject *p = as_object(v);
    if (!p)
        return v;
    if (js_check_stack_overflow(ctx->rt, 0)) {
        JS_FreeValue(ctx, v);
        return JS_ThrowStackOverflow(ctx);
    }
    JSAtom dollar = JS_NewAtomLen(ctx, "$", 1), key = JS_NewAtomLen(ctx, "v", 1);
    JSValueConst tag = p->class_id == JS_CLASS_OBJECT ? own_text(ctx, p, dollar) : JS_UNINITIALIZED;
    JSValue result = v;
    if (JS_IsUninitialized(tag)) {
        if (revive_members(ctx, p) < 0) {
            JS_FreeValue(ctx, v);
            result = JS_EXCEPTION;
        }
    } else {
        JSValueConst payload = own_data(ctx, p, key);
        if (JS_IsUninitialized(payload))
            payload = JS_UNDEFINED;
        JSObject *inner = as_object(payload);
        const char *t = JS_ToCString(ctx, tag);
        if (t && !strcmp(t, "object") && inner) { /* a plain object with a key `$`: its members, not itself */
            result = js_dup(payload);
            if (revive_members(ctx, inner) < 0) {
                JS_FreeValue(ctx, result);
                result = JS_EXCEPTION;
            }
        } else {
            result = t ? revive_tagged(ctx, tag, payload) : JS_EXCEPTION;
        }
        JS_FreeCString(ctx, t);
        JS_FreeValue(ctx, v);
    }
    JS_FreeAtom(ctx, dollar);
    JS_FreeAtom(ctx, key);
    return result;
}

/* `text` has a zero after its last byte. */
static JSValue decode_value(JSContext *ctx, const uint8_t *text, uint32_t n)
{
    JSValue v = JS_ParseJSON(ctx, (const char *)text, n, "<host>");
    if (JS_IsException(v) || !has_tag(text, n))
        return v;
    return revive(ctx, v);
}
