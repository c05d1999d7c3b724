/*
 * compare.c - a kernel's PTX on the emulator against its object for this CPU
 *
 * The device's memory is one range for each array, far from all others, that
 * begins at an odd multiple of 16: what needs more alignment than ptx.h of the
 * backend promises is found, and so is the first byte outside.  Inputs are
 * read-only, and outputs invalid until they are written.
 */
#include "tests/cuda/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend/codegen/emit.h"
#include "backend/ptx/ptx.h"
#include "tests/ref/kernel_eval.h"

enum { MAX_WORDS = 64, FILL = 0xa5 };

typedef struct Array {
    DType dtype;
    bool is_output;
    int64_t size;
    size_t bytes;
    int from;   /* of an output that begins as an input: which; else -1 */
    int shared; /* of an input whose memory an output has: which; else -1 */
    uint8_t *input, *expected, *got, *valid;
} Array;

struct Comparison {
    Arena *arena;
    const BeKernel *kernel;
    int num, num_words;
    bool has_scratch;
    Array *arrays; /* then the scratch memory, if there is some */
    int64_t dims[MAX_WORDS];
    LaunchShape shape;
    uint64_t limit;
};

/* ---- inputs ------------------------------------------------------------- */

static uint64_t
next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static const double rare[] = {
    0.0,       -0.0,   1e-42, -3.5,   88.9,   2.5,    65504,    INFINITY,
    -INFINITY, NAN,    1.0,   -1e-42, 5e-324, 3.4e38, 1.7e308,  -103.5,
    1e-8,      9.3e18, 0.25,  -1.0,   127.5,  -6.5e4, -2.2e-14, 2147483648.0};
enum { NUM_RARE = sizeof rare / sizeof *rare, NUM_TAME = 7 };

static Scalar
made_up_float(DType t, uint64_t r, bool wild)
{
    double x = (double)(int64_t)(r >> 11) / (double)(INT64_C(1) << 51) - 2;
    if (r % (wild ? 3 : 64) == 0)
        x = rare[(r >> 8) % (wild ? NUM_RARE : NUM_TAME)];
    else if (wild && r % 3 == 1)
        x = ldexp(x, (int)((r >> 4) % 40) - 30);
    return scalar_float(t, x);
}

static Scalar
whole_float(DType t, uint64_t r, bool wild)
{
    static const double no_numbers[] = {INFINITY, -INFINITY, NAN};
    if (wild && r % 97 == 0)
        return scalar_float(t, no_numbers[(r >> 8) % 3]);
    return scalar_float(t, (double)(r >> 20 & 7) - 3);
}

static Scalar
made_up_int(DType t, uint64_t r, bool wild)
{
    int64_t x = (int64_t)(r >> 20) % 60;
    if (wild && r % 3 == 0)
        x = (int64_t)next_random(&r);
    else if (wild && r % 3 == 1)
        x = ((int64_t)1 << (r >> 8) % 63) - (int64_t)(r >> 3) % 2;
    return scalar_int(t, x);
}

/* Numbers around 0, most of them. */
static void
fill(Array *x, uint64_t seed, const LaunchShape *shape)
{
    bool wild = shape->wild;
    for (int64_t i = 0; i < x->size; i++) {
        uint64_t r = next_random(&seed);
        scalar_store(x->dtype, x->input, i,
                     !dtype_is_float(x->dtype) ? made_up_int(x->dtype, r, wild)
                     : shape->whole            ? whole_float(x->dtype, r, wild)
                                    : made_up_float(x->dtype, r, wild));
    }
}

/* ---- arrays ------------------------------------------------------------- */

static void
set_dims(Comparison *c, int64_t n)
{
    const BeKernel *k = c->kernel;
    for (int i = 0; i < k->pairs.len; i++) {
        const KPair *p = &k->pairs.data[i];
        int64_t all = p->total < 0 ? n : p->total;
        c->dims[ir_batch_word(i, BATCH_n)] = n < p->bound ? n : p->bound;
        c->dims[ir_batch_word(i, BATCH_N)] = 2 * n < all ? 2 * n : all;
        c->dims[ir_batch_word(i, BATCH_ROW_START)] = n + i;
    }
    c->dims[be_kernel_replica_word(k)] = 1;
    c->num_words = be_kernel_replica_word(k) + k->uses_replica;
}

static int64_t
size_of(Dim d, const int64_t *dims)
{
    return ir_dim_is_const(d)
               ? d.c
               : ir_dim_value(d, dims[be_kernel_symbol_word(d.sym)]);
}

