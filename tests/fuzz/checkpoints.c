/*
 * checkpoints.c - states of a pipeline of every stage, as checkpoints
 *
 * Of a run's state this is the part with lengths and positions in it; the rest
 * is bytes of places that the plan gives (tests/resume damages whole ones).
 */
#include "tests/fuzz/checkpoints.h"

#include <string.h>
#include "ir/base/str.h"
#include "ir/ir.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/data.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_STEPS = 1000 };

static const char text[] =
    "tfd-ir 1 phase ir\n"
    "strategy mirrored devices \"cpu:0-1\" replicas 2\n"
    "symbols b3 <= 3 alone\n"
    "dataset @second {\n"
    "  range start=5 stop=40 : i64\n"
    "  skip count=3 : i64\n"
    "  shuffle buffer=4 seed=1 reshuffle=1 has_seed=1 : i64\n"
    "}\n"
    "dataset @third {\n"
    "  range start=0 stop=9 : i64\n"
    "  repeat count=2 : i64\n"
    "}\n"
    "dataset @d {\n"
    "  range start=0 stop=12 : i64\n"
    "  shard num=2 index=1 : i64\n"
    "  cache : i64\n"
    "  concat with @third : i64\n"
    "  window size=3 stride=2 : i64[3]\n"
    "  unbatch : i64\n"
    "  zip with @second : i64, i64\n"
    "  shuffle buffer=5 seed=2 reshuffle=1 has_seed=1 : i64, i64\n"
    "  repeat count=2 : i64, i64\n"
    "  take count=37 : i64, i64\n"
    "  batch size=3 drop_remainder=0 : i64[b3], i64[b3]\n"
    "  prefetch depth=2 : i64[b3], i64[b3]\n"
    "}\n"
    "iter @it of @d shard off\n"
    "func @main() main {\n  return\n}\n";

static const RtOwner owner = {.plan = "00000000000000000000000000000000",
                              .num_replicas = 2};

static Status
open_pipeline(Arena *a, RtIter **out)
{
    Diag *d = diag_new(a);
    RtDataOptions options = {.dir = ""};
    uint16_t file = diag_add_source(d, "fuzz.tir", text, strlen(text));
    IrModule *m = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    if (!m || !ir_verify(m, d))
        fuzz_bug("the pipeline is no IR:\n%s", diag_text(d, a));
    return rt_iter_new(m, m->iters.data[0], &options, out);
}

static Status
take_steps(RtIter *it, int most)
{
    bool more = true;
    for (int i = 0; i < most && more; i++) {
        TRY(rt_iter_has_next(it, &more));
        if (more)
            TRY(rt_iter_next(it));
    }
    return OK;
}

/* A pass that is open, and one more. */
static Status
go_on(RtIter *it, RtArchive *ar)
{
    TRY(rt_iter_archive(it, ar, NULL));
    TRY(rt_archive_end(ar));
    if (rt_iter_passes(it) > 0)
        TRY(take_steps(it, MAX_STEPS));
    TRY(rt_iter_open(it, 1));
    return take_steps(it, MAX_STEPS);
}

static Status
try_in(Arena *a, RtIter **it, const char *path, const char *bytes, size_t len)
{
    RtCheckpoint c;
    TRY(rt_checkpoint_parse(a, path, bytes, len, &c));
    TRY(open_pipeline(a, it));
    RtArchive ar = rt_archive_reader(a, c.state, c.len);
    return go_on(*it, &ar);
}

Status
checkpoint_try(const char *path, const char *bytes, size_t len)
{
    Arena *a = arena_new(NULL, "fuzz");
    RtIter *it = NULL;
    Status st = try_in(a, &it, path, bytes, len);
    rt_iter_close(it);
    arena_release(a);
    return st;
}

static Status
make_in(Arena *a, RtIter **it, const char *folder, int steps)
{
    RtCheckpoints *c;
    RtArchive ar = rt_archive_writer(a, 0);
    TRY(open_pipeline(a, it));
    TRY(rt_iter_open(*it, 0));
    TRY(take_steps(*it, steps));
    TRY(rt_iter_archive(*it, &ar, NULL));
    TRY(rt_checkpoints_open(folder, &owner, &c));
    rt_checkpoints_write(c, steps, &ar, NULL);
    Status st = rt_checkpoints_wait(c);
    rt_checkpoints_close(c);
    return st;
}

Status
checkpoint_make(const char *folder, int steps)
{
    Arena *a = arena_new(NULL, "fuzz");
    RtIter *it = NULL;
    Status st = make_in(a, &it, folder, steps);
    rt_iter_close(it);
    arena_release(a);
    return st;
}
