/*
 * emit_memory.c - loads and stores
 *
 * A load whose address is the same in all lanes is a scalar load.  If
 * neighbouring lanes need neighbouring elements it is a vector load; if
 * neighbouring rows or rounds of a contraction do, strips of some elements are
 * transposed; any other is a gather.  Inactive lanes, or those whose guard is
 * false, access no memory of the kernel: they are masked where the machine has
 * masks for that element size, else they use the zero source and the dummy
 * sink.  So do vectors with one guard for all their lanes, since some machines
 * take long for a store with a mask.
 */
#include "backend/codegen/emit.h"

#include <assert.h>
#include "ir/base/status.h"

enum {
    SINK_BYTES = 2 * CACHE_LINE, /* of a vector: 64 bits for each lane of 32 */
    STRIP_BYTES = 16,
    PAGE = 4096
};

/* ---- arrays ------------------------------------------------------------- */

Val
be_emit_table(BeUnit *u, const KArray *a, const char *name, unsigned space)
{
    int64_t bytes = a->size.c * (int64_t)dtype_info[a->dtype].bytes;
    Val data = LLVMConstStringInContext2(u->context, a->data, (size_t)bytes, 1);
    Val table =
        LLVMAddGlobalInAddressSpace(u->module, LLVMTypeOf(data), name, space);
    LLVMSetInitializer(table, data);
    LLVMSetGlobalConstant(table, 1);
    LLVMSetLinkage(table, LLVMPrivateLinkage);
    LLVMSetAlignment(table, CACHE_LINE);
    return table;
}

static Val
array_pointer(Emit *e, int position, const char *role, int index)
{
    BeUnit *u = e->u;
    Val ptrs = LLVMGetParam(u->func, 0);
    Val p =
        be_load(u, u->ptr, be_offset_const(u, ptrs, 8 * (int64_t)position), 8);
    be_name(u, p, "%s%d", role, index);
    return p;
}

Val
be_emit_numbers(Emit *e, const char *name, const int64_t *x, int count,
                unsigned space)
{
    KArray table = {K_TABLE, 0, DT_i64, ir_dim_const(count), x, NULL};
    return be_emit_table(e->u, &table, name, space);
}

Val
be_emit_number(Emit *e, Val numbers, Val index)
{
    BeUnit *u = e->u;
    Val p = LLVMBuildGEP2(u->builder, u->i64, numbers, &index, 1, "");
    Val x = be_load(u, u->i64, p, 8);
    return LLVMBuildIntCast2(u->builder, x, e->word, 1, "");
}

void
be_emit_segment_arrays(Emit *e, Val from, Type pointer, Val part)
{
    BeUnit *u = e->u;
    int before = 0;
    for (int role = K_IN; role <= K_OUT; role++) {
        int own = be_kernel_segment_arrays(e->k, (KRole)role);
        Val first = be_mul(u, part, be_emit_word(e, own));
        for (int i = 0; i < own; i++) {
            Val at = be_add(u, first, be_emit_word(e, before + i));
            Val p = LLVMBuildGEP2(u->builder, pointer, from, &at, 1, "");
            e->arrays[role][i] = be_load(u, pointer, p, 8);
            be_name(u, e->arrays[role][i], "%s%d", role == K_IN ? "in" : "out",
                    i);
        }
        before += e->k->arrays[role].len;
    }
}

void
be_emit_arrays(Emit *e)
{
    const BeKernel *k = e->k;
    int num_in = k->arrays[K_IN].len;
    for (int role = 0; role < K_NUM_ROLES; role++)
        e->arrays[role] = NEW_ARRAY(e->arena, Val, (size_t)k->arrays[role].len);
    if (k->segments.len)
        return;
    for (int i = 0; i < num_in; i++)
        e->arrays[K_IN][i] = array_pointer(e, i, "in", i);
    for (int i = 0; i < k->arrays[K_OUT].len; i++)
        e->arrays[K_OUT][i] = array_pointer(e, num_in + i, "out", i);
    for (int i = 0; i < k->arrays[K_TABLE].len; i++)
        e->arrays[K_TABLE][i] =
            be_emit_table(e->u, k->arrays[K_TABLE].data[i], "table", 0);
}

