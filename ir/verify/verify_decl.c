/*
 * verify_decl.c - declarations: variables, datasets, iterators, functions
 *
 * The runner handles data by these declarations, so the types of a pipeline are
 * checked from its source through every stage.
 */
#include <string.h>
#include "ir/dataset/stage.h"
#include "ir/type_bounds.h"
#include "ir/type_text.h"
#include "ir/verify/verify_impl.h"

typedef VEC(IrType) Types;

static bool
alike(const IrType *a, const IrType *b)
{
    return a->dtype == b->dtype && ir_type_same_shape(a, b);
}

/* ---- names ------------------------------------------------------------- */

static void
add_name(Verify *v, Map *names, const char *name, Loc loc)
{
    if (map_get(names, name))
        ir_verify_error_at(v, loc, "@%s is defined twice", name);
    map_set(names, name, (void *)name);
}

#define CHECK_UNIQUE(v, list)                                                  \
    do {                                                                       \
        Map *names = map_new((v)->scratch);                                    \
        for (int i = 0; i < (v)->module->list.len; i++)                        \
            add_name(v, names, (v)->module->list.data[i]->name,                \
                     (v)->module->list.data[i]->loc);                          \
    } while (0)

static void
check_names(Verify *v)
{
    CHECK_UNIQUE(v, params);
    CHECK_UNIQUE(v, vars);
    CHECK_UNIQUE(v, datasets);
    CHECK_UNIQUE(v, iters);
    Map *names = map_new(v->scratch);
    for (const IrFunc *fn = v->module->first; fn; fn = fn->next)
        add_name(v, names, fn->name, fn->loc);
}

/* ---- symbols ----------------------------------------------------------- */

/* Checks s if it is the symbol of one replica's rows of a batch. */
static bool
is_sound_of_replica(const IrModule *m, const IrSymbol *s)
{
    if (s->of < 0)
        return true;
    if (s->partner >= 0 || s->of >= m->symbols.len)
        return false;
    const IrSymbol *n = &m->symbols.data[s->of];
    return ir_symbol_is_share(n) && n->bound == s->bound && s->replica >= 0 &&
           s->replica < m->num_replicas;
}

static void
check_symbols(Verify *v)
{
    const IrModule *m = v->module;
    for (int i = 0; i < m->symbols.len; i++) {
        const IrSymbol *s = &m->symbols.data[i];
        const IrSymbol *other = NULL;
        if (s->partner >= 0 && s->partner < m->symbols.len)
            other = &m->symbols.data[s->partner];
        bool paired =
            other && other->partner == i && other->global != s->global;
        if (s->bound < 0 || s->bound > IR_MAX_BYTES ||
            (s->partner >= 0 ? !paired : s->global) ||
            !is_sound_of_replica(m, s))
            ir_verify_error_at(v, NO_LOC, "the batch symbol %s is not sound",
                               s->name);
        else if (paired && s->global && other->bound > s->bound)
            ir_verify_error_at(v, NO_LOC,
                               "%s is more than %s, of which it is part",
                               other->name, s->name);
    }
}

/* ---- variables and functions ------------------------------------------- */

/* The operands of fn's return, when it ends in one. */
static const IrOp *
results_of(const IrFunc *fn)
{
    const IrOp *ret = ir_func_return(fn);
    return ret && ret->kind == OP_return ? ret : NULL;
}

static void
check_init(Verify *v, const IrVar *var)
{
    const IrFunc *fn = ir_func_find(v->module, var->init);
    const IrOp *ret = fn ? results_of(fn) : NULL;
    if (!fn || fn->kind != FUNC_INIT)
        ir_verify_error_at(v, var->loc, "there is no init function @%s",
                           var->init);
    else if (!ret || ret->num_operands != 1 ||
             !alike(&ret->operands[0]->type, &var->type))
        ir_verify_error_at(v, var->loc,
                           "@%s does not give one value of type %s", var->init,
                           ir_type_text(v->module, &var->type));
}

/* Of the server that holds them, and none is empty. */
static void
check_parts(Verify *v, const IrVar *var)
{
    if (!ir_strategy_info[v->module->strategy].servers)
        ir_verify_error_at(v, var->loc,
                           "the variable \"%s\" is in parts, and there are no "
                           "servers",
                           var->name);
    else if (var->type.rank == 0 || var->parts > var->type.dims[0].c ||
             var->colocate)
        ir_verify_error_at(v, var->loc, "the variable \"%s\" has no %lld parts",
                           var->name, (long long)var->parts);
}

