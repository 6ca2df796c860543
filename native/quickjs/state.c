/* The one session that an instance holds. */

static JSRuntime *rt;
static JSContext *ctx;

static struct {
    bool configured;    /* `O` was done */
    bool active;        /* between `R` and done/fail */
    bool frozen;        /* Date and performance stand still */
    uint32_t number;    /* of the run, from the host */
    JSValue promise;    /* of the run; JS_UNDEFINED when there is none */
    JSValue formatter;  /* boot: (args...) -> text of a console call */
    JSValue inspector;  /* boot: (value) -> text of a value, one line */
    JSValue reserved;   /* names that a run cannot publish */
    double clock;       /* ms since 1970: what Date says */
    double origin;      /* the clock at the start of the session */
    double timer_clock; /* the same, but it moves when frozen too: timers keep their order */
    uint64_t bytes_state; /* of the random bytes; Math.random has its own in the context */
} session = {.promise = JS_UNDEFINED, .formatter = JS_UNDEFINED, .inspector = JS_UNDEFINED, .reserved = JS_UNDEFINED};

/* The host writes 1 to its first byte to stop us. A page of its own, because it is shared with the host. */
static volatile uint8_t flag_page[PAGE] __attribute__((aligned(PAGE)));

static inline bool interrupted(void) { return flag_page[0] != 0; }
static int interrupt_handler(JSRuntime *r, void *opaque)
{
    (void)r;
    (void)opaque;
    return interrupted();
}
