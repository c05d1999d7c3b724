/*
 * check_nan_impl.h - shared by the files of --check-nan
 *
 *   check_nan.c        the hooks: looks at memory before and after each kernel
 *   check_nan_sites.c  what is to be looked at, found before the run
 *   check_nan_words.c  the message: what it is, where it came from, where it
 *                      goes
 */
#ifndef TFD_RUNTIME_RUN_CHECK_NAN_IMPL_H
#define TFD_RUNTIME_RUN_CHECK_NAN_IMPL_H

#include "runtime/exec/function.h"
#include "runtime/check/finite.h"

/* How a result of a kernel comes from what the kernel is given. */
typedef struct RtDescent {
    uint64_t operands; /* bit i: operand i, and all from 63 on for bit 63 */
    unsigned written;  /* of its constants, what is not finite */
    bool computes;     /* more than moving elements and choosing among them */
    bool is_extremum;  /* of elements that may be none: infinite then */
} RtDescent;

/* What the replicas of this process gave to a collective, whichever variant of
 * the program each runs: how often each has begun it, and of the last two
 * times, in turn, what each operand had. */
typedef struct RtGiven {
    uint32_t *calls;
    _Atomic unsigned char *seen;
} RtGiven;

/* A kernel, or the start or the done of an all_reduce. */
typedef struct RtCheckedSite {
    const IrOp *op; /* NULL: nothing is checked at this position */
    RtValue *in, *out;
    bool *is_lost; /* of a result: at the next position its bytes may be others
                    */
    RtDescent *descent;                  /* of a kernel, for each result */
    const struct RtCheckedSite *started; /* of a done: its start */
    RtGiven *given;                      /* of a start */
} RtCheckedSite;

/* The sites of a function, one for each position; given: of each collective. */
Status rt_find_checked_sites(RtRun *run, RtFunction *fn,
                             RtGiven *given) MUST_USE;

/* What came of one: a result that has `kind`, of operands that have `in`. */
typedef struct RtNanFinding {
    RtInvocation *inv;
    const RtCheckedSite *site;
    int result;
    unsigned kind, in;
    const unsigned *in_each; /* of each operand; NULL: an all_reduce */
} RtNanFinding;

/* Ends the executor's work with the fault. */
void rt_report_nan(const RtNanFinding *f);

/* The bytes of a value of main or of a program; of a device with memory of its
 * own a copy in the arena, which comes after what the program has enqueued. */
const char *rt_checked_bytes(Arena *a, const RtInvocation *inv,
                             const RtValue *v);

#endif
