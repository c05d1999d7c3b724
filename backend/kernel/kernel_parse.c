/*
 * kernel_parse.c - kernels from text
 *
 * Tokens and numbers are read by the parser of the step IR.  Names end with the
 * block that defines them: the list of open names is cut back there.
 */
#include "backend/kernel/kernel_impl.h"

#include <string.h>
#include "ir/text/parse.h"

enum { MAX_DEPTH = 64 };
#define MAX_LENGTH (INT64_C(1) << 44) /* of a part */

/* The meaning of a name. */
typedef struct Meaning {
    KVar *var;
    KNode *value;
    KArray *array;
    int32_t symbol; /* of dims; -1: not one of them */
} Meaning;

typedef struct Reader {
    Parser p; /* first */
    Arena *arena;
    BeKernel *k;
    Map *names;
    VEC(const char *) open; /* names of the open blocks */
    int depth;
} Reader;

static void parse_block(Reader *r, KBlock *b);

/* ---- names -------------------------------------------------------------- */

static void
define(Reader *r, Loc at, const char *name, Meaning meaning)
{
    if (map_get(r->names, name))
        ir_parse_fail(&r->p, at, "%s is defined already", name);
    Meaning *m = NEW(r->p.scratch, Meaning);
    *m = meaning;
    map_set(r->names, name, m);
    VEC_PUSH(r->p.scratch, r->open, name);
}

static void
forget(Reader *r, int from)
{
    while (r->open.len > from)
        map_set(r->names, VEC_POP(r->open), NULL);
}

/* "%3", also of the next token; "" if that is not a value. */
static const char *
value_name(Reader *r)
{
    Parser *p = &r->p;
    if (p->token.kind != TOKEN_VALUE) {
        ir_parse_fail(p, ir_parse_here(p), "expected a value, like %%0");
        return "";
    }
    const char *name = arena_printf(p->scratch, "%%%s", p->token.text);
    ir_parse_next(p);
    return name;
}

/* A defined value; on failure some other one. */
static KNode *
parse_value(Reader *r)
{
    Loc at = ir_parse_here(&r->p);
    const char *name = value_name(r);
    const Meaning *m = map_get(r->names, name);
    if (m)
        return m->value;
    ir_parse_fail(&r->p, at, "%s is not defined here", name);
    return NEW(r->arena, KNode);
}

static KArray *
parse_array_name(Reader *r, bool stored)
{
    Loc at = ir_parse_here(&r->p);
    const char *name = ir_parse_word(&r->p, "an array");
    const Meaning *m = map_get(r->names, name);
    bool output = m && m->array && m->array->role == K_OUT;
    if (m && m->array && (output == stored || m->array->from))
        return m->array;
    ir_parse_fail(&r->p, at, "%s is no array that can be used here", name);
    return NEW(r->arena, KArray);
}

/* ---- dimensions and indices --------------------------------------------- */

static KIndex parse_sum(Reader *r);

static Dim
parse_dim(Reader *r)
{
    Loc at = ir_parse_here(&r->p);
    KIndex x = parse_sum(r);
    if (x.num_terms)
        ir_parse_fail(&r->p, at, "a dimension does not hang on indices");
    return x.base;
}

/* The factors of a term after its number: n0, i1, n0*i1, (2*n0 + 1)*i1. */
static void
parse_factors(Reader *r, Dim *coef, KVar **var)
{
    Parser *p = &r->p;
    Dim factor = ir_dim_const(1);
    Loc at = ir_parse_here(p);
    if (ir_parse_accept(p, '(')) {
        factor = parse_dim(r);
        ir_parse_expect(p, ')');
        ir_parse_expect(p, '*');
    }
    const char *name = ir_parse_word(p, "an index or a batch symbol");
    const Meaning *m = map_get(r->names, name);
    if (m && m->symbol >= 0)
        factor = ir_dim_linear(0, 1, m->symbol);
    else if (m && m->var)
        *var = m->var;
    else
        ir_parse_fail(p, at, "%s is no index or batch symbol", name);
    if (!ir_dim_mul(*coef, factor, coef))
        ir_parse_fail(p, at, "a coefficient does not fit 64 bits");
    if (!*var && ir_parse_accept(p, '*'))
        parse_factors(r, coef, var);
}