/* What is colocated is on the same. */
static void
check_server(Verify *v, const IrVar *var)
{
    if (!ir_strategy_info[v->module->strategy].servers || var->colocate)
        ir_verify_error_at(v, var->loc,
                           "the variable \"%s\" is on no server of its own",
                           var->name);
}

/* Integers have no mean, but where there is one copy a step may write what is
 * the same on all replicas (verify_locality.c).  Bools have no sum either. */
static void
check_aggregation(Verify *v, const IrVar *var)
{
    DType t = var->type.dtype;
    bool is_int = dtype_is_int(t), is_mean = var->agg == AGG_mean;
    bool allows = dtype_is_float(t) ||
                  (is_int && ir_strategy_info[v->module->strategy].central);
    if ((is_mean && !allows) || (var->agg == AGG_sum && t == DT_bool))
        ir_verify_error_at(v, var->loc,
                           "the variable \"%s\" of %s is not aggregated by %s",
                           var->name, is_int ? "integers" : "bools",
                           ir_words[WORDS_AGG][var->agg]);
}

static void
check_var(Verify *v, const IrVar *var)
{
    int64_t bytes;
    if (!ir_type_is_static(&var->type) ||
        !ir_type_bytes(v->module, &var->type, &bytes))
        ir_verify_error_at(v, var->loc, "the variable \"%s\" has no fixed size",
                           var->name);
    check_aggregation(v, var);
    if (var->type.locality == LOCAL_ON)
        ir_verify_var(v, var->type.on, var->loc);
    if (var->colocate)
        ir_verify_var(v, var->colocate, var->loc);
    if (var->parts > 1)
        check_parts(v, var);
    if (var->server)
        check_server(v, var);
    if (var->init)
        check_init(v, var);
}

/* Whether there is a program of that name which is not for workers. */
static bool
is_program(const Verify *v, const char *name)
{
    const IrFunc *fn = ir_func_find(v->module, name);
    return fn && fn->kind == FUNC_PROGRAM && !fn->worker_of;
}

/* Row numbers are integers, and servers only have what is in parts. */
static void
check_part(Verify *v, const IrFunc *fn)
{
    const IrVar *var = ir_var_find(v->module, fn->part_of);
    const IrValues *args = &fn->body->args;
    if (fn->kind != FUNC_PROGRAM || fn->worker_of || fn->variant_of || !var ||
        ir_var_parts(v->module, var) < 2)
        ir_verify_error_at(v, fn->loc,
                           "@%s is of a part of \"%s\", and is no update of "
                           "a variable in parts",
                           fn->name, fn->part_of);
    else if (fn->row_ids >= args->len ||
             (fn->row_ids >= 0 &&
              (args->data[fn->row_ids]->type.rank != 1 ||
               !dtype_is_int(args->data[fn->row_ids]->type.dtype))))
        ir_verify_error_at(v, fn->loc, "parameter %d of @%s does not name rows",
                           fn->row_ids, fn->name);
}

static void
check_func(Verify *v, const IrFunc *fn, int *num_mains)
{
    const IrOp *ret = results_of(fn);
    bool bare = fn->kind == FUNC_MAIN || fn->kind == FUNC_INIT;
    *num_mains += fn->kind == FUNC_MAIN;
    if (*num_mains > 1)
        ir_verify_error_at(v, fn->loc, "@%s is a second main", fn->name);
    if (bare && fn->body->args.len)
        ir_verify_error_at(v, fn->loc, "@%s takes no parameters", fn->name);
    if (fn->kind == FUNC_MAIN && ret && ret->num_operands)
        ir_verify_error_at(v, fn->loc, "@%s has no results", fn->name);
    if (fn->variant_of && !ir_func_find(v->module, fn->variant_of))
        ir_verify_error_at(v, fn->loc, "there is no program @%s",
                           fn->variant_of);
    if (fn->worker_of && !is_program(v, fn->worker_of))
        ir_verify_error_at(v, fn->loc,
                           "@%s is a worker's of @%s, and there "
                           "is no such program",
                           fn->name, fn->worker_of);
    if (fn->part_of)
        check_part(v, fn);
    for (int i = 0; fn->kind == FUNC_HOST && i < fn->body->args.len; i++) {
        if (fn->body->args.data[i]->type.locality != LOCAL_HOST)
            ir_verify_error_at(v, fn->loc, "@%s takes host values", fn->name);
    }
}

