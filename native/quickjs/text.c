/* Growable byte buffers, and strings into JSON.
 *
 * Text is UTF-8 on its way out, with lone surrogates kept as WTF-8 inside of the guest and written as \uXXXX escapes in
 * JSON (flag 2 of a message), so that any JavaScript string crosses unchanged. */

enum { FLAG_TAGGED = 1, FLAG_SURROGATES = 2 };

/* The host refuses frames above 64 MiB; stop a little before. */
enum { OUTPUT_MAX = 63 << 20 };

typedef struct buf {
    uint8_t *p;
    uint32_t len, cap;
    bool failed;   /* an allocation failed: what is in it is incomplete */
    bool too_long; /* the same, because it passed OUTPUT_MAX */
} buf;

/* The output of a step starts in static memory and moves to the heap when it outgrows it. */
static uint8_t out_static[65536];

static bool buf_grow(buf *b, uint32_t more)
{
    if (b->failed)
        return false;
    uint64_t need = (uint64_t)b->len + more, cap = (uint64_t)b->cap * 2;
    if (need > OUTPUT_MAX) {
        b->failed = b->too_long = true;
        return false;
    }
    if (cap < need)
        cap = need;
    if (cap < 256)
        cap = 256;
    uint8_t *p;
    if (b->p == out_static) {
        p = slab_malloc(NULL, cap);
        if (p) {
            memcpy(p, b->p, b->len);
            memset(b->p, 0, b->len);
        }
    } else {
        p = slab_realloc(NULL, b->p, cap);
    }
    if (!p) {
        b->failed = true;
        return false;
    }
    b->p = p;
    b->cap = (uint32_t)slab_usable_size(p);
    return true;
}

static inline bool buf_room(buf *b, uint32_t more) { return b->cap - b->len >= more || buf_grow(b, more); }

static void buf_free(buf *b)
{
    if (b->p == out_static)
        memset(b->p, 0, b->len);
    else
        slab_free(NULL, b->p);
    memset(b, 0, sizeof *b);
}

static inline void buf_put(buf *b, const void *data, uint32_t n)
{
    if (buf_room(b, n)) {
        memcpy(b->p + b->len, data, n);
        b->len += n;
    }
}

static inline void buf_byte(buf *b, uint8_t c)
{
    if (buf_room(b, 1))
        b->p[b->len++] = c;
}

#define buf_lit(b, text) buf_put(b, text, sizeof(text) - 1)
static void buf_str(buf *b, const char *text) { buf_put(b, text, (uint32_t)strlen(text)); }

static void buf_u32(buf *b, uint32_t n)
{
    char digits[12];
    buf_put(b, digits, (uint32_t)u32toa(digits, n));
}

/* A finite double as a JSON number. An integer above 2^53-1 gets ".0", so that a reader makes it a float again. */
static void buf_double(buf *b, double d)
{
    char digits[64];
    if (d == (double)(int64_t)d && fabs(d) <= 9007199254740991.0) {
        buf_put(b, digits, (uint32_t)i64toa(digits, (int64_t)d));
        return;
    }
    JSDTOATempMem tmp;
    int n = js_dtoa(digits, d, 10, 0, JS_DTOA_FORMAT_FREE, &tmp);
    buf_put(b, digits, (uint32_t)n);
    if (!memchr(digits, '.', (size_t)n) && !memchr(digits, 'e', (size_t)n))
        buf_lit(b, ".0");
}

static uint32_t put_utf8(uint8_t *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (uint8_t)(0xC0 | c >> 6);
        to[1] = (uint8_t)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (uint8_t)(0xE0 | c >> 12);
        to[1] = (uint8_t)(0x80 | (c >> 6 & 63));
        to[2] = (uint8_t)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (uint8_t)(0xF0 | c >> 18);
    to[1] = (uint8_t)(0x80 | (c >> 12 & 63));
    to[2] = (uint8_t)(0x80 | (c >> 6 & 63));
    to[3] = (uint8_t)(0x80 | (c & 63));
    return 4;
}

/* How many bytes from `s` on can be copied into a JSON string as they are: eight at a time, then one by one. */
static inline uint32_t plain_run(const uint8_t *s, uint32_t n)
{
    const uint64_t ones = 0x0101010101010101ull, high = 0x8080808080808080ull;
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t v;
        memcpy(&v, s + i, 8);
        uint64_t quote = v ^ (ones * '"'), slash = v ^ (ones * '\\');
        uint64_t bad = v | (v - ones * 0x20) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
        if (bad & high)
            break;
    }
    while (i < n && s[i] >= 0x20 && s[i] < 0x80 && s[i] != '"' && s[i] != '\\')
        i++;
    return i;
}

static const char hex_digits[] = "0123456789abcdef";