/* One summand, with its sign. */
static KIndex
parse_term(Reader *r, bool negative)
{
    Parser *p = &r->p;
    KIndex x = {.base = ir_dim_const(0)};
    Dim coef = ir_dim_const(negative ? -1 : 1);
    KVar *var = NULL;
    bool more = true;
    if (p->token.kind == TOKEN_NUMBER) {
        coef = ir_dim_const(ir_parse_int(p, 0, INT64_MAX) * coef.c);
        more = ir_parse_accept(p, '*');
    }
    if (more)
        parse_factors(r, &coef, &var);
    if (!var) {
        x.base = coef;
    } else if (!ir_dim_equal(coef, ir_dim_const(0))) {
        x.num_terms = 1;
        x.terms = NEW(r->arena, KTerm);
        x.terms[0] = (KTerm){coef, var};
    }
    return x;
}

static KIndex
parse_sum(Reader *r)
{
    Parser *p = &r->p;
    KIndex sum = parse_term(r, ir_parse_accept(p, '-'));
    while (ir_parse_is(p, '+') || ir_parse_is(p, '-')) {
        Loc at = ir_parse_here(p);
        bool negative = ir_parse_is(p, '-');
        ir_parse_next(p);
        KIndex term = parse_term(r, negative);
        if (!be_index_add(r->arena, &sum, &term, &sum))
            ir_parse_fail(p, at, "this sum is not linear in one batch symbol");
    }
    return sum;
}

static KIndex
parse_subscript(Reader *r)
{
    ir_parse_expect(&r->p, '[');
    KIndex x = parse_sum(r);
    ir_parse_expect(&r->p, ']');
    return x;
}

/* i3 < extent */
static KVar *
parse_var(Reader *r)
{
    Parser *p = &r->p;
    Loc at = ir_parse_here(p);
    const char *name = ir_parse_word(p, "an index");
    KVar *v = NEW(r->arena, KVar);
    v->id = r->k->num_vars++;
    ir_parse_expect(p, '<');
    v->extent = parse_dim(r);
    define(r, at, name, (Meaning){.var = v, .symbol = -1});
    return v;
}

/* Indices up to the brace. */
static KRanges
parse_ranges(Reader *r)
{
    KRanges ranges = {0};
    while (!r->p.failed && !ir_parse_is(&r->p, '{')) {
        if (ranges.count == IR_MAX_RANK) {
            ir_parse_fail(&r->p, ir_parse_here(&r->p), "more than %d indices",
                          IR_MAX_RANK);
            break;
        }
        if (ranges.count)
            ir_parse_expect(&r->p, ',');
        ranges.vars[ranges.count++] = parse_var(r);
    }
    return ranges;
}

/* ---- values ------------------------------------------------------------- */

/* The body of a reduction or contraction and the num values it yields. */
static KBlock
parse_yielding(Reader *r, int num, KNode **yields)
{
    KBlock body = {0};
    int outside = r->open.len;
    parse_block(r, &body);
    ir_parse_expect_word(&r->p, "yield");
    for (int i = 0; i < num; i++) {
        if (i)
            ir_parse_expect(&r->p, ',');
        yields[i] = parse_value(r);
    }
    ir_parse_expect(&r->p, '}');
    forget(r, outside);
    return body;
}

static KReduce
parse_reduce_op(Reader *r)
{
    static const char *const words[] = {
#define KREDUCE(name, op, fold, doc) #name,
#include "backend/kernel/kernels.def"
#undef KREDUCE
        NULL};
    return (KReduce)ir_parse_word_of(&r->p, words, "the name of a reduction");
}

static void
parse_reduce(Reader *r, KNode *n)
{
    int outside = r->open.len;
    n->reduce.op = parse_reduce_op(r);
    n->reduce.vector = ir_parse_accept_word(&r->p, "vector");
    n->reduce.ranges = parse_ranges(r);
    ir_parse_expect(&r->p, '{');
    n->reduce.body = parse_yielding(r, 1, &n->reduce.element);
    forget(r, outside);
}

static void
parse_contract(Reader *r, KNode *n)
{
    int outside = r->open.len;
    KNode *yields[2] = {0};
    if (ir_parse_accept_word(&r->p, "pairs"))
        n->contract.pairs = IR_TWO_CHAINS;
    else if (ir_parse_accept_word(&r->p, "one_chain"))
        n->contract.pairs = IR_ONE_CHAIN;
    n->contract.tf32 = ir_parse_accept_word(&r->p, "tf32");
    n->contract.ranges = parse_ranges(r);
    ir_parse_expect(&r->p, '{');
    n->contract.body = parse_yielding(r, 2, yields);
    n->contract.x = yields[0];
    n->contract.y = yields[1];
    forget(r, outside);
}

