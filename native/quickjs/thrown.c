/* Thrown things as text. Nothing of the guest runs: names, messages and stacks are read as data only. */

enum { MAX_TEXT = 16384, MAX_CAUSES = 3, MAX_LISTED = 3 };

static void thrown_text(buf *to, JSValueConst v, int causes);

static void value_text(buf *to, JSValue v)
{
    if (is_string(v))
        text_string(ctx, to, v, MAX_TEXT);
    else
        JS_FreeValue(ctx, JS_GetException(ctx));
    JS_FreeValue(ctx, v);
}

static bool is_out_of_memory(JSValueConst v)
{
    if (!alloc_failed)
        return false;
    JSObject *p = as_object(v);
    if (!p)
        return JS_IsNull(v) || JS_IsUninitialized(v); /* no memory for the error itself */
    if (p->class_id != JS_CLASS_ERROR || p->shape->proto != JS_VALUE_GET_OBJ(ctx->native_error_proto[JS_INTERNAL_ERROR]))
        return false;
    JSValueConst message = own_text(ctx, p, JS_ATOM_message);
    if (JS_IsUninitialized(message))
        return true; /* no memory for its text either */
    if (JS_VALUE_GET_TAG(message) != JS_TAG_STRING)
        return false;
    JSString *s = JS_VALUE_GET_STRING(message);
    if (s->is_wide_char)
        return false;
    static const char usual[] = "out of memory", last[] = "Invalid error message"; /* what the engine says when the usual one did not fit */
    return (s->len == sizeof usual - 1 && !memcmp(str8(s), usual, s->len)) || (s->len == sizeof last - 1 && !memcmp(str8(s), last, s->len));
}

/* A value that is no error: what our own inspector makes of it (it reads data only), on one line. */
static void inspected_text(buf *to, JSValueConst v)
{
    if (!JS_IsUndefined(session.inspector)) {
        JSValue s = JS_Call(ctx, session.inspector, JS_UNDEFINED, 1, &v);
        if (is_string(s)) {
            value_text(to, s);
            return;
        }
        JS_FreeValue(ctx, s);
        JS_FreeValue(ctx, JS_GetException(ctx));
    }
    buf_str(to, as_object(v) ? "[object]" : "[value]");
}

static void cause_text(buf *to, JSObject *p, int causes)
{
    JSAtom atom = JS_NewAtom(ctx, "cause");
    JSValueConst cause = own_data(ctx, p, atom);
    JS_FreeAtom(ctx, atom);
    if (JS_IsUninitialized(cause) || JS_IsUndefined(cause))
        return;
    buf_lit(to, " [cause: ");
    if (causes < MAX_CAUSES)
        thrown_text(to, cause, causes + 1);
    else
        buf_lit(to, "\xE2\x80\xA6");
    buf_byte(to, ']');
}

/* The first few errors of an AggregateError: "All promises were rejected" alone helps nobody. */
static void aggregate_text(buf *to, JSObject *p, int causes)
{
    JSAtom atom = JS_NewAtom(ctx, "errors");
    JSObject *list = as_object(own_data(ctx, p, atom));
    JS_FreeAtom(ctx, atom);
    if (!list || list->class_id != JS_CLASS_ARRAY || !list->fast_array || causes >= MAX_CAUSES)
        return;
    uint32_t n = list->u.array.count;
    buf_lit(to, " [errors: ");
    for (uint32_t i = 0; i < n && i < MAX_LISTED; i++) {
        if (i)
            buf_lit(to, "; ");
        thrown_text(to, list->u.array.u.values[i], causes + 1);
    }
    if (n > MAX_LISTED)
        buf_lit(to, "; \xE2\x80\xA6");
    buf_byte(to, ']');
}

static void message_text(buf *to, JSValueConst v, int causes)
{
    JSObject *p = as_object(v);
    if (p && is_error_object(p)) {
        value_text(to, error_message(ctx, p));
        aggregate_text(to, p, causes);
        cause_text(to, p, causes);
    } else if (is_string(v)) {
        text_string(ctx, to, v, MAX_TEXT);
    } else {
        inspected_text(to, v);
    }
}

/* "TypeError: message [cause: ...]" */
static void thrown_text(buf *to, JSValueConst v, int causes)
{
    JSObject *p = as_object(v);
    if (p && is_error_object(p)) {
        uint32_t start = to->len;
        value_text(to, error_name(ctx, p));
        uint32_t middle = to->len;
        if (middle > start)
            buf_lit(to, ": ");
        uint32_t end = to->len;
        message_text(to, v, causes);
        if (to->len == end && middle > start)
            to->len = middle; /* no message: the name alone */
        return;
    }
    message_text(to, v, causes);
}

