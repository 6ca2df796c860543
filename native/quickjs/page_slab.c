/* The allocator under the engine and under our own buffers.
 *
 * A session's image is the set of 4 KiB pages that differ from the base image, so what matters is that memory which is
 * free is *zero*: a freed page is cleared and leaves the image, whatever was allocated in the meantime. (libc's allocator
 * never does that: 10,000 calls at once left 15 MB in the image.)
 *
 *   - spans of whole pages, found first-fit in a bitmap (64 pages per word, so even 1 GiB is a short scan);
 *   - blocks of 513..2032 bytes, several to a page. Smaller ones do not reach us: quickjs 0.17 has its own arenas, which
 *     ask for one page at a time and give it back when it is empty.
 *
 * All bookkeeping is outside of the pages, except for the 16-byte head of a page of blocks. */

enum {
    PAGE = 4096,
    MAX_PAGES = 1 << 19, /* 2 GiB */
    BITMAP_WORDS = MAX_PAGES / 64,
    WASM_PAGE = 65536,
    RESERVE_PAGES = 32, /* given back when memory is out, so that the error itself can be made and reported */
};

typedef struct block_page {
    struct block_page *next, *prev; /* of the pages of this class with a free block */
    uint16_t free;                  /* offset of the first free block, 0 when none */
    uint16_t used;                  /* blocks in use */
    uint16_t fresh;                 /* blocks ever handed out */
    uint16_t cls;
} block_page;

static const uint16_t block_sizes[] = {576, 672, 816, 1008, 1360, 2032};
enum { BLOCK_CLASSES = 6, BLOCK_MAX = 2032 };

/* page_kind: what the first page of an allocation is */
enum { KIND_NONE = 0, KIND_SPAN = 1, KIND_BLOCKS = 2 };

static uint64_t page_free[BITMAP_WORDS]; /* 1: free (and zero) */
static uint64_t page_last[BITMAP_WORDS]; /* 1: the last page of a span */
static uint8_t page_kind[MAX_PAGES];
static uint32_t heap_end;   /* first page that does not exist yet */
static uint32_t first_word; /* no free page in any word before this one */
static block_page *block_heads[BLOCK_CLASSES];
static uint32_t reserve_page;
static bool alloc_failed; /* since the run began */

static inline uint32_t bit_get(const uint64_t *map, uint32_t i) { return (map[i >> 6] >> (i & 63)) & 1; }
static inline void bit_set(uint64_t *map, uint32_t i) { map[i >> 6] |= 1ull << (i & 63); }
static inline void bit_clear(uint64_t *map, uint32_t i) { map[i >> 6] &= ~(1ull << (i & 63)); }

static void bits_fill(uint64_t *map, uint32_t start, uint32_t n, bool value)
{
    while (n) {
        uint32_t bit = start & 63, k = 64 - bit < n ? 64 - bit : n;
        uint64_t mask = (k == 64 ? ~0ull : (1ull << k) - 1) << bit;
        if (value)
            map[start >> 6] |= mask;
        else
            map[start >> 6] &= ~mask;
        start += k;
        n -= k;
    }
}

/* The first of `n` consecutive free pages, 0 when there are none. */
static uint32_t find_free_run(uint32_t n)
{
    uint32_t words = (heap_end + 63) >> 6, run = 0;
    while (first_word < words && page_free[first_word] == 0)
        first_word++;
    for (uint32_t w = first_word; w < words; w++) {
        uint64_t map = page_free[w];
        uint32_t at = 0;
        while (at < 64) {
            uint64_t rest = map >> at;
            if (!rest) {
                run = 0;
                break;
            }
            uint32_t skip = (uint32_t)__builtin_ctzll(rest);
            if (skip) {
                run = 0;
                at += skip;
                rest >>= skip;
            }
            uint32_t ones = ~rest ? (uint32_t)__builtin_ctzll(~rest) : 64;
            if (ones > 64 - at)
                ones = 64 - at;
            run += ones;
            at += ones;
            if (run >= n)
                return w * 64 + at - run;
            if (at < 64)
                run = 0;
        }
    }
    return 0;
}

