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

static void
add_variable(Hash *h, RtDevicePtr from, int64_t bytes)
{
    char block[BLOCK_BYTES];
    for (int64_t done = 0; done < bytes; done += BLOCK_BYTES) {
        int64_t rest = bytes - done;
        size_t n = rest < BLOCK_BYTES ? (size_t)rest : BLOCK_BYTES;
        rt_copy_out(block, rt_ptr_add(from, (size_t)done), n);
        hash_add(h, block, n);
    }
}

/* The bytes of every variable of a replica, in order. */
static void
add_replica(const RtRun *run, int replica, Hash *h)
{
    const IrModule *m = run->module;
    const RtExecutor *executor = &run->replicas[replica];
    for (int i = 0; i < m->vars.len; i++) {
        const IrVar *v = m->vars.data[i];
        int64_t n = 0;
        bool is_there = replica == 0 || v->type.locality != LOCAL_ON;
        RtDevicePtr arena =
            ir_var_is_shared(v) ? executor->shared : executor->base;
        if (is_there && ir_type_bytes(m, &v->type, &n))
            add_variable(h, rt_ptr_add(arena, (size_t)v->place.offset), n);
    }
}

Status
rt_print_checksum(const RtRun *run)
{
    Hash *h = hash_new(run->arena);
    for (int i = 0; i < run->num_replicas; i++)
        add_replica(run, i, h);
    const char *hash = hash_end(run->arena, h);
    TRY(rt_devices_status(run));
    fprintf(run->options->out, "checksum %s\n", hash);
    return OK;
}