/* Frames of a stack that are the guest's: our own bootstrap code means nothing to a reader. */
static void stack_text(buf *to, const char *s, size_t n)
{
    const char *end = s + n;
    while (s < end && to->len < MAX_TEXT) {
        const char *line_end = memchr(s, '\n', (size_t)(end - s));
        size_t k = (size_t)((line_end ? line_end : end) - s);
        bool ours = false;
        for (size_t i = 0; i + 6 <= k && !ours; i++)
            ours = !memcmp(s + i, "<boot/", 6);
        if (k && !ours) {
            if (to->len)
                buf_byte(to, '\n');
            buf_put(to, s, (uint32_t)k);
        }
        s += k + 1;
    }
}

/* The first "<run>:line:column" of a stack; zeros when it has none. */
static void stack_position(const buf *stack, int *line, int *col)
{
    static const char mark[] = "<run>:";
    *line = *col = 0;
    for (uint32_t i = 0; i + sizeof mark <= stack->len; i++) {
        if (memcmp(stack->p + i, mark, sizeof mark - 1))
            continue;
        uint32_t at = i + sizeof mark - 1;
        for (; at < stack->len && stack->p[at] >= '0' && stack->p[at] <= '9' && *line < 100000000; at++)
            *line = *line * 10 + (stack->p[at] - '0');
        if (at < stack->len && stack->p[at] == ':')
            for (at++; at < stack->len && stack->p[at] >= '0' && stack->p[at] <= '9' && *col < 100000000; at++)
                *col = *col * 10 + (stack->p[at] - '0');
        return;
    }
}

static void thrown_stack(buf *to, JSValueConst v)
{
    JSObject *p = as_object(v);
    if (!p || p->class_id == JS_CLASS_PROXY)
        return;
    JSValueConst stack = own_text(ctx, p, JS_ATOM_stack);
    if (JS_IsUninitialized(stack) && p->class_id == JS_CLASS_ERROR) /* `stack` is an accessor over this slot */
        stack = p->u.object_data;
    if (!is_string(stack))
        return;
    size_t n;
    const char *s = JS_ToCStringLen(ctx, &n, stack);
    if (!s) {
        JS_FreeValue(ctx, JS_GetException(ctx));
        return;
    }
    stack_text(to, s, n);
    JS_FreeCString(ctx, s);
}

static void put_field_text(message *m, const char *name, const buf *text)
{
    buf_lit(m->b, ",\"");
    buf_str(m->b, name);
    buf_lit(m->b, "\":\"");
    json_text(m->b, text->p, text->len, &m->flags);
    buf_byte(m->b, '"');
}

static bool emit_fail(const char *kind, const buf *name, const buf *text, const buf *stack, int line, int col)
{
    message m;
    message_begin(&m, "fail");
    buf_lit(m.b, ",\"kind\":\"");
    buf_str(m.b, kind);
    buf_byte(m.b, '"');
    put_field_text(&m, "name", name);
    put_field_text(&m, "message", text);
    put_field_text(&m, "stack", stack);
    buf_lit(m.b, ",\"line\":");
    buf_u32(m.b, (uint32_t)line);
    buf_lit(m.b, ",\"col\":");
    buf_u32(m.b, (uint32_t)col);
    return message_end(&m);
}

static bool emit_fail_text(const char *kind, const char *name, const buf *text)
{
    buf n = {0}, none = {0};
    buf_str(&n, name);
    bool ok = emit_fail(kind, &n, text, &none, 0, 0);
    buf_free(&n);
    return ok;
}

/* `fail` for a thrown value. */
static bool emit_thrown(JSValueConst v)
{
    buf name = {0}, text = {0}, stack = {0};
    JSObject *p = as_object(v);
    int line, col;
    if (p && is_error_object(p)) {
        value_text(&name, error_name(ctx, p));
    } else {
        buf_lit(&name, "Error");
        if (!is_string(v))
            buf_lit(&text, "thrown value: ");
    }
    message_text(&text, v, 0);
    thrown_stack(&stack, v);
    stack_position(&stack, &line, &col);
    bool ok = emit_fail("throw", &name, &text, &stack, line, col);
    buf_free(&name);
    buf_free(&text);
    buf_free(&stack);
    return ok;
}
