/*
 * layout.h - the operands of an all_reduce as one row of steps
 *
 * All operands stand one behind the other, in steps of COLL_SLICE_STEP elements
 * of which the last of an operand may be short.  Slices and pieces are ranges
 * of steps, so they begin at whole elements and, in aligned memory, aligned.
 * The same range has other bytes as nodes (nodes.h) than as results.
 */
#ifndef TFD_RUNTIME_COLL_MESSAGES_LAYOUT_H
#define TFD_RUNTIME_COLL_MESSAGES_LAYOUT_H

#include "ir/base/arena.h"
#include "runtime/coll/algorithm/algorithm.h"

typedef enum RtForm { FORM_NODE, FORM_RESULT, NUM_FORMS } RtForm;

typedef struct RtSteps {
    int64_t begin, end;
} RtSteps;

typedef struct RtLayoutOperand {
    int64_t count;            /* elements, of this call */
    int64_t first;            /* step */
    size_t width[NUM_FORMS];  /* bytes of an element */
    size_t offset[NUM_FORMS]; /* of the first element */
} RtLayoutOperand;

typedef struct RtLayout {
    int num;
    RtLayoutOperand *operands; /* width is set once */
    int64_t steps;
    size_t bytes[NUM_FORMS];
} RtLayout;

/* Elements begin .. end of an operand. */
typedef struct RtFragment {
    int operand;
    int64_t begin, end;
} RtFragment;

RtLayout rt_layout_new(Arena *a, int num);
/* For these counts; allocates nothing. */
void rt_layout_set(RtLayout *l, const int64_t *counts);

size_t rt_layout_offset(const RtLayout *l, RtForm form, int64_t step);
size_t rt_layout_bytes(const RtLayout *l, RtForm form, RtSteps s);
/* The parts of a range in turn: *f begins with {-1}.  false: there is none. */
bool rt_layout_next(const RtLayout *l, RtSteps s, RtFragment *f);

/* Part k of n about equal ones. */
RtSteps rt_steps_slice(RtSteps s, int n, int k);

#endif
