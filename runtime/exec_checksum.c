/*
 * exec_checksum.c - one number for all that was trained
 *
 * The same plan and data give the same bits (D2); this is how to see it.
 */
#include "ir/build.h"
#include "runtime/base/hash.h"
#include "runtime/exec_impl.h"

/* The bytes of every variable of a replica, in order. */
static void
add_replica(const RtRun *run, int replica, Str *bytes)
{
    const IrModule *m = run->module;
    RtDevice *d = run->devices[replica];
    for (int i = 0; i < m->vars.len; i++) {
        const IrVar *v = m->vars.data[i];
        int64_t n = 0;
        bool is_there = replica == 0 || v->type.locality != LOCAL_ON;
        if (!is_there || !ir_type_bytes(m, &v->type, &n) || n == 0)
            continue;
        char *copy = arena_alloc(run->arena, (size_t)n);
        d->ops->copy_out(d, copy, d->arena + v->place.offset, (size_t)n);
        str_addn(bytes, copy, (size_t)n);
    }
}

void
rt_print_checksum(const RtRun *run)
{
    Str bytes = str_new(run->arena);
    for (int i = 0; i < run->num_replicas; i++)
        add_replica(run, i, &bytes);
    fprintf(run->options->out, "checksum %s\n",
            hash_text(run->arena, str_text(&bytes), bytes.len));
}