/* ---- stages ------------------------------------------------------------ */

/* Whether s, whose input has elements of types `in`, gives the elements it
 * declares. */
typedef bool CheckStage(Verify *v, const IrStage *s, const Types *in);

static bool
is_one(const IrStage *s, DType t)
{
    IrType scalar = ir_type_scalar(t, LOCAL_HOST);
    return s->types.len == 1 && alike(&s->types.data[0], &scalar);
}

static bool
types_alike(const IrStage *s, const Types *in)
{
    if (s->types.len != in->len)
        return false;
    for (int i = 0; i < in->len; i++) {
        if (!alike(&s->types.data[i], &in->data[i]))
            return false;
    }
    return true;
}

static bool
check_range(Verify *v, const IrStage *s, const Types *in)
{
    (void)v, (void)in;
    return is_one(s, DT_i64);
}

static bool
check_tensors(Verify *v, const IrStage *s, const Types *in)
{
    (void)in;
    int64_t row = 0, bytes, all;
    for (int i = 0; i < s->types.len; i++) {
        const IrType *t = &s->types.data[i];
        if (!ir_type_is_static(t) || !ir_type_bytes(v->module, t, &bytes) ||
            __builtin_add_overflow(row, bytes, &row))
            return false;
    }
    return s->ints[0] >= 0 && !__builtin_mul_overflow(row, s->ints[0], &all) &&
           all == s->data_size;
}

/* ---- files --------------------------------------------------------------- */

/* Whether the replacement of a missing value is valid: none, or an element of
 * each component. */
static bool
is_default(const IrStage *s)
{
    int64_t size = 0;
    for (int i = 0; i < s->types.len; i++)
        size += (int64_t)dtype_info[s->types.data[i].dtype].bytes;
    return !s->data || s->data_size == size;
}

static bool
reads_elements(const IrStage *s)
{
    for (int i = 0; i < s->types.len; i++)
        if (!ir_type_is_static(&s->types.data[i]))
            return false;
    return s->paths.len > 0;
}

static bool
check_npy(Verify *v, const IrStage *s, const Types *in)
{
    (void)v, (void)in;
    return reads_elements(s) && s->types.len == 1;
}

static bool
check_idx(Verify *v, const IrStage *s, const Types *in)
{
    return check_npy(v, s, in);
}

static bool
check_bytes(Verify *v, const IrStage *s, const Types *in)
{
    return check_npy(v, s, in);
}

static bool
check_lines(Verify *v, const IrStage *s, const Types *in)
{
    return check_npy(v, s, in) && s->types.data[0].dtype == DT_u8 &&
           s->types.data[0].rank == 1;
}

static bool
check_npz(Verify *v, const IrStage *s, const Types *in)
{
    (void)v, (void)in;
    return reads_elements(s) && s->names.len == s->types.len;
}

static bool
check_csv(Verify *v, const IrStage *s, const Types *in)
{
    (void)v, (void)in;
    int64_t header = s->ints[0], separator = s->ints[1];
    bool named = s->names.len == s->types.len;
    return reads_elements(s) && is_default(s) && header >= 0 &&
           header <= CSV_NAMES &&
           (named || (s->names.len == 0 && header != CSV_NAMES)) &&
           separator > 0 && separator < 128 &&
           !strchr("\"\r\n", (char)separator);
}

static bool
check_tfrecord(Verify *v, const IrStage *s, const Types *in)
{
    (void)v, (void)in;
    int names = s->names.len;
    return reads_elements(s) && is_default(s) &&
           (names ? names == s->types.len : s->types.len == 1 && !s->data);
}

/* ---- stages after a source ---------------------------------------------- */

/* The host function that s names, if it accepts elements of types `in`. */
static const IrFunc *
element_func(const Verify *v, const IrStage *s, const Types *in)
{
    const IrFunc *fn = s->func ? ir_func_find(v->module, s->func) : NULL;
    if (!fn || fn->kind != FUNC_HOST || fn->body->args.len != in->len)
        return NULL;
    for (int i = 0; i < in->len; i++) {
        if (!alike(&fn->body->args.data[i]->type, &in->data[i]))
            return NULL;
    }
    return results_of(fn) ? fn : NULL;
}

