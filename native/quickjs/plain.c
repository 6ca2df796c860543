/* Plain JavaScript without the compiler: what the host takes for it is tried here first.
 *
 * The text is compiled twice. The first time as the body of the function that it is to be, only to have the engine's own
 * parser say what the top-level names are and whether the body stayed inside that function; nothing is generated. The
 * second time with the prelude that the compiler would have written, for good. Whatever is not certain is refused, and
 * then nothing has happened: the compiler looks at it, and says what is wrong if anything is. */

static const char plain_head[] = "(async(__gloveport_publish)=>{", plain_tail[] = "\n})";

static struct {
    bool armed;     /* the next script that is parsed is the one to look at */
    bool accepted;
    const buf *text; /* what is being parsed */
    buf names;      /* the prelude's entries, `,x:[()=>x,__gloveport_value=>{x=__gloveport_value}]` */
} plain;

/* The script is `(` one async arrow function `)`: the first function in it is all of our text between these two, so the
 * brace that closes it is ours. */
static JSFunctionDef *plain_only_function(JSFunctionDef *script)
{
    struct list_head *first = script->child_list.next;
    if (first == &script->child_list)
        return NULL;
    JSFunctionDef *f = list_entry(first, JSFunctionDef, link);
    bool whole = f->source && (uint32_t)f->source_len == plain.text->len - 2 &&
                 !memcmp(f->source, plain.text->p + 1, plain.text->len - 2);
    bool ours = f->func_type == JS_PARSE_FUNC_ARROW && f->func_kind == JS_FUNC_ASYNC && !f->is_strict_mode;
    /* a function that is called like our parameter takes its place */
    return whole && ours && f->arg_count == 1 && f->args[0].func_pool_idx < 0 ? f : NULL;
}

/* `eval` and the like are legal as variables of sloppy functions, but as names of a session they would change what later
 * code means. */
static bool plain_name_is_refused(const char *name)
{
    static const char *const refused[] = {"arguments", "eval", "undefined", "NaN", "Infinity", "let"};
    for (size_t i = 0; i < countof(refused); i++)
        if (!strcmp(name, refused[i]))
            return true;
    return !strncmp(name, "__gloveport", 11);
}

static bool plain_add_name(JSAtom atom)
{
    const char *name = JS_AtomToCString(ctx, atom);
    bool good = name && !plain_name_is_refused(name);
    if (good) {
        bool proto = atom == JS_ATOM___proto__; /* as a plain key it would set the prototype */
        buf_str(&plain.names, proto ? ",[\"" : ",");
        buf_str(&plain.names, name);
        buf_str(&plain.names, proto ? "\"]:[()=>" : ":[()=>");
        buf_str(&plain.names, name);
        buf_lit(&plain.names, ",__gloveport_value=>{");
        buf_str(&plain.names, name);
        buf_lit(&plain.names, "=__gloveport_value}]");
    }
    JS_FreeCString(ctx, name);
    return good;
}

/* The variables of a function before its code is generated: `let`, `const` and classes are in the scope of its body;
 * `var` and functions are in scope 0, with the scope that they were declared in as `scope_next`. Without one, a variable
 * is the shadow of a function in a block, which sloppy code sees outside of the block once that ran. */
static bool plain_collect(const JSFunctionDef *f)
{
    for (int i = 0; i < f->var_count; i++) {
        const JSVarDef *v = &f->vars[i];
        if (v->scope_level != 0 && v->scope_level != f->body_scope)
            continue;
        bool usual = v->scope_level ? v->is_lexical && v->var_kind == JS_VAR_NORMAL
                                    : v->scope_next > 0 && v->var_kind == JS_VAR_NORMAL;
        if (!usual || !plain_add_name(v->var_name))
            return false;
    }
    return !plain.names.failed;
}

/* Called by the engine when it has parsed a function and is about to generate its code (buildsteps/patches.py). True: it
 * shall not. */
static bool native_function_parsed(JSFunctionDef *fd)
{
    if (!plain.armed)
        return false;
    plain.armed = false;
    JSFunctionDef *f = fd->is_eval && !fd->parent ? plain_only_function(fd) : NULL;
    plain.accepted = f && plain_collect(f);
    return true;
}

/* The source as a body, after `names` as the prelude if there are any. */
static void plain_wrap(buf *text, const buf *names, const char *source, uint32_t n)
{
    buf_str(text, plain_head);
    if (names) {
        buf_lit(text, "__gloveport_publish({__proto__:null");
        buf_put(text, names->p, names->len);
        buf_lit(text, "});__gloveport_publish=void 0;");
    }
    buf_byte(text, '\n');
    buf_put(text, source, n);
    buf_str(text, plain_tail);
    buf_byte(text, 0);
    text->len--;
}

static JSValue plain_eval(const buf *text) { return text->failed ? JS_EXCEPTION : run_compile(text->p, text->len); }

/* The function of a run, or an exception when the source is for the compiler. No code of the guest's runs: also not its
 * Error.prepareStackTrace, which an error of syntax would call. */
static JSValue plain_compile(const char *source, uint32_t n)
{
    JSValue f = JS_EXCEPTION;
    buf text = {0};
    rt->in_build_stack_trace = true;
    plain_wrap(&text, NULL, source, n);
    plain.text = &text;
    plain.armed = true;
    JS_FreeValue(ctx, plain_eval(&text));
    if (plain.accepted) {
        text.len = 0;
        plain_wrap(&text, &plain.names, source, n);
        f = plain_eval(&text);
    }
    rt->in_build_stack_trace = false;
    if (JS_IsException(f))
        JS_FreeValue(ctx, JS_GetException(ctx));
    buf_free(&text);
    buf_free(&plain.names);
    memset(&plain, 0, sizeof plain);
    return f;
}

static int plain_start(uint32_t number, uint32_t cap, const char *source, uint32_t n)
{
    JSValue f = plain_compile(source, n);
    if (JS_IsException(f)) {
        buf none = {0};
        message m;
        message_begin(&m, "fail");
        buf_lit(m.b, ",\"kind\":\"compile\"");
        put_field_text(&m, "name", &none);
        put_field_text(&m, "message", &none);
        return message_end(&m) ? ST_OK : ST_OUT_OF_MEMORY;
    }
    run_open(number, cap);
    return run_function(f);
}
