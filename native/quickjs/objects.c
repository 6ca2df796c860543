/* Looking at values without running any code of the guest: no getters, no traps, no prototype methods. */

static inline JSObject *as_object(JSValueConst v)
{
    return JS_VALUE_GET_TAG(v) == JS_TAG_OBJECT ? JS_VALUE_GET_OBJ(v) : NULL;
}

/* The value of an own data property, JS_UNINITIALIZED when there is none. Not a new reference. */
static JSValueConst own_data(JSContext *ctx, JSObject *p, JSAtom atom)
{
    JSProperty *pr;
    JSShapeProperty *prs = find_own_property(&pr, p, atom);
    if (!prs)
        return JS_UNINITIALIZED;
    switch (prs->flags & JS_PROP_TMASK) {
    case JS_PROP_NORMAL:
        return pr->u.value;
    case JS_PROP_VARREF:
        return *pr->u.var_ref->pvalue;
    case JS_PROP_AUTOINIT: /* a builtin made on first use, by the engine's own C code */
        if (JS_AutoInitProperty(ctx, p, atom, pr, prs) < 0) {
            JS_FreeValue(ctx, JS_GetException(ctx));
            return JS_UNINITIALIZED;
        }
        prs = find_own_property(&pr, p, atom);
        return prs && (prs->flags & JS_PROP_TMASK) == JS_PROP_NORMAL ? pr->u.value : JS_UNINITIALIZED;
    default:
        return JS_UNINITIALIZED;
    }
}

/* The same along the prototype chain, as far as it is made of ordinary objects. */
static JSValueConst chain_data(JSContext *ctx, JSObject *p, JSAtom atom)
{
    for (int i = 0; p && i < 100 && p->class_id != JS_CLASS_PROXY; i++, p = p->shape->proto) {
        JSValueConst v = own_data(ctx, p, atom);
        if (!JS_IsUninitialized(v))
            return v;
    }
    return JS_UNINITIALIZED;
}

/* An own data property that is a string, else JS_UNINITIALIZED. */
static JSValueConst own_text(JSContext *ctx, JSObject *p, JSAtom atom)
{
    JSValueConst v = own_data(ctx, p, atom);
    return is_string(v) ? v : JS_UNINITIALIZED;
}

static bool is_error_object(const JSObject *p)
{
    return p->class_id == JS_CLASS_ERROR || p->class_id == JS_CLASS_DOM_EXCEPTION;
}

static bool is_iterator(const JSObject *p)
{
    switch (p->class_id) {
    case JS_CLASS_ITERATOR:
    case JS_CLASS_ITERATOR_CONCAT:
    case JS_CLASS_ITERATOR_HELPER:
    case JS_CLASS_ITERATOR_WRAP:
    case JS_CLASS_MAP_ITERATOR:
    case JS_CLASS_SET_ITERATOR:
    case JS_CLASS_ARRAY_ITERATOR:
    case JS_CLASS_STRING_ITERATOR:
    case JS_CLASS_REGEXP_STRING_ITERATOR:
    case JS_CLASS_GENERATOR:
    case JS_CLASS_ASYNC_GENERATOR:
    case JS_CLASS_ASYNC_FROM_SYNC_ITERATOR:
        return true;
    default:
        return false;
    }
}

/* The bytes behind an ArrayBuffer, a typed array or a DataView. False for anything else; a detached one is empty. */
static bool bytes_of(JSObject *p, uint8_t **data, uint32_t *len)
{
    *data = NULL;
    *len = 0;
    if (p->class_id == JS_CLASS_ARRAY_BUFFER || p->class_id == JS_CLASS_SHARED_ARRAY_BUFFER) {
        JSArrayBuffer *a = p->u.array_buffer;
        if (a && !a->detached) {
            *data = a->data;
            *len = (uint32_t)a->byte_length;
        }
        return true;
    }
    bool typed = is_typed_array(p->class_id);
    if (!typed && p->class_id != JS_CLASS_DATAVIEW)
        return false;
    JSTypedArray *t = p->u.typed_array;
    if (!t)
        return true;
    JSArrayBuffer *a = t->buffer->u.array_buffer;
    if (a->detached || t->offset > (uint32_t)a->byte_length)
        return true;
    uint32_t room = (uint32_t)a->byte_length - t->offset;
    uint32_t n = typed ? p->u.array.count << typed_array_size_log2(p->class_id) : t->track_rab ? room : t->length;
    if (n > room)
        n = typed ? 0 : room;
    *data = a->data + t->offset;
    *len = n;
    return true;
}