/* The zero source: bytes that are 0 and not used otherwise. */
static Val
zero_source(Emit *e)
{
    BeUnit *u = e->u;
    if (!e->zeros) {
        e->zeros = be_alloca(u, u->i8, SINK_BYTES, SINK_BYTES, "zeros");
        Block here = be_insert_block(u);
        be_position_at_end(u, u->entry);
        be_store(u, be_zero(be_vector(u->i8, SINK_BYTES)), e->zeros,
                 SINK_BYTES);
        be_position_at_end(u, here);
    }
    return e->zeros;
}

/* The dummy sink: bytes that are never read. */
static Val
dummy_sink(Emit *e)
{
    if (!e->sink)
        e->sink = be_alloca(e->u, e->u->i8, SINK_BYTES, SINK_BYTES, "sink");
    return e->sink;
}

/* ---- elements ----------------------------------------------------------- */

Val
be_emit_from_memory(BeUnit *u, DType t, Val x)
{
    LLVMBuilderRef b = u->builder;
    Type type = LLVMTypeOf(x);
    Type words = be_retype(type, u->i32), floats = be_retype(type, u->f32);
    switch (t) {
    case DT_bool:
        return be_icmp(u, LLVMIntNE, x, be_zero(type));
    case DT_bf16:
        x = LLVMBuildZExt(b, x, words, "");
        x = LLVMBuildShl(b, x, be_int(words, 16), "");
        return LLVMBuildBitCast(b, x, floats, "");
    case DT_f16:
        type = be_retype(type, LLVMHalfTypeInContext(u->context));
        return LLVMBuildFPExt(b, LLVMBuildBitCast(b, x, type, ""), floats, "");
    case DT_f64:
    case DT_f32:
    case DT_i64:
    case DT_i32:
    case DT_i16:
    case DT_i8:
    case DT_u8:
        return x;
    case NUM_DTYPES:
        break;
    }
    UNREACHABLE("a dtype that is none");
}

Val
be_emit_to_memory(BeUnit *u, DType t, Val x)
{
    LLVMBuilderRef b = u->builder;
    Type type = LLVMTypeOf(x);
    Type words = be_retype(type, u->i32), halves = be_retype(type, u->i16);
    switch (t) {
    case DT_bool:
        return LLVMBuildZExt(b, x, be_retype(type, u->i8), "");
    case DT_bf16:
        x = LLVMBuildBitCast(b, x, words, "");
        x = LLVMBuildLShr(b, x, be_int(words, 16), "");
        return LLVMBuildTrunc(b, x, halves, "");
    case DT_f16:
        type = be_retype(type, LLVMHalfTypeInContext(u->context));
        return LLVMBuildBitCast(b, LLVMBuildFPTrunc(b, x, type, ""), halves,
                                "");
    case DT_f64:
    case DT_f32:
    case DT_i64:
    case DT_i32:
    case DT_i16:
    case DT_i8:
    case DT_u8:
        return x;
    case NUM_DTYPES:
        break;
    }
    UNREACHABLE("a dtype that is none");
}

/* ---- lanes -------------------------------------------------------------- */

/* Whether t has instructions for masked loads and stores. */
static bool
has_masks(const Emit *e, DType t)
{
    return be_emit_has_mask_registers(e) || dtype_info[t].bytes >= 4;
}

static bool
has_gathers(const Emit *e, DType t)
{
    return be_emit_has_mask_registers(e) && dtype_info[t].bytes >= 4;
}

static Val
full_mask(Emit *e)
{
    return be_int(be_vector(e->u->i1, e->tile.lanes), 1);
}

/* Pointers to element base + lanes; to `instead` where the mask is false. */
static Val
lane_pointers(Emit *e, Type element, Val base, Val lanes, Val mask, Val instead)
{
    BeUnit *u = e->u;
    Val ptrs = LLVMBuildGEP2(u->builder, element, base, &lanes, 1, "");
    return mask ? be_select(u, mask, ptrs, be_splat(u, instead, e->tile.lanes))
                : ptrs;
}

