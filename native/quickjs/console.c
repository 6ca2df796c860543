/* The two console streams: the first half of a run's cap goes out as `log` messages, what comes later into a ring that
 * keeps the last half of the cap and goes out as one `tail` message when the run ends. */

typedef struct stream {
    uint32_t half;             /* half of the cap, in bytes; each text counts one more for its newline */
    uint32_t head;             /* bytes of the head used */
    bool closed;               /* the head is full: everything goes to the ring */
    uint8_t *ring;             /* `half` bytes, lines with their newline, wrapping around */
    uint32_t start, used;
    uint32_t lines;            /* dropped */
    uint64_t bytes;            /* dropped */
} stream;

static stream streams[3]; /* 1: stdout, 2: stderr */
static uint32_t group_indent;

static void console_reset(uint32_t cap)
{
    for (int i = 1; i <= 2; i++) {
        slab_free(NULL, streams[i].ring);
        memset(&streams[i], 0, sizeof(stream));
        streams[i].half = cap / 2;
    }
    group_indent = 0;
}

static void emit_log(int s, const uint8_t *text, uint32_t n)
{
    message m;
    message_begin(&m, "log");
    buf_str(m.b, s == 2 ? ",\"s\":2,\"m\":\"" : ",\"s\":1,\"m\":\"");
    json_text(m.b, text, n, &m.flags);
    buf_byte(m.b, '"');
    message_end(&m);
}

static uint32_t count_newlines(const uint8_t *text, uint32_t n)
{
    uint32_t lines = 0;
    for (const uint8_t *p = text; n && (p = memchr(p, '\n', (size_t)(text + n - p))); p++)
        lines++;
    return lines;
}

static void ring_append(stream *st, const uint8_t *from, uint32_t n)
{
    uint32_t at = (st->start + st->used) % st->half, first = st->half - at < n ? st->half - at : n;
    memcpy(st->ring + at, from, first);
    memcpy(st->ring, from + first, n - first);
    st->used += n;
}

static void ring_drop_line(stream *st)
{
    uint32_t first = st->half - st->start < st->used ? st->half - st->start : st->used;
    const uint8_t *end = memchr(st->ring + st->start, '\n', first);
    uint32_t n = first;
    if (end)
        n = (uint32_t)(end - (st->ring + st->start)) + 1;
    else if (st->used > first) /* goes on at the beginning of the ring; every line in it has its newline */
        n = first + (uint32_t)((const uint8_t *)memchr(st->ring, '\n', st->used - first) - st->ring) + 1;
    st->lines++;
    st->bytes += n;
    st->start = (st->start + n) % st->half;
    st->used -= n;
}

static void ring_put(stream *st, const uint8_t *text, uint32_t n)
{
    if (!st->ring && st->half > 8)
        st->ring = slab_malloc(NULL, st->half);
    if (!st->ring) { /* a cap of nearly nothing, or no memory: only count */
        st->lines += count_newlines(text, n) + 1;
        st->bytes += n + 1;
        return;
    }
    if (n + 1 > st->half) { /* keep its end, from a character boundary on */
        uint32_t cut = n + 1 - st->half;
        while (cut < n && (text[cut] & 0xC0) == 0x80)
            cut++;
        st->lines += count_newlines(text, cut);
        st->bytes += cut;
        text += cut;
        n -= cut;
    }
    while (st->used + n + 1 > st->half)
        ring_drop_line(st);
    ring_append(st, text, n);
    ring_append(st, (const uint8_t *)"\n", 1);
}

/* One console call's text (WTF-8, no final newline). */
static void console_text(int s, const uint8_t *text, uint32_t n)
{
    stream *st = &streams[s];
    if (!st->closed && n < st->half - st->head) {
        st->head += n + 1;
        emit_log(s, text, n);
        return;
    }
    if (!st->closed && n + 1 > st->half && st->half - st->head > 64) { /* will be cut anyway: show its beginning too */
        uint32_t room = st->half - st->head - 1;
        while (room && (text[room] & 0xC0) == 0x80)
            room--;
        emit_log(s, text, room);
        text += room;
        n -= room;
    }
    st->closed = true;
    ring_put(st, text, n);
}

static void console_line(int s, const char *text) { console_text(s, (const uint8_t *)text, (uint32_t)strlen(text)); }