static void json_escape_char(buf *b, uint32_t c)
{
    static const char shorts[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\";
    const char *at = c ? memchr(shorts, (int)c, sizeof shorts - 1) : NULL;
    if (c < 0x80 && at) {
        char pair[2] = {'\\', letters[at - shorts]};
        buf_put(b, pair, 2);
        return;
    }
    char esc[6] = {'\\', 'u', hex_digits[c >> 12 & 15], hex_digits[c >> 8 & 15], hex_digits[c >> 4 & 15], hex_digits[c & 15]};
    buf_put(b, esc, 6);
}

/* WTF-8 text as the inside of a JSON string. */
static void json_text(buf *b, const uint8_t *s, uint32_t n, int *flags)
{
    while (n) {
        uint32_t run = plain_run(s, n);
        while (run < n && s[run] >= 0x80 && !(s[run] == 0xED && run + 1 < n && s[run + 1] >= 0xA0))
            run++;
        if (run) {
            buf_put(b, s, run);
        } else if (*s == 0xED && n >= 3) { /* a surrogate on its own */
            json_escape_char(b, 0xD000 | (uint32_t)(s[1] & 63) << 6 | (s[2] & 63));
            *flags |= FLAG_SURROGATES;
            run = 3;
        } else {
            json_escape_char(b, *s);
            run = 1;
        }
        s += run;
        n -= run;
    }
}

static void json_latin1(buf *b, const uint8_t *s, uint32_t n)
{
    while (n) {
        uint32_t run = plain_run(s, n);
        if (run) {
            buf_put(b, s, run);
        } else if (*s >= 0x80) {
            if (!buf_room(b, 2 * n))
                return;
            while (run < n && s[run] >= 0x80)
                b->len += put_utf8(b->p + b->len, s[run++]);
        } else {
            json_escape_char(b, *s);
            run = 1;
        }
        s += run;
        n -= run;
    }
}

static inline bool is_high(uint32_t c) { return (c & 0xFC00) == 0xD800; }
static inline bool is_low(uint32_t c) { return (c & 0xFC00) == 0xDC00; }

static void json_utf16(buf *b, const uint16_t *s, uint32_t n, int *flags)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = s[i];
        if (c < 0x20 || c == '"' || c == '\\') {
            json_escape_char(b, c);
        } else if ((c & 0xF800) == 0xD800) {
            if (is_high(c) && i + 1 < n && is_low(s[i + 1])) {
                c = 0x10000 + ((c & 0x3FF) << 10) + (s[++i] & 0x3FF);
                if (buf_room(b, 4))
                    b->len += put_utf8(b->p + b->len, c);
            } else {
                json_escape_char(b, c);
                *flags |= FLAG_SURROGATES;
            }
        } else if (buf_room(b, 3)) {
            b->len += put_utf8(b->p + b->len, c);
        }
    }
}

/* A string value, flat. The caller frees it; an exception is pending when it is none. */
static JSValue flat_string(JSContext *ctx, JSValueConst v)
{
    if (JS_VALUE_GET_TAG(v) == JS_TAG_STRING_ROPE)
        return js_linearize_string_rope(ctx, v);
    return js_dup(v);
}

static bool is_string(JSValueConst v)
{
    int tag = JS_VALUE_GET_TAG(v);
    return tag == JS_TAG_STRING || tag == JS_TAG_STRING_ROPE;
}

/* "..." with escapes. -1 with an exception when a rope cannot be flattened. */
static int json_string(JSContext *ctx, buf *b, JSValueConst v, int *flags)
{
    JSValue s = flat_string(ctx, v);
    if (JS_IsException(s))
        return -1;
    JSString *p = JS_VALUE_GET_STRING(s);
    buf_byte(b, '"');
    if (p->is_wide_char)
        json_utf16(b, str16(p), p->len, flags);
    else
        json_latin1(b, str8(p), p->len);
    buf_byte(b, '"');
    JS_FreeValue(ctx, s);
    return 0;
}

/* The same string as WTF-8, at most `limit` characters of it. */
static int text_string(JSContext *ctx, buf *b, JSValueConst v, uint32_t limit)
{
    JSValue s = flat_string(ctx, v);
    if (JS_IsException(s))
        return -1;
    JSString *p = JS_VALUE_GET_STRING(s);
    uint32_t n = p->len < limit ? p->len : limit;
    if (p->is_wide_char) {
        const uint16_t *w = str16(p);
        for (uint32_t i = 0; i < n && buf_room(b, 4); i++) {
            uint32_t c = w[i];
            if (is_high(c) && i + 1 < n && is_low(w[i + 1]))
                c = 0x10000 + ((c & 0x3FF) << 10) + (w[++i] & 0x3FF);
            b->len += put_utf8(b->p + b->len, c);
        }
    } else {
        const uint8_t *w = str8(p);
        uint32_t i = 0;
        while (i < n) {
            uint32_t run = 0;
            while (i + run < n && w[i + run] < 0x80)
                run++;
            buf_put(b, w + i, run);
            i += run;
            if (i < n && buf_room(b, 2))
                b->len += put_utf8(b->p + b->len, w[i++]);
            else if (b->failed)
                break;
        }
    }
    JS_FreeValue(ctx, s);
    return 0;
}

static JSValue buf_to_string(JSContext *ctx, const buf *b)
{
    if (b->failed)
        return JS_ThrowOutOfMemory(ctx);
    return b->len ? JS_NewStringLen(ctx, (const char *)b->p, b->len) : js_empty_string(ctx->rt);
}
