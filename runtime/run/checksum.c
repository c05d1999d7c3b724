/*
 * checksum.c - one hash of all variables
 *
 * The same plan and data give the same bits (D2), which this makes visible.
 */
#include "runtime/run/checksum.h"

#include "ir/analysis/per_replica.h"
#include "ir/base/hash/hash.h"
#include "ir/ir.h"
#include "ir/type_bounds.h"
#include "runtime/exec/end.h"
#include "runtime/exec/run_state.h"

enum { BLOCK_BYTES = 64 << 10 };

/* Of the chief. */
static void
take_block(void *hash, int rank, const void *part, size_t n)
{
    (void)rank;
    hash_add(hash, part, n);
}

/* The chief hashes the bytes of all processes, of which that of the replica has
 * these. */
static Status
add_variable(RtRun *run, int replica, RtDevicePtr from, int64_t bytes, Hash *h)
{
    char block[BLOCK_BYTES];
    bool is_here = rt_is_local(run, replica);
    for (int64_t done = 0; done < bytes; done += BLOCK_BYTES) {
        int64_t rest = bytes - done;
        size_t n = rest < BLOCK_BYTES ? (size_t)rest : BLOCK_BYTES;
        if (is_here)
            rt_copy_out(block, rt_ptr_add(from, (size_t)done), n);
        if (rt_rank_of(run, replica) != 0)
            TRY(rt_gather(run, block, is_here ? n : 0, take_block, h));
        else if (is_here)
            hash_add(h, block, n);
    }
    return OK;
}

/* The bytes of every variable of a replica, in order. */
static Status
add_replica(RtRun *run, int replica, Hash *h)
{
    const IrModule *m = run->module;
    const RtExecutor *executor = &run->replicas[replica];
    for (int i = 0; i < m->vars.len; i++) {
        const IrVar *v = m->vars.data[i];
        int64_t n = 0;
        bool is_there = replica == m->home || v->type.locality != LOCAL_ON;
        RtDevicePtr arena =
            ir_var_is_shared(v) ? executor->shared : executor->base;
        if (is_there && ir_type_bytes(m, &v->type, &n))
            TRY(add_variable(run, replica,
                             rt_ptr_add(arena, (size_t)v->place.offset), n, h));
    }
    return OK;
}

Status
rt_print_checksum(RtRun *run)
{
    Hash *h = hash_new(run->arena);
    for (int i = 0; i < run->num_replicas; i++)
        TRY(add_replica(run, i, h));
    const char *hash = hash_end(run->arena, h);
    TRY(rt_devices_status(run));
    if (rt_is_chief(run))
        fprintf(run->options->out, "checksum %s\n", hash);
    return OK;
}