static bool
check_map(Verify *v, const IrStage *s, const Types *in)
{
    const IrFunc *fn = element_func(v, s, in);
    const IrOp *ret = fn ? results_of(fn) : NULL;
    if (!ret || ret->num_operands != s->types.len)
        return false;
    for (int i = 0; i < s->types.len; i++) {
        if (!alike(&ret->operands[i]->type, &s->types.data[i]))
            return false;
    }
    return true;
}

static bool
check_filter(Verify *v, const IrStage *s, const Types *in)
{
    const IrFunc *fn = element_func(v, s, in);
    const IrType yes = ir_type_scalar(DT_bool, LOCAL_HOST);
    const IrOp *ret = fn ? results_of(fn) : NULL;
    return ret && ret->num_operands == 1 &&
           alike(&ret->operands[0]->type, &yes) && types_alike(s, in);
}

/* Whether t is a stack of elements of type `of`; its first dimension in *n. */
static bool
is_stack(const IrType *t, const IrType *of, Dim *n)
{
    IrType rest = {.dtype = t->dtype, .rank = t->rank - 1};
    if (t->rank < 1)
        return false;
    *n = t->dims[0];
    memcpy(rest.dims, t->dims + 1, (size_t)rest.rank * sizeof *rest.dims);
    return alike(&rest, of);
}

/* Whether elements are stacked in batches of n; ragged: the last may be
 * smaller, so n is a symbol of the dataset. */
static bool
check_stack(Verify *v, const IrStage *s, const Types *in, int64_t n,
            bool ragged)
{
    if (n < 1 || s->types.len != in->len)
        return false;
    for (int i = 0; i < in->len; i++) {
        Dim d;
        if (!is_stack(&s->types.data[i], &in->data[i], &d))
            return false;
        const IrSymbol *sym =
            ir_dim_is_const(d) ? NULL : &v->module->symbols.data[d.sym];
        bool whole = ir_dim_equal(d, ir_dim_const(n));
        bool part = sym && ir_symbol_is_alone(sym) && sym->bound == n &&
                    d.c == 0 && d.k == 1;
        if (!part && (ragged || !whole))
            return false;
    }
    return true;
}

static bool
check_batch(Verify *v, const IrStage *s, const Types *in)
{
    return check_stack(v, s, in, s->ints[0], !s->ints[1]);
}

/* The number of rows of the elements, which is the same in every component. */
static bool
check_unbatch(Verify *v, const IrStage *s, const Types *in)
{
    Dim first = ir_dim_const(0);
    (void)v;
    if (s->types.len != in->len)
        return false;
    for (int i = 0; i < in->len; i++) {
        Dim d;
        if (!is_stack(&in->data[i], &s->types.data[i], &d) ||
            !ir_type_is_static(&s->types.data[i]) ||
            (i > 0 && !ir_dim_equal(d, first)))
            return false;
        first = d;
    }
    return first.k >= 0 && first.c >= 0;
}

static bool
check_window(Verify *v, const IrStage *s, const Types *in)
{
    return s->ints[1] >= 1 && check_stack(v, s, in, s->ints[0], false);
}

static bool
check_lanes(Verify *v, const IrStage *s, const Types *in)
{
    return check_stack(v, s, in, s->ints[0], false);
}

static bool
check_shuffle(Verify *v, const IrStage *s, const Types *in)
{
    (void)v;
    return s->ints[0] >= 1 && types_alike(s, in);
}

static bool
check_repeat(Verify *v, const IrStage *s, const Types *in)
{
    (void)v;
    return s->ints[0] >= -1 && types_alike(s, in);
}

static bool
check_take(Verify *v, const IrStage *s, const Types *in)
{
    (void)v;
    return s->ints[0] >= 0 && types_alike(s, in);
}

static bool
check_skip(Verify *v, const IrStage *s, const Types *in)
{
    return check_take(v, s, in);
}

static bool
check_shard(Verify *v, const IrStage *s, const Types *in)
{
    (void)v;
    bool is_workers = s->ints[0] == 0 && s->ints[1] == 0;
    return (is_workers || (s->ints[1] >= 0 && s->ints[1] < s->ints[0])) &&
           types_alike(s, in);
}

static bool
check_prefetch(Verify *v, const IrStage *s, const Types *in)
{
    (void)v;
    return s->ints[0] >= 0 && s->ints[0] <= IR_MAX_PREFETCH &&
           types_alike(s, in);
}

static bool
check_cache(Verify *v, const IrStage *s, const Types *in)
{
    (void)v;
    return types_alike(s, in);
}