/* mask may be NULL: all. */
static Val
gather(Emit *e, DType t, Val base, Val lanes, Val mask)
{
    BeUnit *u = e->u;
    Type element = be_emit_memory_type(e, t);
    Type type = be_vector(element, e->tile.lanes);
    bool masked = has_gathers(e, t);
    Val unless = masked ? NULL : mask;
    Val ptrs = lane_pointers(e, element, base, lanes, unless,
                             unless ? zero_source(e) : NULL);
    Type over[] = {type, LLVMTypeOf(ptrs)};
    Val align = LLVMConstInt(u->i32, dtype_info[t].bytes, 0);
    Val args[] = {ptrs, align, masked && mask ? mask : full_mask(e),
                  be_zero(type)};
    return be_intrinsic(u, "llvm.masked.gather", over, 2, args, 4);
}

static Val
lane_steps(Emit *e)
{
    return be_lane_numbers(be_vector(e->lane_int, e->tile.lanes));
}

static Val
load_dense(Emit *e, DType t, Val p, Val mask)
{
    Type type = be_vector(be_emit_memory_type(e, t), e->tile.lanes);
    unsigned align = (unsigned)dtype_info[t].bytes;
    bool all;
    if (mask && be_is_const_bool(mask, &all)) {
        if (!all)
            return be_zero(type);
        mask = NULL;
    }
    if (!mask)
        return be_load(e->u, type, p, align);
    if (has_masks(e, t))
        return be_load_masked(e->u, type, p, align, mask);
    return gather(e, t, p, lane_steps(e), mask);
}

static void
store_dense(Emit *e, DType t, Val x, Val p, Val mask)
{
    BeUnit *u = e->u;
    unsigned align = (unsigned)dtype_info[t].bytes;
    if (!mask) {
        be_store(u, x, p, align);
    } else if (has_masks(e, t)) {
        be_store_masked(u, x, p, align, mask);
    } else {
        Val ptrs = lane_pointers(e, be_emit_memory_type(e, t), p, lane_steps(e),
                                 mask, dummy_sink(e));
        Type over[] = {LLVMTypeOf(x), LLVMTypeOf(ptrs)};
        Val args[] = {x, ptrs, LLVMConstInt(u->i32, align, 0), full_mask(e)};
        be_intrinsic(u, "llvm.masked.scatter", over, 2, args, 4);
    }
}

/* ---- nodes -------------------------------------------------------------- */

Val
be_emit_element_pointer(Emit *e, const KArray *array, Val index)
{
    Val p = e->arrays[array->role][array->index];
    return LLVMBuildGEP2(e->u->builder, be_emit_memory_type(e, array->dtype), p,
                         &index, 1, "");
}

/* The element for a row and vector, lane 0.  Constant steps are added to the
 * address of the first, which costs LLVM less than indices that all differ. */
static Val
tile_pointer(Emit *e, const KArray *array, const EmitAddress *a, int row, int v)
{
    bool steps = ir_dim_is_const(a->row_step) && ir_dim_is_const(a->lane_step);
    if (!steps || a->any.row || a->any.lane)
        return be_emit_element_pointer(e, array,
                                       be_address_scalar(e, a, row, v));
    int64_t count =
        row * a->row_step.c + v * be_emit_vector_step(e) * a->lane_step.c;
    Val p = be_emit_element_pointer(e, array, be_address_scalar(e, a, 0, 0));
    Val more = be_word(e->u, count * (int64_t)dtype_info[array->dtype].bytes);
    return count ? LLVMBuildGEP2(e->u->builder, e->u->i8, p, &more, 1, "") : p;
}

static Val
load_scalar(Emit *e, DType t, Val p, Val guard)
{
    if (guard)
        p = be_select(e->u, guard, p, zero_source(e));
    return be_load(e->u, be_emit_memory_type(e, t), p,
                   (unsigned)dtype_info[t].bytes);
}

/* The conjunction of both conditions; NULL is true. */
static Val
both(BeUnit *u, Val x, Val y)
{
    return x && y ? be_and(u, x, y) : x ? x : y;
}