static void
parse_row_start(Reader *r, KNode *n)
{
    Loc at = ir_parse_here(&r->p);
    Dim d = parse_dim(r);
    if (d.sym % 2 || !ir_dim_equal(d, ir_dim_linear(0, 1, d.sym)))
        ir_parse_fail(&r->p, at, "expected the n of a batch");
    n->pair = d.sym / 2;
}

static void
parse_inside(Reader *r, KNode *n)
{
    n->inside.index = parse_sum(r);
    ir_parse_expect(&r->p, '<');
    n->inside.size = parse_dim(r);
}

static void
parse_load(Reader *r, KNode *n)
{
    n->load.array = parse_array_name(r, false);
    n->load.at = parse_subscript(r);
    if (ir_parse_accept_word(&r->p, "if"))
        n->load.guard = parse_value(r);
}

static void
parse_running(Reader *r, KNode *n)
{
    n->running.exclusive = ir_parse_accept_word(&r->p, "before");
    n->running.value = parse_value(r);
    ir_parse_expect_word(&r->p, "along");
    n->running.along = parse_sum(r);
}

static void
parse_map(Reader *r, KNode *n, Loc at, const char *word)
{
    IrOpKind op;
    if (!ir_op_by_name(word, &op) || !(ir_op_info[op].traits & ELEMENTWISE)) {
        ir_parse_fail(&r->p, at, "nothing in a kernel is called %s", word);
        return;
    }
    n->kind = K_MAP;
    n->map.op = op;
    n->map.num_args = ir_op_info[op].num_in;
    if (op == OP_cast)
        n->map.to = ir_parse_dtype(&r->p);
    for (int i = 0; i < n->map.num_args; i++) {
        if (i)
            ir_parse_expect(&r->p, ',');
        n->map.args[i] = parse_value(r);
    }
}

/* The node that word begins, whose dtype is known. */
static void
parse_node(Reader *r, KNode *n)
{
    static void (*const rules[K_NUM_KINDS])(Reader *, KNode *) = {
        [K_ROW_START] = parse_row_start, [K_INSIDE] = parse_inside,
        [K_LOAD] = parse_load,           [K_REDUCE] = parse_reduce,
        [K_CONTRACT] = parse_contract,   [K_RUNNING] = parse_running,
    };
    Loc at = ir_parse_here(&r->p);
    const char *word = ir_parse_word(&r->p, "the name of a node");
    for (int kind = 0; kind < K_NUM_KINDS; kind++) {
        if (kind == K_MAP || !be_kernel_kinds[kind].has_value ||
            strcmp(word, be_kernel_kinds[kind].text) != 0)
            continue;
        n->kind = (KKind)kind;
        if (n->kind == K_CONST)
            n->constant = ir_parse_scalar(&r->p, n->dtype);
        else if (n->kind == K_INDEX)
            n->index = parse_sum(r);
        else if (rules[kind])
            rules[kind](r, n);
        return;
    }
    parse_map(r, n, at, word);
}

static void
parse_definition(Reader *r, KBlock *b)
{
    Loc at = ir_parse_here(&r->p);
    const char *name = value_name(r);
    KNode n = {.id = r->k->num_values++};
    ir_parse_expect(&r->p, ':');
    n.dtype = ir_parse_dtype(&r->p);
    ir_parse_expect(&r->p, '=');
    parse_node(r, &n);
    KNode *value = be_kernel_append(r->arena, b, &n);
    define(r, at, name, (Meaning){.value = value, .symbol = -1});
}

/* ---- statements --------------------------------------------------------- */

static void
parse_loop(Reader *r, KBlock *b, const char *word)
{
    KNode n = {.kind = K_LOOP, .id = -1};
    int outside = r->open.len;
    n.loop.vector = strcmp(word, "vector") == 0;
    n.loop.ordered = strcmp(word, "ordered") == 0;
    n.loop.ranges = parse_ranges(r);
    ir_parse_expect(&r->p, '{');
    parse_block(r, &n.loop.body);
    ir_parse_expect(&r->p, '}');
    forget(r, outside);
    be_kernel_append(r->arena, b, &n);
}

static void
parse_scan(Reader *r, KBlock *b)
{
    KNode n = {.kind = K_SCAN, .id = -1};
    int outside = r->open.len;
    n.scan.reverse = ir_parse_accept_word(&r->p, "reverse");
    n.scan.ranges = parse_ranges(r);
    ir_parse_expect(&r->p, '{');
    parse_block(r, &n.scan.body);
    ir_parse_expect(&r->p, '}');
    forget(r, outside);
    be_kernel_append(r->arena, b, &n);
}