/* Whether dimensions of two datasets are equivalent: batches with the same
 * bound have a symbol in each. */
static bool
same_rows(const IrModule *m, Dim a, Dim b)
{
    if (ir_dim_is_const(a) || ir_dim_is_const(b) || a.c != b.c || a.k != b.k)
        return ir_dim_equal(a, b);
    const IrSymbol *x = &m->symbols.data[a.sym], *y = &m->symbols.data[b.sym];
    return ir_symbol_is_alone(x) && ir_symbol_is_alone(y) &&
           x->bound == y->bound;
}

static bool
alike_elsewhere(const IrModule *m, const IrType *a, const IrType *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = same_rows(m, a->dims[i], b->dims[i]);
    return same;
}

/* The types of the other dataset's elements. */
static Types
types_of_other(const Verify *v, const IrStage *s)
{
    Types t = {0};
    const IrDataset *d = s->other ? ir_dataset_find(v->module, s->other) : NULL;
    if (d && d->stages.len) {
        t.data = VEC_LAST(d->stages).types.data;
        t.len = VEC_LAST(d->stages).types.len;
    }
    return t;
}

static bool
check_concat(Verify *v, const IrStage *s, const Types *in)
{
    Types other = types_of_other(v, s);
    if (!types_alike(s, in) || s->types.len != other.len)
        return false;
    for (int i = 0; i < other.len; i++)
        if (!alike_elsewhere(v->module, &s->types.data[i], &other.data[i]))
            return false;
    return true;
}

/* The batch symbol that a shape names; -1: none. */
static int32_t
symbol_of(const IrType *t)
{
    for (int i = 0; i < t->rank; i++)
        if (!ir_dim_is_const(t->dims[i]))
            return t->dims[i].sym;
    return -1;
}

/* An element has one number of rows, so its shapes use one symbol. */
static bool
check_zip(Verify *v, const IrStage *s, const Types *in)
{
    Types other = types_of_other(v, s);
    int32_t rows = -1;
    if (s->types.len != in->len + other.len || other.len == 0)
        return false;
    for (int i = 0; i < s->types.len; i++) {
        const IrType *t = &s->types.data[i];
        int32_t symbol = symbol_of(t);
        bool same = i < in->len ? alike(t, &in->data[i])
                                : alike_elsewhere(v->module, t,
                                                  &other.data[i - in->len]);
        if (!same || (rows >= 0 && symbol >= 0 && symbol != rows))
            return false;
        rows = symbol >= 0 ? symbol : rows;
    }
    return true;
}

static CheckStage *const check_stage[NUM_STAGES] = {
#define STAGE(name, source, ints, reads, names, func, other, doc) check_##name,
#include "ir/dataset/stages.def"
#undef STAGE
};

static bool
types_are_sound(Verify *v, const IrStage *s)
{
    int64_t bytes;
    for (int i = 0; i < s->types.len; i++) {
        if (!ir_type_bytes(v->module, &s->types.data[i], &bytes))
            return false;
    }
    return s->types.len > 0;
}

/* The number of the dataset called name among the first n; -1: none. */
static int
dataset_before(const IrModule *m, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(m->datasets.data[i]->name, name) == 0)
            return i;
    return -1;
}

/* The number of stages in dataset i, including the datasets that it reads;
 * these come before it, so that none contains itself. -1 when it, or one of
 * them, is invalid. */
static int64_t
count_stages(Verify *v, int i, const int64_t *before)
{
    const IrDataset *d = v->module->datasets.data[i];
    int64_t n = d->stages.len;
    for (int k = 0; k < d->stages.len && n >= 0; k++) {
        const IrStage *s = &d->stages.data[k];
        int j = s->other ? dataset_before(v->module, i, s->other) : 0;
        if (j < 0)
            ir_verify_error_at(
                v, s->loc, "there is no dataset \"%s\" before it", s->other);
        if (j < 0 || (s->other && before[j] < 0))
            return -1;
        n += s->other ? before[j] : 0;
    }
    if (n <= IR_MAX_STAGES)
        return n > 0 ? n : -1;
    ir_verify_error_at(v, d->loc, "the dataset \"%s\" has more than %d stages",
                       d->name, IR_MAX_STAGES);
    return -1;
}

static bool
keeps_all(const IrStage *s)
{
    return s->kind == STAGE_cache || s->kind == STAGE_lanes;
}

