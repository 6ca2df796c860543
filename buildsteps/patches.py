"""Changes to QuickJS-ng's source, as text: each must apply exactly once, or the build stops."""

from __future__ import annotations

from pathlib import Path

PATCHES = (
    (
        "quickjs.c",
        # Array.prototype.join of a sparse array walks up to 2^32 indices, and after a failed allocation goes on doing so, without
        # looking at the interrupt flag once (0.17.0): minutes in which only SIGKILL helps. The other array functions do look.
        "    for(i = 0; i < n; i++) {\n        if (i > 0) {\n            if (c >= 0) {\n                string_buffer_putc8(b, c);",
        "    for(i = 0; i < n; i++) {\n        if (js_poll_interrupts(ctx) || b->error_status)\n            goto fail;\n"
        "        if (i > 0) {\n            if (c >= 0) {\n                string_buffer_putc8(b, c);",
    ),
    (
        "quickjs.c",
        # JSON.stringify of a graph that shares its nodes visits 2^60 of them, likewise (0.17.0).
        "    if (js_check_stack_overflow(ctx->rt, 0)) {\n        JS_ThrowStackOverflow(ctx);\n        goto exception;\n    }\n\n"
        "    if (JS_IsObject(val)) {\n        p = JS_VALUE_GET_OBJ(val);\n        cl = p->class_id;\n        if (cl == JS_CLASS_STRING) {",
        "    if (js_check_stack_overflow(ctx->rt, 0)) {\n        JS_ThrowStackOverflow(ctx);\n        goto exception;\n    }\n"
        "    if (js_poll_interrupts(ctx) || jsc->b->error_status)\n        goto exception;\n\n"
        "    if (JS_IsObject(val)) {\n        p = JS_VALUE_GET_OBJ(val);\n        cl = p->class_id;\n        if (cl == JS_CLASS_STRING) {",
    ),
)


def apply(folder: Path) -> None:
    """Patch the copy of the engine's source in `folder`."""
    for name, old, new in PATCHES:
        path = folder / name
        text = path.read_text("utf-8")
        if text.count(old) != 1:
            raise RuntimeError(f"a patch of {name} applies {text.count(old)} times instead of once: the engine's source has changed")
        path.write_text(text.replace(old, new), "utf-8")
