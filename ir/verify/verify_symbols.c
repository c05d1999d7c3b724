/*
 * verify_symbols.c - batch symbols are used where their rows are known
 *
 * iter_next gives n and N (and n_0, n_1, ..., which are n of each replica) new
 * values each time it is executed.  A shape with n is valid after it, in its
 * block, and until the next one, which gives n another value: older values then
 * have a different number of rows.  So the walk through main counts time.  Each
 * value has the time of its definition, each symbol the time when it was last
 * set, and a value is stale when it is older than its symbol.  A symbol that a
 * loop sets counts as set at the beginning of its body.
 *
 * Programs may use all batch symbols of iterators; those that they use must be
 * set where they are launched.  Functions of datasets may use those of
 * datasets.
 */
#include "ir/loop.h"
#include "ir/ptrmap.h"
#include "ir/verify/verify.h"
#include "ir/verify/verify_impl.h"

typedef struct Symbols {
    Verify *v;
    bool by_user; /* the values are as a program was written */
    int now;
    int *set_at;        /* a symbol: when it was last set */
    bool *known;        /* whether it is in scope */
    VEC(int32_t) scope; /* the set ones, in the order in which they were set */
    PtrMap used;        /* program -> bool for each symbol */
    const IrFunc *fn;
} Symbols;

static const IrSymbol *
symbol(const Symbols *s, int32_t sym)
{
    return &s->v->module->symbols.data[sym];
}

/* ---- which symbols a shape has ----------------------------------------- */

typedef void VisitSymbol(Symbols *s, const IrOp *op, int32_t sym);

static void
visit_dims(Symbols *s, const IrOp *op, int rank, const Dim *dims,
           VisitSymbol *visit)
{
    for (int i = 0; i < rank; i++) {
        if (!ir_dim_is_const(dims[i]))
            visit(s, op, dims[i].sym);
    }
}

static void
visit_values(Symbols *s, const IrOp *op, IrValue *const *values, int n,
             VisitSymbol *visit)
{
    for (int i = 0; i < n; i++) {
        const IrType *t = &values[i]->type;
        visit_dims(s, op, t->rank, t->dims, visit);
    }
}

/* Visits the symbols that op uses: in results, arguments of regions,
 * attributes. */
static void
visit_named(Symbols *s, const IrOp *op, VisitSymbol *visit)
{
    const IrOpInfo *info = &ir_op_info[op->kind];
    visit_values(s, op, op->results, op->num_results, visit);
    for (int r = 0; r < op->num_regions; r++) {
        const IrValues *args = &op->regions[r]->args;
        visit_values(s, op, args->data, args->len, visit);
    }
    for (int i = 0; i < info->num_attrs; i++) {
        const IrAttrValue *a = &op->attrs[i];
        if (info->attrs[i].kind == DIMS && a->present)
            visit_dims(s, op, a->list.count, a->list.items, visit);
    }
}

/* ---- functions that are not main --------------------------------------- */

static void
check_kind(Symbols *s, const IrOp *op, int32_t sym)
{
    bool alone = ir_symbol_is_alone(symbol(s, sym));
    if (s->fn->kind == FUNC_PROGRAM ? !alone
                                    : s->fn->kind == FUNC_HOST && alone)
        return;
    if (op)
        ir_verify_error(s->v, op, "%s is no batch of this function",
                        symbol(s, sym)->name);
    else
        ir_verify_error_at(s->v, s->fn->loc, "%s is no batch of @%s",
                           symbol(s, sym)->name, s->fn->name);
}

static void
check_op_kinds(IrOp *op, void *data)
{
    visit_named(data, op, check_kind);
}

/* ---- programs that main launches --------------------------------------- */

/* While a program is walked, `known` is its result. */
static void
note_used(Symbols *s, const IrOp *op, int32_t sym)
{
    (void)op;
    s->known[sym] = true;
}

static void
note_op_uses(IrOp *op, void *data)
{
    visit_named(data, op, note_used);
}

static const bool *
symbols_used(Symbols *s, const IrFunc *program)
{
    bool *used = ir_ptrmap_get(&s->used, program);
    if (used)
        return used;
    Arena *a = s->v->scratch;
    const IrValues *args = &program->body->args;
    Symbols inner = *s;
    used = NEW_ARRAY(a, bool, (size_t)s->v->module->symbols.len);
    inner.known = used;
    visit_values(&inner, NULL, args->data, args->len, note_used);
    ir_walk(program->body, note_op_uses, &inner);
    ir_ptrmap_set(&s->used, program, used);
    return used;
}

/* ---- main -------------------------------------------------------------- */

static void
check_known(Symbols *s, const IrOp *op, int32_t sym)
{
    if (!s->known[sym])
        ir_verify_error(s->v, op, "%s is not known here: no iter_next sets it",
                        symbol(s, sym)->name);
}