static void stream_flush(int s)
{
    stream *st = &streams[s];
    if (!st->used && !st->lines && !st->bytes)
        return;
    message m;
    message_begin(&m, "tail");
    buf_str(m.b, s == 2 ? ",\"s\":2,\"m\":\"" : ",\"s\":1,\"m\":\"");
    uint32_t n = st->used ? st->used - 1 : 0, first = st->half - st->start < n ? st->half - st->start : n;
    buf flat = {0};
    if (n && first < n) { /* wrapped: make it flat, a character may lie across the seam */
        buf_put(&flat, st->ring + st->start, first);
        buf_put(&flat, st->ring, n - first);
    }
    if (flat.len == n)
        json_text(m.b, flat.p, n, &m.flags);
    else
        json_text(m.b, st->ring + st->start, first, &m.flags);
    buf_free(&flat);
    char tail[80];
    snprintf(tail, sizeof tail, "\",\"lines\":%u,\"bytes\":%llu", (unsigned)st->lines, (unsigned long long)st->bytes);
    buf_str(m.b, tail);
    message_end(&m);
    slab_free(NULL, st->ring);
    st->ring = NULL;
    st->start = st->used = st->lines = 0;
    st->bytes = 0;
}

static void console_flush(void)
{
    stream_flush(1);
    stream_flush(2);
}

/* A primitive as console.log shows it at top level. False for objects. */
static bool primitive_text(buf *to, JSValueConst v)
{
    char digits[64];
    switch (JS_VALUE_GET_NORM_TAG(v)) {
    case JS_TAG_STRING:
    case JS_TAG_STRING_ROPE:
        text_string(ctx, to, v, UINT32_MAX);
        return true;
    case JS_TAG_INT:
        buf_put(to, digits, (uint32_t)i32toa(digits, JS_VALUE_GET_INT(v)));
        return true;
    case JS_TAG_FLOAT64: {
        JSDTOATempMem tmp;
        int flags = JS_DTOA_FORMAT_FREE | JS_DTOA_MINUS_ZERO;
        buf_put(to, digits, (uint32_t)js_dtoa(digits, JS_VALUE_GET_FLOAT64(v), 10, 0, flags, &tmp));
        return true;
    }
    case JS_TAG_BOOL:
        buf_str(to, JS_VALUE_GET_BOOL(v) ? "true" : "false");
        return true;
    case JS_TAG_NULL:
        buf_lit(to, "null");
        return true;
    case JS_TAG_UNDEFINED:
        buf_lit(to, "undefined");
        return true;
    default:
        return false;
    }
}

static bool has_percent(JSValueConst v)
{
    JSValue s = flat_string(ctx, v);
    if (JS_IsException(s))
        return true;
    JSString *p = JS_VALUE_GET_STRING(s);
    bool found = false;
    if (p->is_wide_char) {
        for (uint32_t i = 0; i < p->len && !found; i++)
            found = str16(p)[i] == '%';
    } else {
        found = memchr(str8(p), '%', p->len) != NULL;
    }
    JS_FreeValue(ctx, s);
    return found;
}

/* All arguments are primitives and nothing is to be formatted: no JavaScript at all. */
static bool plain_line(buf *line, int argc, JSValueConst *argv)
{
    if (group_indent || (argc > 1 && is_string(argv[0]) && has_percent(argv[0])))
        return false;
    for (int i = 0; i < argc; i++) {
        int tag = JS_VALUE_GET_NORM_TAG(argv[i]);
        if (tag == JS_TAG_OBJECT || tag == JS_TAG_SYMBOL || tag == JS_TAG_BIG_INT || tag == JS_TAG_SHORT_BIG_INT)
            return false;
    }
    for (int i = 0; i < argc; i++) {
        if (i)
            buf_byte(line, ' ');
        primitive_text(line, argv[i]);
    }
    return true;
}

/* console.log and its kin; magic is the stream. */
static JSValue console_log(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int magic)
{
    (void)this_val;
    buf line = {0};
    if (!plain_line(&line, argc, argv)) {
        JSValue text = JS_Call(c, session.formatter, JS_UNDEFINED, argc, argv);
        if (!is_string(text)) { /* out of memory, of stack, or interrupted */
            JS_FreeValue(c, text);
            return JS_EXCEPTION;
        }
        text_string(c, &line, text, UINT32_MAX);
        JS_FreeValue(c, text);
    }
    if (line.failed) {
        bool too_long = line.too_long;
        buf_free(&line);
        return too_long ? JS_ThrowRangeError(c, "a console call of more than 63 MiB") : JS_ThrowOutOfMemory(c);
    }
    console_text(magic, line.p, line.len);
    buf_free(&line);
    return JS_UNDEFINED;
}