static void
parse_sort(Reader *r, KBlock *b)
{
    KNode n = {.kind = K_SORT, .id = -1};
    int outside = r->open.len;
    n.sort.descending = ir_parse_accept_word(&r->p, "descending");
    if (ir_parse_accept_word(&r->p, "first"))
        n.sort.first = ir_parse_int(&r->p, 1, INT64_MAX);
    n.sort.array = parse_array_name(r, true);
    n.sort.at = parse_subscript(r);
    n.sort.ranges = parse_ranges(r);
    ir_parse_expect(&r->p, '{');
    n.sort.body = parse_yielding(r, 1, &n.sort.element);
    forget(r, outside);
    be_kernel_append(r->arena, b, &n);
}

static void
parse_store(Reader *r, KBlock *b)
{
    KNode n = {.kind = K_STORE, .id = -1};
    n.store.array = parse_array_name(r, true);
    n.store.at = parse_subscript(r);
    ir_parse_expect(&r->p, ',');
    n.store.value = parse_value(r);
    if (ir_parse_accept_word(&r->p, "if"))
        n.store.guard = parse_value(r);
    be_kernel_append(r->arena, b, &n);
}

/* i2 < 4 = pick %3 */
static void
parse_pick(Reader *r, KBlock *b, KVar *var)
{
    KNode n = {.kind = K_PICK, .id = -1, .pick = {.var = var}};
    n.pick.value = parse_value(r);
    be_kernel_append(r->arena, b, &n);
}

/* i2 < 4 = div 12*i0 + i1, 3 */
static void
parse_divide(Reader *r, KBlock *b)
{
    Parser *p = &r->p;
    KNode n = {.kind = K_DIV, .id = -1};
    n.divide.var = parse_var(r);
    ir_parse_expect(p, '=');
    if (ir_parse_accept_word(p, "pick")) {
        parse_pick(r, b, n.divide.var);
        return;
    }
    if (ir_parse_accept_word(p, "mod"))
        n.kind = K_MOD;
    else
        ir_parse_expect_word(p, "div");
    n.divide.of = parse_sum(r);
    ir_parse_expect(p, ',');
    n.divide.by = parse_dim(r);
    be_kernel_append(r->arena, b, &n);
}

static void
parse_statement(Reader *r, KBlock *b)
{
    static const char *const loops[] = {"loop", "vector", "ordered"};
    Parser *p = &r->p;
    if (p->token.kind == TOKEN_VALUE) {
        parse_definition(r, b);
        return;
    }
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        if (ir_parse_accept_word(p, loops[i])) {
            parse_loop(r, b, loops[i]);
            return;
        }
    if (ir_parse_accept_word(p, "scan"))
        parse_scan(r, b);
    else if (ir_parse_accept_word(p, "sort"))
        parse_sort(r, b);
    else if (ir_parse_accept_word(p, "store"))
        parse_store(r, b);
    else
        parse_divide(r, b);
}

/* Whether the next token ends a block, correctly or not. */
static bool
at_end(const Parser *p)
{
    return p->failed || p->token.kind == TOKEN_END || ir_parse_is(p, '}') ||
           ir_parse_is_word(p, "yield");
}

static void
parse_block(Reader *r, KBlock *b)
{
    Parser *p = &r->p;
    int outside = r->open.len;
    if (++r->depth > MAX_DEPTH)
        ir_parse_fail(p, ir_parse_here(p), "blocks nest deeper than %d",
                      MAX_DEPTH);
    while (!at_end(p))
        parse_statement(r, b);
    r->depth--;
    if (!ir_parse_is_word(p, "yield"))
        forget(r, outside);
}

/* ---- the head ----------------------------------------------------------- */

/* n0 <= 32 */
static int64_t
parse_bound(Reader *r, int32_t symbol)
{
    Parser *p = &r->p;
    Loc at = ir_parse_here(p);
    define(r, at, ir_parse_word(p, "a batch symbol"),
           (Meaning){.symbol = symbol});
    ir_parse_expect(p, '<');
    ir_parse_expect(p, '=');
    return ir_parse_int(p, 0, INT64_MAX);
}