static JSValue regexp_text(JSContext *ctx, JSValueConst v)
{
    JSObject *p = as_object(v);
    JSValue source = js_regexp_get_source(ctx, v); /* the intrinsic getter: escapes `/` and line ends */
    if (JS_IsException(source))
        return source;
    static const struct { int mask; char letter; } letters[] = {
        {LRE_FLAG_INDICES, 'd'}, {LRE_FLAG_GLOBAL, 'g'}, {LRE_FLAG_IGNORECASE, 'i'}, {LRE_FLAG_MULTILINE, 'm'},
        {LRE_FLAG_DOTALL, 's'}, {LRE_FLAG_UNICODE, 'u'}, {LRE_FLAG_UNICODE_SETS, 'v'}, {LRE_FLAG_STICKY, 'y'},
    };
    int flags = lre_get_flags(str8(p->u.regexp.bytecode));
    char tail[12] = "/";
    int n = 1;
    for (size_t i = 0; i < countof(letters); i++)
        if (flags & letters[i].mask)
            tail[n++] = letters[i].letter;
    tail[n] = 0;
    return JS_ConcatString3(ctx, "/", source, tail);
}

static JSObject *live_intrinsic_error(JSContext *ctx) { return JS_VALUE_GET_OBJ(ctx->class_proto[JS_CLASS_ERROR]); }

/* `name` of an error for a reader: own or inherited data, never a getter. "" when there is none. */
static JSValue error_name(JSContext *ctx, JSObject *p)
{
    if (p->class_id == JS_CLASS_DOM_EXCEPTION) {
        JSDOMExceptionData *s = p->u.opaque;
        if (s && is_string(s->name))
            return js_dup(s->name);
    }
    JSValueConst v = chain_data(ctx, p, JS_ATOM_name);
    if (is_string(v))
        return js_dup(v);
    if (p->class_id == JS_CLASS_ERROR) {
        v = own_data(ctx, live_intrinsic_error(ctx), JS_ATOM_name);
        if (is_string(v))
            return js_dup(v);
    }
    return js_empty_string(ctx->rt);
}

static JSValue error_message(JSContext *ctx, JSObject *p)
{
    if (p->class_id == JS_CLASS_DOM_EXCEPTION) {
        JSDOMExceptionData *s = p->u.opaque;
        if (s && is_string(s->message))
            return js_dup(s->message);
    }
    JSValueConst v = chain_data(ctx, p, JS_ATOM_message);
    if (is_string(v))
        return js_dup(v);
    int tag = JS_VALUE_GET_NORM_TAG(v);
    if (tag == JS_TAG_INT || tag == JS_TAG_FLOAT64 || tag == JS_TAG_BOOL)
        return JS_ToString(ctx, v);
    return js_empty_string(ctx->rt);
}

/* `new Error(message)` made from intrinsics, with an own `name` and a stack when given (all are consumed). */
static JSValue make_error(JSContext *ctx, JSValue name, JSValue message, JSValue stack)
{
    JSValue e = JS_NewObjectProtoClass(ctx, ctx->class_proto[JS_CLASS_ERROR], JS_CLASS_ERROR);
    const int flags = JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE;
    if (JS_IsException(e) || JS_IsException(name) || JS_IsException(message) || JS_IsException(stack))
        goto fail;
    if (JS_DefinePropertyValue(ctx, e, JS_ATOM_message, js_dup(message), flags) < 0)
        goto fail;
    if (!JS_IsUndefined(name) && JS_DefinePropertyValue(ctx, e, JS_ATOM_name, js_dup(name), flags) < 0)
        goto fail;
    JS_VALUE_GET_OBJ(e)->u.object_data = js_dup(stack);
    goto done;
fail:
    JS_FreeValue(ctx, e);
    e = JS_EXCEPTION;
done:
    JS_FreeValue(ctx, name);
    JS_FreeValue(ctx, message);
    JS_FreeValue(ctx, stack);
    return e;
}