static void
make_array(Comparison *c, int i)
{
    const BeKernel *k = c->kernel;
    int num_in = k->arrays[K_IN].len;
    const KArray *from = i < num_in ? k->arrays[K_IN].data[i]
                                    : k->arrays[K_OUT].data[i - num_in];
    Array *x = &c->arrays[i];
    x->dtype = from->dtype;
    x->is_output = i >= num_in;
    x->size = size_of(from->size, c->dims);
    x->bytes = (size_t)x->size * dtype_info[x->dtype].bytes;
    x->from = x->is_output && from->from ? from->from->index : -1;
    x->shared = -1;
    x->input = arena_alloc(c->arena, x->bytes + 64);
    if (!x->is_output) {
        fill(x, c->shape.blocks + (uint64_t)i * 977, &c->shape);
        return;
    }
    x->expected = arena_alloc(c->arena, x->bytes + 64);
    x->got = arena_alloc(c->arena, x->bytes + 64);
    x->valid = arena_alloc(c->arena, x->bytes + 64);
    memset(x->input, FILL, x->bytes);
    if (x->from >= 0)
        memcpy(x->input, c->arrays[x->from].input, x->bytes);
}

/* What two launches share. */
static void
make_scratch(Comparison *c)
{
    const BeTarget *target;
    int num;
    Array *x = &c->arrays[c->num];
    Status st = be_targets_parse(c->arena, "sm_80", &target, &num);
    if (st)
        exit(status_report(st, "compare", stderr));
    size_t bytes = (size_t)be_ptx_launches(c->kernel, target).scratch;
    c->has_scratch = bytes > 0;
    *x = (Array){.bytes = bytes, .is_output = true, .shared = -1};
    x->got = arena_alloc(c->arena, bytes + 64);
    x->valid = arena_alloc(c->arena, bytes + 64);
}

/* The output i, if the input `in` may have its memory: as large, of a dtype of
 * the same width, and of neither anything else is the same. */
static bool
may_share(const Comparison *c, int in, int i)
{
    const BeKernel *k = c->kernel;
    int num_in = k->arrays[K_IN].len;
    const Array *x = &c->arrays[in], *y = &c->arrays[i];
    for (int n = 0; n < num_in; n++)
        if (c->arrays[n].shared == i)
            return false;
    return x->shared < 0 && y->from < 0 && x->dtype == y->dtype &&
           x->size == y->size &&
           be_ptx_may_share(k, k->arrays[K_IN].data[in],
                            k->arrays[K_OUT].data[i - num_in]);
}

static void
share_memory(Comparison *c)
{
    const BeKernel *k = c->kernel;
    int num_in = k->arrays[K_IN].len;
    /* A sort stores elements in an order of its own. */
    if (!c->shape.in_place || k->segments.len ||
        be_kernel_contains(&k->body, K_SORT))
        return;
    for (int i = num_in; i < c->num; i++)
        for (int in = 0; in < num_in; in++)
            if (may_share(c, in, i))
                c->arrays[in].shared = i;
}

bool
comparison_is_in_place(const Comparison *c)
{
    for (int i = 0; i < c->kernel->arrays[K_IN].len; i++)
        if (c->arrays[i].shared >= 0)
            return true;
    return false;
}

/* ---- the CPU ------------------------------------------------------------ */

static void
run_on_cpu(Comparison *c, const RtCode *cpu)
{
    union {
        TfdFunction *function;
        TfdKernel *kernel;
    } found = {.function = rt_code_function(cpu, c->kernel->name)};
    void **ptrs = NEW_ARRAY(c->arena, void *, (size_t)c->num + 1);
    for (int i = 0; i < c->num; i++) {
        Array *x = &c->arrays[i];
        if (x->is_output)
            memcpy(x->expected, x->input, x->bytes);
        ptrs[i] = x->is_output ? x->expected : x->input;
    }
    int64_t items = kernel_eval_items(c->kernel, c->dims);
    found.kernel(ptrs, c->dims, 0, items);
}

Comparison *
comparison_new(Arena *a, const BeKernel *k, const RtCode *cpu,
               LaunchShape shape)
{
    Comparison *c = NEW(a, Comparison);
    *c = (Comparison){.arena = a, .kernel = k, .shape = shape};
    c->num = k->arrays[K_IN].len + k->arrays[K_OUT].len;
    c->arrays = NEW_ARRAY(a, Array, (size_t)c->num + 1);
    set_dims(c, shape.rows);
    for (int i = 0; i < c->num; i++)
        make_array(c, i);
    make_scratch(c);
    share_memory(c);
    run_on_cpu(c, cpu);
    return c;
}