static void
parse_pairs(Reader *r)
{
    do {
        KPair pair = {.total = -1, .symbol = -1};
        int32_t symbol = 2 * r->k->pairs.len;
        pair.bound = parse_bound(r, symbol);
        if (r->p.token.kind == TOKEN_WORD && !r->p.token.first)
            pair.total = parse_bound(r, symbol + 1);
        VEC_PUSH(r->arena, r->k->pairs, pair);
    } while (ir_parse_accept(&r->p, ','));
}

static void
parse_table(Reader *r, KArray *t)
{
    Parser *p = &r->p;
    size_t width = dtype_info[t->dtype].bytes;
    VEC(Scalar) elements = {0};
    Loc at = ir_parse_here(p);
    int64_t size = 0;
    if (ir_parse_is_word(p, "hex")) {
        t->data = ir_parse_hex(p, &size);
    } else {
        ir_parse_expect(p, '[');
        while (!p->failed && !ir_parse_accept(p, ']')) {
            if (elements.len)
                ir_parse_expect(p, ',');
            VEC_PUSH(p->scratch, elements, ir_parse_scalar(p, t->dtype));
        }
        char *bytes = arena_array(r->arena, (size_t)elements.len, width);
        for (int i = 0; i < elements.len; i++)
            scalar_store(t->dtype, bytes, i, elements.data[i]);
        t->data = bytes;
        size = elements.len * (int64_t)width;
    }
    if (!ir_dim_is_const(t->size) || t->size.c < 0 ||
        size % (int64_t)width != 0 || t->size.c != size / (int64_t)width)
        ir_parse_fail(p, at, "a table has as many elements as it says");
}

/* in in0: f32[64*n0] */
static void
parse_array(Reader *r, KRole role)
{
    Parser *p = &r->p;
    Loc at = ir_parse_here(p);
    const char *name = ir_parse_word(p, "the name of an array");
    ir_parse_expect(p, ':');
    DType dtype = ir_parse_dtype(p);
    ir_parse_expect(p, '[');
    KArray *array = be_kernel_array(r->k, role, dtype, parse_dim(r));
    ir_parse_expect(p, ']');
    if (role == K_OUT && ir_parse_accept_word(p, "from"))
        array->from = parse_array_name(r, false);
    define(r, at, name, (Meaning){.array = array, .symbol = -1});
    if (role == K_TABLE) {
        ir_parse_expect(p, '=');
        parse_table(r, array);
    }
}

/* parts 24576, 96 */
static void
parse_parts(Reader *r)
{
    do
        VEC_PUSH(r->arena, r->k->segments, ir_parse_int(&r->p, 2, MAX_LENGTH));
    while (ir_parse_accept(&r->p, ','));
}

static void
parse_kernel(Reader *r)
{
    static const char *const roles[] = {"in", "out", "table"};
    Parser *p = &r->p;
    ir_parse_expect_word(p, "kernel");
    if (p->token.kind == TOKEN_WORD && !p->token.first)
        ir_parse_next(p);
    if (ir_parse_accept_word(p, "symbols"))
        parse_pairs(r);
    for (int role = 0; role < K_NUM_ROLES; role++) {
        while (ir_parse_accept_word(p, roles[role]))
            parse_array(r, (KRole)role);
    }
    if (ir_parse_accept_word(p, "parts"))
        parse_parts(r);
    ir_parse_expect_word(p, "grid");
    r->k->grid_vector = ir_parse_accept_word(p, "vector");
    r->k->grid = parse_ranges(r);
    ir_parse_expect(p, '{');
    parse_block(r, &r->k->body);
    ir_parse_expect(p, '}');
    forget(r, 0);
}

bool
be_kernel_parse(BeKernels *out, Arena *a, Diag *d, uint16_t file,
                const char *text, size_t len)
{
    Arena *scratch = arena_new(a, "kernel parse");
    Reader r = {.arena = a, .names = map_new(scratch)};
    r.p = (Parser){.scratch = scratch,
                   .module = ir_module_new(a, intern_new(scratch), d),
                   .diag = d,
                   .file = file,
                   .lexer = ir_lex_new(scratch, text, len)};
    ir_parse_next(&r.p);
    bool ok = true;
    while (!r.p.failed && r.p.token.kind != TOKEN_END) {
        Loc at = ir_parse_here(&r.p);
        r.k = be_kernel_new(a);
        parse_kernel(&r);
        if (r.p.failed)
            break;
        be_kernel_finish(r.k);
        ok &= be_kernel_verify(r.k, d, at);
        VEC_PUSH(a, *out, r.k);
    }
    ok &= !r.p.failed;
    arena_release(scratch);
    return ok;
}
