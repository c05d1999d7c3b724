/*
 * not_finite.c - the warning that a step's scalar is nan or infinite
 */
#include "runtime/exec/not_finite.h"

#include <math.h>
#include "ir/base/message.h"
#include "ir/base/str.h"
#include "runtime/exec/run_state.h"

void
rt_note_scalar(RtRun *run, const IrOp *op, DType t, const void *bytes)
{
    const IrOp *none = NULL;
    double x = dtype_is_float(t) ? scalar_load(t, bytes, 0).f : 0.0;
    if (op->kind == OP_fetch_var ? isnan(x) : !isfinite(x))
        atomic_compare_exchange_strong(&run->not_finite, &none, op);
}

void
rt_warn_not_finite(RtRun *run)
{
    const RtOptions *o = run->options;
    const IrOp *op =
        atomic_load_explicit(&run->not_finite, memory_order_relaxed);
    bool is_silent = o->quiet || o->check_nan || !rt_is_chief(run);
    if (!op || run->has_warned || is_silent)
        return;
    const Diag *d = run->plan->diag;
    Arena *scratch = arena_new(NULL, "a warning");
    Str s = str_new(scratch);
    run->has_warned = true;
    rt_progress_clear(&run->progress);
    const char *text = message_printf(
        scratch,
        "a value of step %lld is not finite, most often of a learning rate "
        "that is too high; tfd-run --check-nan names what made it",
        (long long)run->stats.steps + 1);
    str_addf(&s, "%s:%u:%u: warning: %s\n", diag_source_name(d, op->loc.file),
             op->loc.line, op->loc.col, text);
    message_shown(str_text(&s));
    diag_add_excerpt(&s, d, op->loc);
    fputs(str_text(&s), o->err);
    arena_release(scratch);
}