static void
check_launch(Symbols *s, const IrOp *op)
{
    const IrModule *m = s->v->module;
    const bool *used = symbols_used(s, ir_func_find(m, ir_text(op, A_program)));
    for (int32_t i = 0; i < m->symbols.len; i++) {
        if (used[i])
            check_known(s, op, i);
    }
}

static void
report_stale(Symbols *s, const IrOp *op, int operand)
{
    if (!s->by_user) {
        ir_verify_error(s->v, op, "operand %d has the rows of an earlier batch",
                        operand);
        return;
    }
    s->v->num_errors++;
    diag_error(s->v->diag, op->loc,
               "a value here has the rows of an earlier batch: \"next\" gave "
               "its iterator another one since");
    diag_note(
        s->v->diag, op->loc,
        "distribute_from(fn(ctx) = ....batch(n, drop_remainder = true)) gives "
        "each replica batches of one size, which may be kept");
    ir_note_calls(s->v->diag, op->calls, NO_LOC);
}

static void
check_fresh(Symbols *s, const IrOp *op)
{
    for (int i = 0; i < op->num_operands; i++) {
        const IrValue *x = op->operands[i];
        for (int k = 0; k < x->type.rank; k++) {
            Dim d = x->type.dims[k];
            if (ir_dim_is_const(d) || x->id >= s->set_at[d.sym])
                continue;
            report_stale(s, op, i);
            break;
        }
    }
}

static void
set_symbol(Symbols *s, int32_t sym)
{
    s->set_at[sym] = s->now;
}

static void
enter_scope(Symbols *s, int32_t sym)
{
    set_symbol(s, sym);
    if (s->known[sym])
        return;
    s->known[sym] = true;
    VEC_PUSH(s->v->scratch, s->scope, sym);
}

static int32_t
rows_of(const IrOp *op)
{
    return op->kind == OP_iter_next ? ir_next_rows(op) : -1;
}

/* Advances time, and calls set for all symbols that op gives a value. */
static void
set_batch(Symbols *s, const IrOp *op, void (*set)(Symbols *s, int32_t sym))
{
    int32_t rows = rows_of(op);
    if (rows < 0)
        return;
    s->now++;
    set(s, rows);
    set(s, symbol(s, rows)->partner);
    for (int32_t i = 0; i < s->v->module->symbols.len; i++)
        if (symbol(s, i)->of == rows)
            set(s, i);
}

static void
set_in_loop(IrOp *op, void *data)
{
    set_batch(data, op, set_symbol);
}

static void
note_made(Symbols *s, IrValue *const *values, int n)
{
    for (int i = 0; i < n; i++)
        values[i]->id = s->now;
}

static void check_block(Symbols *s, const IrBlock *b);

static void
check_regions(Symbols *s, const IrOp *op)
{
    for (int r = 0; ir_is_loop(op) && r < op->num_regions; r++)
        ir_walk(op->regions[r], set_in_loop, s);
    /* The arguments of both regions have values from before the first one. */
    for (int r = 0; r < op->num_regions; r++)
        note_made(s, op->regions[r]->args.data, op->regions[r]->args.len);
    for (int r = 0; r < op->num_regions; r++)
        check_block(s, op->regions[r]);
}

static void
check_op(Symbols *s, const IrOp *op)
{
    set_batch(s, op, enter_scope);
    visit_named(s, op, check_known);
    check_fresh(s, op);
    if (op->kind == OP_launch)
        check_launch(s, op);
    check_regions(s, op);
    note_made(s, op->results, op->num_results);
}

static void
check_block(Symbols *s, const IrBlock *b)
{
    int outer = s->scope.len;
    for (const IrOp *op = b->first; op && !s->v->num_errors; op = op->next)
        check_op(s, op);
    while (s->scope.len > outer)
        s->known[VEC_POP(s->scope)] = false;
}

static Symbols
symbols_new(Verify *v)
{
    size_t n = (size_t)v->module->symbols.len;
    return (Symbols){.v = v,
                     .set_at = NEW_ARRAY(v->scratch, int, n),
                     .known = NEW_ARRAY(v->scratch, bool, n),
                     .used = {.arena = v->scratch}};
}

void
ir_verify_symbols(Verify *v)
{
    Symbols s = symbols_new(v);
    for (const IrFunc *fn = v->module->first; fn; fn = fn->next) {
        const IrValues *args = &fn->body->args;
        s.fn = fn;
        if (fn->kind == FUNC_MAIN) {
            check_block(&s, fn->body);
            continue;
        }
        visit_values(&s, NULL, args->data, args->len, check_kind);
        ir_walk(fn->body, check_op_kinds, &s);
    }
}

bool
ir_check_batches(const IrModule *m, Diag *d)
{
    Verify v = {.module = m, .diag = d, .scratch = arena_new(NULL, "batches")};
    Symbols s = symbols_new(&v);
    s.by_user = true;
    for (s.fn = m->first; s.fn; s.fn = s.fn->next)
        if (s.fn->kind == FUNC_MAIN)
            check_block(&s, s.fn->body);
    arena_release(v.scratch);
    return v.num_errors == 0;
}