void
comparison_limit(Comparison *c, uint64_t instructions)
{
    c->limit = instructions;
}

/* ---- the emulator ------------------------------------------------------- */

enum { APART = 40, ALIGN = 16 };

static uint64_t
address_of(int i)
{
    return ((uint64_t)i + 1) << APART | ALIGN;
}

static bool
find_array(void *context, uint64_t address, PtxRange *out)
{
    const Comparison *c = context;
    uint64_t i = (address >> APART) - 1;
    if (i >= (uint64_t)(c->num + c->has_scratch))
        return false;
    const Array *x = &c->arrays[i];
    uint64_t begin = address_of((int)i);
    *out = (PtxRange){.begin = begin,
                      .end = begin + x->bytes,
                      .host = x->is_output ? x->got : x->input,
                      .valid = x->valid,
                      .read_only = !x->is_output};
    return address >= begin && address < out->end;
}

static void
begin_outputs(Comparison *c)
{
    memset(c->arrays[c->num].valid, 0, c->arrays[c->num].bytes);
    for (int i = 0; i < c->num; i++) {
        Array *x = &c->arrays[i];
        if (!x->is_output)
            continue;
        memcpy(x->got, x->input, x->bytes);
        memset(x->valid, x->from >= 0 ? 0xff : 0, x->bytes);
    }
    for (int i = 0; i < c->num; i++) {
        const Array *x = &c->arrays[i];
        if (x->shared < 0)
            continue;
        memcpy(c->arrays[x->shared].got, x->input, x->bytes);
        memset(c->arrays[x->shared].valid, 0xff, x->bytes);
    }
}

static bool
same_element(const Array *x, int64_t i)
{
    size_t bytes = dtype_info[x->dtype].bytes;
    size_t at = (size_t)i * bytes;
    return !memcmp(x->expected + at, x->got + at, bytes) ||
           (dtype_is_float(x->dtype) &&
            isnan(scalar_load(x->dtype, x->expected, i).f) &&
            isnan(scalar_load(x->dtype, x->got, i).f));
}

static const char *
difference(const Comparison *c)
{
    for (int i = 0; i < c->num; i++) {
        const Array *x = &c->arrays[i];
        for (int64_t n = 0; x->is_output && n < x->size; n++)
            if (!same_element(x, n))
                return arena_printf(c->arena,
                                    "%s: array %d[%lld] differs from the CPU's",
                                    c->kernel->name, i, (long long)n);
    }
    return NULL;
}

static uint64_t *
params_of(const Comparison *c, size_t *bytes)
{
    int pointers = c->num + c->has_scratch;
    size_t num = (size_t)(pointers + c->num_words);
    uint64_t *words = NEW_ARRAY(c->arena, uint64_t, num + 1);
    for (int i = 0; i < pointers; i++)
        words[i] =
            address_of(c->arrays[i].shared < 0 ? i : c->arrays[i].shared);
    for (int i = 0; i < c->num_words; i++)
        words[pointers + i] = (uint64_t)c->dims[i];
    *bytes = num * sizeof *words;
    return words;
}

static bool
launch(Comparison *c, PtxMachine *machine, const PtxKernel *kernel,
       unsigned checks, PtxReport *report)
{
    PtxLaunch l = {.kernel = kernel,
                   .grid = {c->shape.blocks, 1, 1},
                   .block = {ptx_kernel_info(kernel)->reqntid[0], 1, 1},
                   .memory = {find_array, c},
                   .checks = checks,
                   .seed = 1,
                   .max_instructions = c->limit};
    l.params = params_of(c, &l.param_bytes);
    return ptx_launch(machine, &l, report);
}

Outcome
comparison_run(Comparison *c, PtxMachine *machine, const PtxModule *module,
               unsigned checks, const char **why)
{
    PtxReport report;
    begin_outputs(c);
    for (int i = 0; i < ptx_module_num_kernels(module); i++)
        if (!launch(c, machine, ptx_module_kernel(module, i), checks,
                    &report)) {
            *why = arena_strdup(c->arena, report.text);
            return OUTCOME_REPORTED;
        }
    *why = difference(c);
    return *why ? OUTCOME_DIFFERENT : OUTCOME_SAME;
}