/* Whether the guard, if there is one, holds for all lanes or for none. */
static bool
is_for_all_lanes(const Emit *e, const KNode *guard)
{
    return guard && !be_emit_varying(e, guard).lane;
}

static Val
load_lanes(Emit *e, const KNode *n, const EmitAddress *a, Val p, int row, int v)
{
    BeUnit *u = e->u;
    DType t = n->load.array->dtype;
    Val mask = e->tile.mask[v];
    const KNode *guard = n->load.guard;
    bool dense = !a->any.lane && ir_dim_equal(a->lane_step, ir_dim_const(1));
    if (dense && is_for_all_lanes(e, guard))
        p = be_select(u, be_emit_get(e, guard, row, v), p, zero_source(e));
    else if (guard)
        mask = both(u, mask, be_emit_get_as(e, guard, row, v, true));
    if (dense)
        return load_dense(e, t, p, mask);
    return gather(e, t, p, be_address_lanes(e, a, row, v), mask);
}

/* Whether rows are contiguous in memory and lanes are not, and there are as
 * many rows as lanes: then strips along the rows are transposed. */
static bool
is_turned(const Emit *e, const KNode *n, const EmitAddress *a, EmitVarying d)
{
    const Dim one = ir_dim_const(1);
    return d.row && d.lane && e->tile.rows == e->tile.lanes && !n->load.guard &&
           !a->any.row && !a->any.lane && ir_dim_equal(a->row_step, one) &&
           !ir_dim_equal(a->lane_step, one);
}

bool
be_emit_lanes_conflict(const Emit *e, const KNode *n)
{
    Dim step = be_index_coef(&n->load.at, e->tile.lane);
    int64_t bytes = (int64_t)dtype_info[n->load.array->dtype].bytes;
    return ir_dim_is_const(step) && step.c && step.c * bytes % PAGE == 0;
}

int
be_emit_strip_length(const Emit *e, const KNode *n)
{
    int most = STRIP_BYTES / (int)dtype_info[n->load.array->dtype].bytes;
    return most > e->tile.lanes || be_emit_lanes_conflict(e, n) ? e->tile.lanes
                                                                : most;
}

/* Rows number, number + num, ... of a strip, one after the other. */
static Val
lanes_of_strip(BeUnit *u, const Val *rows, int lanes, int num, int number)
{
    Val same[BE_MAX_TILE];
    for (int i = 0; i < lanes / num; i++)
        same[i] = rows[i * num + number];
    return be_concatenate(u, same, lanes / num);
}

/* A few elements along memory for each lane, from the `first` row or round on,
 * transposed: one vector for each of as many rows or rounds.  Inactive lanes
 * load from the address of the first one. */
static void
load_strip(Emit *e, const KNode *n, const EmitAddress *a, int v, int first,
           Val *out)
{
    BeUnit *u = e->u;
    DType t = n->load.array->dtype;
    int num = be_emit_strip_length(e, n);
    Type type = be_vector(be_emit_memory_type(e, t), num);
    Val step = be_emit_dim(e, a->lane_step), strip[BE_MAX_TILE];
    Val at = be_address_scalar(e, a, 0, v), mask = e->tile.mask[v];
    at = be_add(u, at, be_emit_word(e, first));
    for (int i = 0; i < e->tile.lanes; i++) {
        Val lane = be_add(u, at, be_mul(u, step, be_emit_word(e, i)));
        if (mask && i)
            lane = be_select(u, be_extract(u, mask, i, 0), lane, at);
        strip[i] =
            be_load(u, type, be_emit_element_pointer(e, n->load.array, lane),
                    (unsigned)dtype_info[t].bytes);
    }
    for (int i = 0; i < num; i++)
        out[i] = lanes_of_strip(u, strip, e->tile.lanes, num, i);
    be_transpose(u, out, num);
    for (int i = 0; i < num; i++)
        out[i] = be_emit_from_memory(u, t, out[i]);
}

