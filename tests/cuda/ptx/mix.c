/*
 * mix.c - which instructions a kernel has, or executes
 */
#include "tests/cuda/ptx/mix.h"

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

static void
count_access(const Insn *i, uint64_t times, PtxMix *mix)
{
    const Access *a = &i->access;
    bool loads = begins_with(i->name, "ld.");
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
    mix->float_arithmetic += is_float_arithmetic(i->name) ? times : 0;
    mix->barriers += i->flow == FLOW_BARRIER ? times : 0;
    mix->branches += i->flow == FLOW_BRANCH ? times : 0;
    mix->warp_ops += i->flow == FLOW_WARP ? times : 0;
    if (begins_with(i->name, "cp.async.c") && i->access.size)
        count_async(i, times, mix);
    else if (begins_with(i->name, "ld.") || begins_with(i->name, "st."))
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