/* Add `want` wasm pages to the heap. A host that reset this instance to its base image leaves memory of before (zero again)
 * beyond heap_end: that is taken first, so the heap grows in the same steps as in a fresh instance. */
static bool heap_extend(uint32_t want)
{
    uint32_t n = want * (WASM_PAGE / PAGE), have = (uint32_t)__builtin_wasm_memory_size(0) * (WASM_PAGE / PAGE) - heap_end;
    if (heap_end + n > MAX_PAGES)
        return false;
    if (have < n && __builtin_wasm_memory_grow(0, want - have / (WASM_PAGE / PAGE)) == (size_t)-1)
        return false;
    bits_fill(page_free, heap_end, n, true);
    if (heap_end >> 6 < first_word)
        first_word = heap_end >> 6;
    heap_end += n;
    return true;
}

static bool heap_grow(uint32_t pages)
{
    uint32_t exact = (pages + WASM_PAGE / PAGE - 1) / (WASM_PAGE / PAGE);
    uint32_t want = heap_end / (WASM_PAGE / PAGE) / 8; /* an eighth of what there is, so that growing stays linear */
    if (want < 8)
        want = 8;
    if (want < exact)
        want = exact;
    return heap_extend(want) || (want > exact && heap_extend(exact));
}

static uint32_t pages_alloc(uint32_t n)
{
    uint32_t p = find_free_run(n);
    if (!p && (!heap_grow(n) || !(p = find_free_run(n))))
        return 0;
    bits_fill(page_free, p, n, false);
    bit_set(page_last, p + n - 1);
    page_kind[p] = KIND_SPAN;
    return p;
}

static uint32_t span_length(uint32_t p)
{
    uint32_t w = p >> 6;
    uint64_t map = page_last[w] & (~0ull << (p & 63));
    while (!map)
        map = page_last[++w];
    return w * 64 + (uint32_t)__builtin_ctzll(map) - p + 1;
}

static void pages_release(uint32_t p, uint32_t n)
{
    memset((void *)(uintptr_t)(p * PAGE), 0, (size_t)n * PAGE);
    bits_fill(page_free, p, n, true);
    if (p >> 6 < first_word)
        first_word = p >> 6;
}

static void span_free(uint32_t p)
{
    uint32_t n = span_length(p);
    bit_clear(page_last, p + n - 1);
    page_kind[p] = KIND_NONE;
    pages_release(p, n);
}

/* Out of memory: remember it, and give the reserve back so that the error can be thrown and reported. */
static void *note_failure(void)
{
    alloc_failed = true;
    if (reserve_page) {
        uint32_t p = reserve_page;
        reserve_page = 0;
        span_free(p);
    }
    return NULL;
}

static void reserve_take(void)
{
    if (!reserve_page) {
        uint32_t p = find_free_run(RESERVE_PAGES);
        if (p || (heap_grow(RESERVE_PAGES) && (p = find_free_run(RESERVE_PAGES))))
            reserve_page = pages_alloc(RESERVE_PAGES);
    }
}

static void block_list_remove(block_page *b)
{
    if (b->prev)
        b->prev->next = b->next;
    else
        block_heads[b->cls] = b->next;
    if (b->next)
        b->next->prev = b->prev;
    b->next = b->prev = NULL;
}

static void block_list_add(block_page *b)
{
    b->prev = NULL;
    b->next = block_heads[b->cls];
    if (b->next)
        b->next->prev = b;
    block_heads[b->cls] = b;
}

static inline uint32_t blocks_per_page(uint32_t cls) { return (PAGE - sizeof(block_page)) / block_sizes[cls]; }

static void *block_alloc(size_t size)
{
    uint32_t cls = 0;
    while (block_sizes[cls] < size)
        cls++;
    block_page *b = block_heads[cls];
    if (!b) {
        uint32_t p = pages_alloc(1);
        if (!p)
            return note_failure();
        page_kind[p] = KIND_BLOCKS;
        b = (block_page *)(uintptr_t)(p * PAGE);
        b->cls = (uint16_t)cls;
        block_list_add(b);
    }
    uint8_t *at;
    if (b->free) {
        at = (uint8_t *)b + b->free;
        memcpy(&b->free, at, sizeof b->free);
    } else {
        at = (uint8_t *)b + sizeof(block_page) + (size_t)block_sizes[cls] * b->fresh++;
    }
    if (++b->used == blocks_per_page(cls))
        block_list_remove(b);
    return at;
}