static void
load_turned(Emit *e, const KNode *n, const EmitAddress *a, int v)
{
    Val strip[BE_MAX_TILE];
    int num = be_emit_strip_length(e, n);
    for (int row = 0; row < e->tile.rows; row++) {
        if (row % num == 0)
            load_strip(e, n, a, v, row, strip);
        be_emit_set(e, n, row, v, strip[row % num]);
    }
}

bool
be_emit_is_strided(const Emit *e, const KNode *n, const KVar *along)
{
    const Dim one = ir_dim_const(1);
    if (n->kind != K_LOAD || n->load.guard ||
        !ir_dim_equal(be_index_coef(&n->load.at, along), one))
        return false;
    EmitVarying d = be_emit_varying(e, n);
    if (d.row || !d.lane)
        return false;
    bool is_strided = false;
    for (int i = 0; i < n->load.at.num_terms; i++) {
        const KVar *var = n->load.at.terms[i].var;
        if (!e->index_varying[var->id].lane)
            continue;
        if (var != e->tile.lane)
            return false;
        is_strided = !ir_dim_equal(n->load.at.terms[i].coef, one);
    }
    return is_strided && !e->tile.collapsed;
}

EmitValue *
be_emit_strips(Emit *e, const KNode *n)
{
    EmitValue *x = NEW(e->arena, EmitValue);
    EmitAddress a = be_address_of(e, &n->load.at);
    int num = be_emit_strip_length(e, n);
    assert(e->tile.vectors * e->rounds <= BE_MAX_TILE && e->rounds % num == 0);
    for (int v = 0; v < e->tile.vectors; v++)
        for (int first = 0; first < e->rounds; first += num)
            load_strip(e, n, &a, v, first, &x->v[v * e->rounds + first]);
    return x;
}

void
be_emit_load(Emit *e, const KNode *n)
{
    EmitVarying d = be_emit_varying(e, n);
    DType t = n->load.array->dtype;
    const EmitValue *strips = e->strips[n->id];
    for (int v = 0; strips && v < e->tile.vectors; v++)
        be_emit_set(e, n, 0, v, strips->v[v * e->rounds + e->round]);
    if (strips)
        return;
    EmitAddress a = be_address_of(e, &n->load.at);
    if (is_turned(e, n, &a, d)) {
        for (int v = 0; v < e->tile.vectors; v++)
            load_turned(e, n, &a, v);
        return;
    }
    for (int row = 0; row < be_emit_rows(e, d); row++) {
        for (int v = 0; v < be_emit_vectors(e, d); v++) {
            Val p = tile_pointer(e, n->load.array, &a, row, v);
            Val guard = n->load.guard && !d.lane
                            ? be_emit_get(e, n->load.guard, row, v)
                            : NULL;
            Val x = d.lane ? load_lanes(e, n, &a, p, row, v)
                           : load_scalar(e, t, p, guard);
            be_emit_set(e, n, row, v, be_emit_from_memory(e->u, t, x));
        }
    }
}

static void
store_at(Emit *e, const KNode *n, Val p, int row, int v, bool in_lanes)
{
    BeUnit *u = e->u;
    DType t = n->store.array->dtype;
    const KNode *guard = n->store.guard;
    Val x = be_emit_get_as(e, n->store.value, row, v, in_lanes);
    Val mask = in_lanes ? e->tile.mask[v] : NULL;
    x = be_emit_to_memory(u, t, x);
    if (is_for_all_lanes(e, guard))
        p = be_select(u, be_emit_get(e, guard, row, v), p, dummy_sink(e));
    else if (guard)
        mask = both(u, be_emit_get_as(e, guard, row, v, in_lanes), mask);
    if (in_lanes)
        store_dense(e, t, x, p, mask);
    else
        be_store(u, x, p, (unsigned)dtype_info[t].bytes);
}

void
be_emit_store(Emit *e, const KNode *n)
{
    EmitAddress a = be_address_of(e, &n->store.at);
    EmitVarying d = be_address_varying(e, &a);
    for (int row = 0; row < be_emit_rows(e, d); row++) {
        for (int v = 0; v < be_emit_vectors(e, d); v++) {
            Val p = tile_pointer(e, n->store.array, &a, row, v);
            store_at(e, n, p, row, v, d.lane);
        }
    }
}
