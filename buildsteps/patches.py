"""Changes to QuickJS-ng's source, as text: each must apply exactly once, or the build stops.

All but `_ROOM`, `_LINES` and `_PLAIN` are for one purpose: code whose time is up must notice. The engine looks at the interrupt
flag once in 10,000 calls, jumps back and steps of *some* of its builtins (0.17.0). In the others only SIGKILL helps, which a guest
in the host's own process cannot be sent, and which costs a session its worker. So loops that looked never now do, and work that a
single call does on large data (comparing, copying, searching) counts as many steps.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ("PATCHES", "Patch", "apply")


class Patch(NamedTuple):
    """Replace `old`, which must be there exactly once."""

    file: str
    old: str
    new: str


QUICKJS = "quickjs.c"
REGEXP = "libregexp.c"
UNICODE = "libunicode.c"

_MECHANISM = (
    # Looking is cheap here (a byte of memory), and a step may be a walk of 100,000 prototypes: look at every thousandth.
    Patch(
        QUICKJS,
        "#define JS_INTERRUPT_COUNTER_INIT 10000\n",
        "#define JS_INTERRUPT_COUNTER_INIT 1000\n\n"
        "/* Work that is done without a look: it makes the next look come sooner. There is one context in a guest. */\n"
        "static JSContext *js_polled;\n"
        "static void js_charge(uint32_t work);\n"
        "static bool js_give_up(void);\n\n"
        "/* See _ROOM in buildsteps/patches.py. */\n"
        '#define JS_ROOM(size) char js_room[size]; __asm__ volatile("" : : "r"(js_room) : "memory")\n',
    ),
    Patch(
        QUICKJS,
        "    ctx->interrupt_counter = JS_INTERRUPT_COUNTER_INIT;\n    if (rt->interrupt_handler) {\n",
        "    ctx->interrupt_counter = JS_INTERRUPT_COUNTER_INIT;\n    js_polled = ctx;\n"
        "    if (rt->interrupt_handler) {\n",
    ),
    Patch(
        QUICKJS,
        "        return __js_poll_interrupts(ctx);\n    } else {\n        return 0;\n    }\n}\n",
        "        return __js_poll_interrupts(ctx);\n    } else {\n        return 0;\n    }\n}\n\n"
        "static void js_charge(uint32_t work)\n{\n"
        "    if (js_polled && js_polled->interrupt_counter > 0)\n"
        "        js_polled->interrupt_counter -= work >> 8;\n}\n\n"
        "/* For a loop that cannot throw: whether to leave it, with any result. The next look throws; the flag stays set. */\n"
        "static bool js_give_up(void)\n{\n"
        "    JSContext *ctx = js_polled;\n"
        "    if (!ctx || ctx->interrupt_counter > 0)\n        return false;\n"
        "    if (ctx->rt->interrupt_handler && ctx->rt->interrupt_handler(ctx->rt, ctx->rt->interrupt_opaque))\n"
        "        return true;\n"
        "    ctx->interrupt_counter = JS_INTERRUPT_COUNTER_INIT;\n    return false;\n}\n",
    ),
    Patch(
        QUICKJS,
        "    JSString *p;\n    p = js_alloc_string_rt(ctx->rt, max_len, is_wide_char);\n"
        "    if (unlikely(!p)) {\n        JS_Throw",
        "    JSString *p;\n    if (max_len > 4096)\n        js_charge(max_len);\n"
        "    p = js_alloc_string_rt(ctx->rt, max_len, is_wide_char);\n    if (unlikely(!p)) {\n        JS_Throw",
    ),
    Patch(
        QUICKJS,
        "    r = js_malloc(ctx, sizeof(JSBigInt) + len * sizeof(js_limb_t));\n    if (!r)\n"
        "        return NULL;\n    JS_REF_COUNT(r) = 1;\n    r->len = len;\n",
        "    if (len > 64)\n        js_charge((uint32_t)len * 64);\n"
        "    r = js_malloc(ctx, sizeof(JSBigInt) + len * sizeof(js_limb_t));\n    if (!r)\n"
        "        return NULL;\n    JS_REF_COUNT(r) = 1;\n    r->len = len;\n",
    ),
)

_ARRAYS = (
    # A sparse array has up to 2^32 indices and an array-like object 2^53: concat, copyWithin, flat, reverse, shift, slice, sort,
    # splice, unshift and others ask for each of them.
    Patch(
        QUICKJS,
        "    val = JS_EXCEPTION;\n    present = -1;\n    prop = JS_NewAtomInt64(ctx, idx);\n",
        "    val = JS_EXCEPTION;\n    present = -1;\n    if (js_poll_interrupts(ctx)) {\n"
        "        *pval = val;\n        return -1;\n    }\n"
        "    prop = JS_NewAtomInt64(ctx, idx);\n",
    ),
    # join goes on also after a failed allocation.
    Patch(
        QUICKJS,
        "    for(i = 0; i < n; i++) {\n        if (i > 0) {\n            if (c >= 0) {\n"
        "                string_buffer_putc8(b, c);",
        "    for(i = 0; i < n; i++) {\n        if (js_poll_interrupts(ctx) || b->error_status)\n"
        "            goto fail;\n"
        "        if (i > 0) {\n            if (c >= 0) {\n                string_buffer_putc8(b, c);",
    ),
    # sort without a comparator compares texts, however long.
    Patch(
        QUICKJS,
        "        cmp = js_string_compare(ap->str, bp->str);\n",
        "        cmp = js_string_compare(ap->str, bp->str);\n        if (js_poll_interrupts(ctx))\n"
        "            goto exception;\n",
    ),
    # Every method of typed arrays begins here: fill, includes, reverse, sort of 100 MB are one step each.
    Patch(
        QUICKJS,
        '    fail:\n        JS_ThrowTypeError(ctx, "not a TypedArray");\n        return NULL;\n    }\n    return p;\n',
        '    fail:\n        JS_ThrowTypeError(ctx, "not a TypedArray");\n        return NULL;\n    }\n'
        "    js_charge(p->u.array.count);\n    return p;\n",
    ),
    Patch(
        QUICKJS,
        "        if (len > abuf->byte_length)\n"
        "            memset(&data[abuf->byte_length], 0, len - abuf->byte_length);\n",
        "        js_charge(len);\n"
        "        if (len > abuf->byte_length)\n"
        "            memset(&data[abuf->byte_length], 0, len - abuf->byte_length);\n",
    ),
    Patch(
        QUICKJS,
        "    if (JS_IsException(r))\n        goto exception;\n    for(k = 0; k < len; k++) {\n"
        "        v = JS_GetPropertyInt64(ctx, arr, k);\n",
        "    if (JS_IsException(r))\n        goto exception;\n    for(k = 0; k < len; k++) {\n"
        "        if (js_poll_interrupts(ctx))\n            goto exception;\n"
        "        v = JS_GetPropertyInt64(ctx, arr, k);\n",
    ),
    # Set methods, Iterator helpers, Array.from and destructuring over a builtin iterator call no function.
    Patch(
        QUICKJS,
        "    JSValue obj, value, done_val;\n    int done;\n\n    obj = JS_IteratorNext2(",
        "    JSValue obj, value, done_val;\n    int done;\n\n"
        "    if (js_poll_interrupts(ctx)) {\n        *pdone = false;\n        return JS_EXCEPTION;\n    }\n"
        "    obj = JS_IteratorNext2(",
    ),
    # for (key in "a long string") first collects the indices.
    Patch(
        QUICKJS,
        "            JS_SetPropertyInternal(ctx, enum_obj, tab_atom[i].atom, JS_NULL, 0);\n        }\n",
        "            if (js_poll_interrupts(ctx)) {\n"
        "                js_free_prop_enum(ctx, tab_atom, tab_atom_count);\n                goto fail;\n            }\n"
        "            JS_SetPropertyInternal(ctx, enum_obj, tab_atom[i].atom, JS_NULL, 0);\n        }\n",
    ),
)

_TEXT = (
    Patch(
        QUICKJS,
        "static int js_string_memcmp(JSString *p1, JSString *p2, int len)\n{\n    int res;\n\n",
        "static int js_string_memcmp(JSString *p1, JSString *p2, int len)\n{\n    int res;\n\n"
        "    if (len > 4096)\n        js_charge(len);\n",
    ),
    # Searching is by trial at each place: the product of both lengths.
    Patch(
        QUICKJS,
        "        if ((c1 = string_get(p1, x1 + i)) != (c2 = string_get(p2, x2 + i)))\n"
        "            return c1 - c2;\n    }\n    return 0;\n",
        "        if ((c1 = string_get(p1, x1 + i)) != (c2 = string_get(p2, x2 + i))) {\n"
        "            if (i > 256)\n                js_charge(i);\n            return c1 - c2;\n        }\n    }\n"
        "    if (len > 256)\n        js_charge(len);\n    return 0;\n",
    ),
    Patch(
        QUICKJS,
        "        j = string_indexof_char(p1, c, i);\n",
        "        j = string_indexof_char(p1, c, i);\n        js_charge((j < 0 ? len1 : j) - i + 256);\n"
        "        if (js_give_up())\n            return -1;\n",
    ),
    Patch(
        QUICKJS,
        "        for (i = start;; i += inc) {\n            if (!string_cmp(p, p1, i, 0, v_len)) {\n",
        "        for (i = start;; i += inc) {\n            if (js_poll_interrupts(ctx))\n                goto fail;\n"
        "            if (!string_cmp(p, p1, i, 0, v_len)) {\n",
    ),
    Patch(
        QUICKJS,
        "        for (i = start;; i++) {\n            if (!string_cmp(p, p1, i, 0, v_len)) {\n",
        "        for (i = start;; i++) {\n            if (js_poll_interrupts(ctx))\n                goto fail;\n"
        "            if (!string_cmp(p, p1, i, 0, v_len)) {\n",
    ),
    # replaceAll, split, String.raw and the change of case.
    Patch(
        QUICKJS,
        "    for(;;) {\n        if (unlikely(searchp->len == 0)) {\n",
        "    for(;;) {\n        if (js_poll_interrupts(ctx) || b->error_status)\n            goto exception;\n"
        "        if (unlikely(searchp->len == 0)) {\n",
    ),
    Patch(
        QUICKJS,
        "        e = string_indexof(sp, rp, q);\n        if (e < 0)\n",
        "        if (js_poll_interrupts(ctx))\n            goto exception;\n"
        "        e = string_indexof(sp, rp, q);\n        if (e < 0)\n",
    ),
    Patch(
        QUICKJS,
        "        val = JS_ToStringFree(ctx, JS_GetPropertyInt64(ctx, raw, i));\n",
        "        if (js_poll_interrupts(ctx) || b->error_status)\n            goto exception;\n"
        "        val = JS_ToStringFree(ctx, JS_GetPropertyInt64(ctx, raw, i));\n",
    ),
    Patch(
        QUICKJS,
        "        c = string_getc(p, &i);\n        if (c == 0x3a3 && to_lower && ",
        "        if (js_poll_interrupts(ctx))\n            goto fail;\n"
        "        c = string_getc(p, &i);\n        if (c == 0x3a3 && to_lower && ",
    ),
    # escape, RegExp.escape.
    Patch(
        QUICKJS,
        "        c = string_get(p, i);\n        if (isUnescaped(c)) {\n            string_buffer_putc16(b, c);\n",
        "        if (js_poll_interrupts(ctx)) {\n            JS_FreeValue(ctx, str);\n            string_buffer_free(b);\n"
        "            return JS_EXCEPTION;\n        }\n"
        "        c = string_get(p, i);\n        if (isUnescaped(c)) {\n            string_buffer_putc16(b, c);\n",
    ),
    Patch(
        QUICKJS,
        "        c = p->is_wide_char ? (uint32_t)str16(p)[i] : (uint32_t)str8(p)[i];\n        if (c < 33) {\n",
        "        if (js_poll_interrupts(ctx)) {\n            JS_FreeValue(ctx, str);\n            string_buffer_free(b);\n"
        "            return JS_EXCEPTION;\n        }\n"
        "        c = p->is_wide_char ? (uint32_t)str16(p)[i] : (uint32_t)str8(p)[i];\n        if (c < 33) {\n",
    ),
    # A BigInt of a million bits as text divides it 33,000 times.
    Patch(
        QUICKJS,
        "                    v = js_mp_div1(r->tab, r->tab, len, radix_base, 0);\n",
        "                    js_charge(len * 4);\n"
        "                    if (js_poll_interrupts(ctx)) {\n                        js_free(ctx, tmp);\n"
        "                        js_free(ctx, buf);\n                        return JS_EXCEPTION;\n                    }\n"
        "                    v = js_mp_div1(r->tab, r->tab, len, radix_base, 0);\n",
    ),
    # normalize sorts combining marks by insertion: a text of 200 KB takes minutes. Counting does it in linear time.
    Patch(
        UNICODE,
        "    sort_cc(buf, buf_len);\n",
        "    if (dbuf_claim(dbuf, sizeof(int) * buf_len))\n        goto fail;\n    buf = (int *)dbuf->buf;\n"
        "    sort_cc(buf, buf_len, buf + buf_len);\n",
    ),
    Patch(
        UNICODE,
        "static void sort_cc(int *buf, int len)\n{\n    int i, j, k, cc, cc1, start, ch1;\n",
        "/* Marks are sorted by their class, stably. `room` has the same length. */\n"
        "static void sort_marks(int *buf, int len, int *room)\n{\n"
        "    int from[257] = { 0 };\n    int i;\n"
        "    for(i = 0; i < len; i++)\n        from[unicode_get_cc(buf[i]) + 1]++;\n"
        "    for(i = 0; i < 256; i++)\n        from[i + 1] += from[i];\n"
        "    for(i = 0; i < len; i++)\n        room[from[unicode_get_cc(buf[i])]++] = buf[i];\n"
        "    memcpy(buf, room, len * sizeof(int));\n}\n\n"
        "static void sort_cc(int *buf, int len, int *room)\n{\n    int i, j, k, cc, cc1, start, ch1;\n",
    ),
    Patch(
        UNICODE,
        "            start = i;\n            j = i + 1;\n            while (j < len) {\n"
        "                ch1 = buf[j];\n",
        "            start = i;\n            j = i + 1;\n"
        "            while (j < len && unicode_get_cc(buf[j]) != 0)\n                j++;\n"
        "            if (j - start > 32) {\n                sort_marks(buf + start, j - start, room);\n"
        "                i = j;\n                continue;\n            }\n"
        "            j = i + 1;\n            while (j < len) {\n                ch1 = buf[j];\n",
    ),
)

_PARSERS = (
    # JSON.stringify of a graph that shares its nodes visits 2^60 of them.
    Patch(
        QUICKJS,
        "    if (js_check_stack_overflow(ctx->rt, 0)) {\n        JS_ThrowStackOverflow(ctx);\n"
        "        goto exception;\n    }\n\n"
        "    if (JS_IsObject(val)) {\n        p = JS_VALUE_GET_OBJ(val);\n        cl = p->class_id;\n"
        "        if (cl == JS_CLASS_STRING) {",
        "    if (js_check_stack_overflow(ctx->rt, 0)) {\n        JS_ThrowStackOverflow(ctx);\n"
        "        goto exception;\n    }\n"
        "    if (js_poll_interrupts(ctx) || jsc->b->error_status)\n        goto exception;\n\n"
        "    if (JS_IsObject(val)) {\n        p = JS_VALUE_GET_OBJ(val);\n        cl = p->class_id;\n"
        "        if (cl == JS_CLASS_STRING) {",
    ),
    Patch(
        QUICKJS,
        "    JSValue val = JS_NULL;\n    int ret;\n\n    if (js_check_stack_overflow(ctx->rt, 0)) {\n"
        "        return JS_ThrowStackOverflow(ctx);\n    }\n",
        "    JSValue val = JS_NULL;\n    int ret;\n\n    if (js_check_stack_overflow(ctx->rt, 0)) {\n"
        "        return JS_ThrowStackOverflow(ctx);\n    }\n"
        "    if (js_poll_interrupts(ctx))\n        return JS_EXCEPTION;\n",
    ),
    # A declaration looks through all before it: 60,000 in a block take ten seconds.
    Patch(
        QUICKJS,
        "    if (js_check_stack_overflow(s->ctx->rt, 1000)) {\n        JS_ThrowStackOverflow(s->ctx);\n"
        "        return -1;\n    }\n\n"
        "    free_token(s, &s->token);\n\n    p = s->last_ptr = s->buf_ptr;\n    s->got_lf = false;\n"
        "    s->last_line_num",
        "    if (js_check_stack_overflow(s->ctx->rt, 1000)) {\n        JS_ThrowStackOverflow(s->ctx);\n"
        "        return -1;\n    }\n"
        "    if (js_poll_interrupts(s->ctx))\n        return -1;\n\n"
        "    free_token(s, &s->token);\n\n    p = s->last_ptr = s->buf_ptr;\n    s->got_lf = false;\n"
        "    s->last_line_num",
    ),
    # Compiling an alternative moves all before it, and a member of a class looks through those before it.
    Patch(
        REGEXP,
        "    while (*s->buf_ptr == '|') {\n        s->buf_ptr++;\n",
        "    while (*s->buf_ptr == '|') {\n        s->buf_ptr++;\n"
        '        if (lre_check_timeout(s->opaque))\n            return re_parse_error(s, "interrupted");\n',
    ),
    Patch(
        REGEXP,
        "    is_first = true;\n    for(;;) {\n        if (*p == ']')\n            break;\n",
        "    is_first = true;\n    for(;;) {\n        if (*p == ']')\n            break;\n"
        '        if (lre_check_timeout(s->opaque)) {\n            re_parse_error(s, "interrupted");\n'
        "            goto fail;\n        }\n",
    ),
)

_ROOM = (
    # The engine measures its stack by the part that is in linear memory, but most of a recursive parser's is in WebAssembly's
    # own, where it ends in a trap: the run is lost, and the code cannot catch it. With room in each frame the first measure is
    # reached before (1.25 MiB of 2 against 4 MiB of native stack, wasmtime 50 on x86-64), as a RangeError.
    Patch(
        QUICKJS,
        "static __exception int js_parse_unary(JSParseState *s, int parse_flags)\n{\n    int op;\n\n    switch",
        "static __exception int js_parse_unary(JSParseState *s, int parse_flags)\n{\n    int op;\n    JS_ROOM(768);\n\n    switch",
    ),
    Patch(
        QUICKJS,
        "    JSContext *ctx = s->ctx;\n    JSValue val = JS_NULL;\n    int ret;\n\n    if (js_check_stack",
        "    JSContext *ctx = s->ctx;\n    JSValue val = JS_NULL;\n    int ret;\n    JS_ROOM(128);\n\n    if (js_check_stack",
    ),
    Patch(
        QUICKJS,
        "    int cl, ret;\n    bool has_content;\n\n    indent1 = JS_UNDEFINED;\n",
        "    int cl, ret;\n    bool has_content;\n    JS_ROOM(128);\n\n    indent1 = JS_UNDEFINED;\n",
    ),
    Patch(
        QUICKJS,
        "    int64_t sourceIndex, elementLen;\n    int present, is_array;\n\n",
        "    int64_t sourceIndex, elementLen;\n    int present, is_array;\n    JS_ROOM(128);\n\n",
    ),
    *(
        Patch(
            QUICKJS,
            f"    s = get_proxy_method(ctx, &method, obj, {trap});\n",
            f"    JS_ROOM(256);\n    s = get_proxy_method(ctx, &method, obj, {trap});\n",
        )
        for trap in ("JS_ATOM_has", "JS_ATOM_get", "JS_ATOM_set", "JS_ATOM_deleteProperty", "JS_ATOM_defineProperty")
    ),
    Patch(
        QUICKJS,
        "    s = get_proxy_method(ctx, &method, obj, JS_ATOM_getOwnPropertyDescriptor);\n",
        "    JS_ROOM(256);\n    s = get_proxy_method(ctx, &method, obj, JS_ATOM_getOwnPropertyDescriptor);\n",
    ),
)

_LINES = (
    # An error in a declaration, a condition or the head of a loop got the place of the statement before, or none.
    Patch(
        QUICKJS,
        "    switch(tok = s->token.val) {\n    case '{':\n        if (js_parse_block(s))\n",
        "    if (s->token.val != '{' && s->token.val != ';')\n        emit_source_loc(s);\n"
        "    switch(tok = s->token.val) {\n    case '{':\n        if (js_parse_block(s))\n",
    ),
    # The same for `return <expression>`, at the expression. `throw` has this line.
    Patch(
        QUICKJS,
        "            if (js_parse_expr(s))\n                goto fail;\n            emit_return(s, true);\n",
        "            emit_source_loc(s);\n"
        "            if (js_parse_expr(s))\n                goto fail;\n            emit_return(s, true);\n",
    ),
)

_PLAIN = (
    # Not about time: native/quickjs/plain.c asks the parser for the names that a text declares.
    Patch(
        QUICKJS,
        "static JSValue js_create_function(JSContext *ctx, JSFunctionDef *fd)\n{\n",
        "static bool native_function_parsed(JSFunctionDef *fd);\n\n"
        "static JSValue js_create_function(JSContext *ctx, JSFunctionDef *fd)\n{\n"
        "    if (native_function_parsed(fd)) {\n        js_free_function_def(ctx, fd);\n"
        "        return JS_EXCEPTION;\n    }\n",
    ),
)

PATCHES = (*_MECHANISM, *_ARRAYS, *_TEXT, *_PARSERS, *_ROOM, *_LINES, *_PLAIN)


def apply(folder: Path) -> None:
    """Patch the copy of the engine's source in `folder`."""
    for name, old, new in PATCHES:
        path = folder / name
        text = path.read_text("utf-8")
        if text.count(old) != 1:
            start = old.strip().splitlines()[0]
            raise RuntimeError(
                f"a patch of {name} applies {text.count(old)} times instead of once ({start!r}): the engine's source has changed"
            )
        path.write_text(text.replace(old, new), "utf-8")