static void block_free(block_page *b, void *ptr)
{
    uint16_t at = (uint16_t)((uint8_t *)ptr - (uint8_t *)b);
    memcpy(ptr, &b->free, sizeof b->free);
    b->free = at;
    if (b->used-- == blocks_per_page(b->cls))
        block_list_add(b);
    if (!b->used) {
        uint32_t p = (uint32_t)(uintptr_t)b / PAGE;
        block_list_remove(b);
        span_free(p);
    }
}

static inline uint32_t pages_for(size_t size) { return (uint32_t)((size + PAGE - 1) / PAGE); }

static void *slab_malloc(void *opaque, size_t size)
{
    (void)opaque;
    if (size <= BLOCK_MAX)
        return block_alloc(size);
    if (size > (size_t)MAX_PAGES * PAGE - PAGE)
        return note_failure();
    uint32_t p = pages_alloc(pages_for(size));
    return p ? (void *)(uintptr_t)(p * PAGE) : note_failure();
}

static void slab_free(void *opaque, void *ptr)
{
    (void)opaque;
    if (!ptr)
        return;
    uint32_t p = (uint32_t)(uintptr_t)ptr / PAGE;
    if (page_kind[p] == KIND_SPAN)
        span_free(p);
    else if (page_kind[p] == KIND_BLOCKS)
        block_free((block_page *)(uintptr_t)(p * PAGE), ptr);
    else
        __builtin_trap(); /* a wild free: never go on with a broken heap */
}

static size_t slab_usable_size(const void *ptr)
{
    if (!ptr)
        return 0;
    uint32_t p = (uint32_t)(uintptr_t)ptr / PAGE;
    if (page_kind[p] == KIND_SPAN)
        return (size_t)span_length(p) * PAGE;
    return block_sizes[((block_page *)(uintptr_t)(p * PAGE))->cls];
}

static void *slab_calloc(void *opaque, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return note_failure();
    void *ptr = slab_malloc(opaque, total);
    if (ptr && total <= BLOCK_MAX) /* free pages are zero already */
        memset(ptr, 0, total);
    return ptr;
}

/* Grow or shrink a span where it is; false when its neighbour is taken. */
static bool span_resize(uint32_t p, uint32_t have, uint32_t want)
{
    if (want > have) {
        if (p + want > heap_end)
            return false;
        for (uint32_t i = p + have; i < p + want; i++)
            if (!bit_get(page_free, i))
                return false;
        bits_fill(page_free, p + have, want - have, false);
    }
    bit_clear(page_last, p + have - 1);
    bit_set(page_last, p + want - 1);
    if (want < have)
        pages_release(p + want, have - want);
    return true;
}

static void *slab_realloc(void *opaque, void *ptr, size_t size)
{
    if (!ptr)
        return slab_malloc(opaque, size);
    uint32_t p = (uint32_t)(uintptr_t)ptr / PAGE;
    size_t have = slab_usable_size(ptr);
    if (page_kind[p] == KIND_SPAN) {
        if (size > BLOCK_MAX && size <= (size_t)MAX_PAGES * PAGE - PAGE) {
            uint32_t want = pages_for(size), n = (uint32_t)(have / PAGE);
            if (want == n || span_resize(p, n, want))
                return ptr;
        }
    } else if (size <= have && size > have / 2) {
        return ptr;
    }
    void *fresh = slab_malloc(opaque, size);
    if (!fresh)
        return NULL;
    memcpy(fresh, ptr, have < size ? have : size);
    slab_free(opaque, ptr);
    return fresh;
}

static void heap_init(void)
{
    uint32_t size = (uint32_t)__builtin_wasm_memory_size(0) * (WASM_PAGE / PAGE);
    extern unsigned char __heap_base;
    uint32_t start = ((uint32_t)(uintptr_t)&__heap_base + PAGE - 1) / PAGE;
    heap_end = size;
    first_word = start >> 6;
    if (start < size)
        bits_fill(page_free, start, size - start, true);
    reserve_take();
}
