/* What the guest says to the host: `u32 length + JSON` messages in one buffer, read by the host after the step.
 *
 * A getter that runs while a value is being encoded may call a tool or log, in the middle of an open message. Such inner
 * messages are built apart and put *before* the open one, so every message is whole and their order is that of their
 * completion. */

typedef struct io_block { /* read and written by the host: see guest.py */
    uint32_t in_ptr, in_cap;
    uint32_t out_ptr, out_len;
    uint32_t flag_ptr;
    uint32_t clock_reads;
    uint32_t heap_pages; /* 4 KiB pages of memory in use: the size of an image */
} io_block;

static io_block io;
static buf out;
static bool message_open;
static uint32_t open_start; /* where the open message begins in `out` */

typedef struct message {
    buf own; /* used when another message is open */
    buf *b;
    uint32_t start, flag_at;
    int flags;
} message;

static void out_publish(uint32_t len)
{
    io.out_ptr = (uint32_t)(uintptr_t)out.p;
    io.out_len = len;
}

/* Begin `{"t":"<type>","f":_`. */
static void message_begin(message *m, const char *type)
{
    memset(m, 0, sizeof *m);
    if (message_open) {
        m->b = &m->own;
    } else {
        m->b = &out;
        message_open = true;
        open_start = out.len;
        m->start = out.len;
    }
    buf_put(m->b, "\0\0\0", 4);
    buf_lit(m->b, "{\"t\":\"");
    buf_str(m->b, type);
    buf_lit(m->b, "\",\"f\":0");
    m->flag_at = m->b->len - 1;
}

static uint32_t message_start(const message *m) { return m->b == &out ? open_start : 0; }

static void message_drop(message *m)
{
    if (m->b == &out) {
        out.len = open_start;
        out.failed = out.too_long = false;
        message_open = false;
        out_publish(out.len);
    } else {
        buf_free(&m->own);
    }
}

/* False when it did not fit; the message is gone then. */
static bool message_end(message *m)
{
    buf *b = m->b;
    buf_byte(b, '}');
    if (b->failed) {
        message_drop(m);
        return false;
    }
    uint32_t start = message_start(m), n = b->len - start - 4;
    /* what was inserted before us moved the place of the flags too */
    b->p[start + (m->flag_at - m->start)] = (uint8_t)('0' + m->flags);
    memcpy(b->p + start, &n, 4);
    if (b == &out) {
        message_open = false;
        out_publish(out.len);
        return true;
    }
    bool fits = buf_room(&out, b->len);
    if (fits) {
        memmove(out.p + open_start + b->len, out.p + open_start, out.len - open_start);
        memcpy(out.p + open_start, b->p, b->len);
        out.len += b->len;
        open_start += b->len;
        out_publish(open_start);
    }
    buf_free(b);
    return fits;
}

static void out_reset(void)
{
    if (out.p != out_static) {
        buf_free(&out);
        out.p = out_static;
        out.cap = sizeof out_static;
    } else {
        memset(out_static, 0, out.len); /* what was said last time is not part of the session's image */
    }
    out.len = 0;
    out.failed = out.too_long = false;
    message_open = false;
    out_publish(0);
}