static void
check_ends(Verify *v, const IrDataset *d)
{
    for (int i = 1; i < d->stages.len; i++) {
        const IrStage *s = &d->stages.data[i];
        if (keeps_all(s) && ir_stage_is_endless(v->module, d, i - 1))
            ir_verify_error_at(
                v, s->loc,
                "%s of \"%s\" keeps all elements, and these have "
                "no end",
                ir_stage_info[s->kind].name, d->name);
    }
}

static void
check_stages(Verify *v, const IrDataset *d)
{
    const Types none = {0};
    Types in = none;
    if (d->stages.len == 0)
        ir_verify_error_at(v, d->loc, "the dataset \"%s\" has no source",
                           d->name);
    for (int i = 0; i < d->stages.len; i++) {
        const IrStage *s = &d->stages.data[i];
        const IrStageInfo *info = &ir_stage_info[s->kind];
        if (info->is_source != (i == 0))
            ir_verify_error_at(v, s->loc, "%s of \"%s\" stands %s", info->name,
                               d->name,
                               i ? "after a source" : "before a source");
        else if (!types_are_sound(v, s) || !check_stage[s->kind](v, s, &in))
            ir_verify_error_at(v, s->loc, "%s of \"%s\" is not sound: it is %s",
                               info->name, d->name, info->doc);
        in.data = s->types.data;
        in.len = s->types.len;
    }
}

static void
check_datasets(Verify *v)
{
    const IrModule *m = v->module;
    int64_t *stages = NEW_ARRAY(v->scratch, int64_t, (size_t)m->datasets.len);
    for (int i = 0; i < m->datasets.len; i++) {
        stages[i] = count_stages(v, i, stages);
        check_stages(v, m->datasets.data[i]);
        if (stages[i] >= 0)
            check_ends(v, m->datasets.data[i]);
    }
}

static void
check_iter(Verify *v, const IrIter *it)
{
    const IrModule *m = v->module;
    for (int i = 0; i < it->datasets.len; i++)
        if (!ir_dataset_find(m, it->datasets.data[i]))
            ir_verify_error_at(v, it->loc, "there is no dataset \"%s\"",
                               it->datasets.data[i]);
    int n = it->datasets.len;
    bool by_replica = m->num_workers == 1 && n == m->num_replicas;
    if (it->whole ? n != m->num_workers && !by_replica : n != 1)
        ir_verify_error_at(v, it->loc,
                           "%d pipelines of \"%s\" are not one for each worker "
                           "or replica",
                           it->datasets.len, it->name);
    if (it->per_worker && !ir_strategy_info[m->strategy].servers)
        ir_verify_error_at(v, it->loc,
                           "\"%s\" is of workers, and the strategy %s has "
                           "no coordinator",
                           it->name, ir_strategy_names[m->strategy]);
    if (it->workers && !it->per_worker)
        ir_verify_error_at(v, it->loc, "\"%s\" is shared by no workers",
                           it->name);
    if (it->rows >= m->symbols.len ||
        (it->rows >= 0 && !ir_symbol_is_share(&m->symbols.data[it->rows])))
        ir_verify_error_at(
            v, it->loc, "the rows of \"%s\" are no batch symbol of a replica",
            it->name);
}

static void
check_workers(Verify *v)
{
    const IrModule *m = v->module;
    if (m->num_replicas < 1)
        ir_verify_error_at(v, NO_LOC, "there are no replicas");
    else if (m->num_workers > 1 && !ir_strategy_info[m->strategy].workers)
        ir_verify_error_at(v, NO_LOC,
                           "the strategy %s has one worker, and there are %d",
                           ir_strategy_names[m->strategy], m->num_workers);
    else if (m->num_workers < 1 || m->num_replicas % m->num_workers != 0)
        ir_verify_error_at(v, NO_LOC,
                           "%d replicas are not equally many for each of %d "
                           "workers",
                           m->num_replicas, m->num_workers);
}

void
ir_verify_declarations(Verify *v)
{
    const IrModule *m = v->module;
    int num_mains = 0;
    check_names(v);
    check_symbols(v);
    check_workers(v);
    for (const IrFunc *fn = m->first; fn; fn = fn->next)
        check_func(v, fn, &num_mains);
    for (int i = 0; i < m->vars.len; i++)
        check_var(v, m->vars.data[i]);
    check_datasets(v);
    for (int i = 0; i < m->iters.len; i++)
        check_iter(v, m->iters.data[i]);
}
