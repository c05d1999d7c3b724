/*
 * mix.c - which instructions a kernel has, or executes
 */
#include "tests/cuda/ptx/mix.h"

#include <stdlib.h>
#include <string.h>
#include "tests/cuda/ptx/program.h"

static bool
begins_with(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

static bool
is_float_arithmetic(const char *name)
{
    static const char *const kinds[] = {"fma.", "add.",  "sub.", "mul.", "div.",
                                        "rcp.", "sqrt.", "min.", "max."};
    if (!strstr(name, ".f32") && !strstr(name, ".f64") && !strstr(name, "f16"))
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (begins_with(name, kinds[i]))
            return true;
    return false;
}

/* Sequences of some eight instructions. */
static bool
is_division(const char *name)
{
    return begins_with(name, "div.") || begins_with(name, "rcp.") ||
           begins_with(name, "sqrt.");
}

static void
count_access(const Insn *i, uint64_t times, PtxMix *mix)
{
    const Access *a = &i->access;
    bool loads = begins_with(i->name, "ld");
    uint64_t lane = (uint64_t)a->size * a->count;
    uint64_t bytes = times * lane * NUM_LANES;
    uint64_t wide = lane == 16 ? bytes : 0;
    if (a->space == SPACE_GLOBAL) {
        *(loads ? &mix->loads_global : &mix->stores_global) += times;
        mix->global_bytes += bytes;
        mix->global_bytes_128 += wide;
    } else if (a->space == SPACE_SHARED) {
        *(loads ? &mix->loads_shared : &mix->stores_shared) += times;
        mix->shared_bytes += bytes;
        mix->shared_bytes_128 += wide;
    }
}

/* Writes shared memory and reads global memory, each once. */
static void
count_async(const Insn *i, uint64_t times, PtxMix *mix)
{
    uint64_t bytes = times * i->access.size * NUM_LANES;
    uint64_t wide = i->access.size == 16 ? bytes : 0;
    mix->copies_async += times;
    mix->global_bytes += bytes;
    mix->shared_bytes += bytes;
    mix->global_bytes_128 += wide;
    mix->shared_bytes_128 += wide;
}

static void
count_insn(const Insn *i, uint64_t times, PtxMix *mix)
{
    mix->all += times;
    mix->fma_f32 += !strcmp(i->name, "fma.rn.f32") ? times : 0;
    bool is_float = is_float_arithmetic(i->name);
    mix->float_arithmetic += is_float ? times : 0;
    mix->double_arithmetic += is_float && strstr(i->name, ".f64") ? times : 0;
    mix->divisions += is_float && is_division(i->name) ? times : 0;
    mix->mma += begins_with(i->name, "mma.") ? times : 0;
    mix->barriers += i->flow == FLOW_BARRIER ? times : 0;
    mix->branches += i->flow == FLOW_BRANCH ? times : 0;
    mix->warp_ops += i->flow == FLOW_WARP ? times : 0;
    if (begins_with(i->name, "cp.async.c") && i->access.size)
        count_async(i, times, mix);
    else if (begins_with(i->name, "ld.") || begins_with(i->name, "st.") ||
             begins_with(i->name, "ldmatrix."))
        count_access(i, times, mix);
}

PtxMix
ptx_kernel_mix(const PtxKernel *k, const uint64_t *executed)
{
    PtxMix mix = {0};
    for (int n = 0; n < k->code.len; n++)
        count_insn(&k->code.data[n], executed ? executed[n] : 1, &mix);
    return mix;
}

static bool
is_global_load(const Insn *i)
{
    bool copies = begins_with(i->name, "cp.async.c") && i->access.size;
    return copies ||
           (begins_with(i->name, "ld.") && i->access.space == SPACE_GLOBAL);
}

/* Whether execution may come to an instruction from elsewhere, or leaves from
 * it, or waits in it. */
static bool *
find_ends(const PtxKernel *k)
{
    bool *ends = calloc((size_t)k->code.len + 1, sizeof *ends);
    if (!ends)
        abort();
    for (int n = 0; n < k->code.len; n++) {
        const Insn *i = &k->code.data[n];
        if (i->flow == FLOW_BRANCH)
            ends[i->target] = true;
        if (i->flow == FLOW_BRANCH || i->flow == FLOW_BARRIER)
            ends[n] = true;
    }
    return ends;
}

uint64_t
ptx_kernel_load_groups(const PtxKernel *k, const uint64_t *executed)
{
    uint64_t sum = 0;
    bool *ends = find_ends(k), in_group = false;
    for (int n = 0; n < k->code.len; n++) {
        in_group = in_group && !ends[n];
        if (!is_global_load(&k->code.data[n]))
            continue;
        sum += in_group ? 0 : executed[n];
        in_group = true;
    }
    free(ends);
    return sum;
}
