/*
 * index.h - what stands in brackets behind a tensor
 */
#ifndef TFD_FRONTEND_INDEX_H
#define TFD_FRONTEND_INDEX_H

#include "frontend/eval.h"

typedef enum FeIndexKind {
    INDEX_WHOLE,  /* : */
    INDEX_RANGE,  /* start:stop:step, of a known length */
    INDEX_BACK,   /* ::-1 of a length that is not known */
    INDEX_NUMBER, /* i: the axis goes away */
    INDEX_VALUE,  /* i, known when the program runs */
    INDEX_NEW     /* none: a new axis of 1 */
} FeIndexKind;

/* One axis of the operand; or a new one. */
typedef struct FeIndex {
    FeIndexKind kind;
    int64_t start, step; /* RANGE; start of a NUMBER */
    int64_t size;        /* RANGE: how many elements */
    IrValue *value;      /* VALUE: an i64 scalar, or a tensor of integers */
} FeIndex;

typedef struct FeIndices {
    FeIndex items[2 * IR_MAX_RANK]; /* one for each axis, and new ones */
    int len;
} FeIndices;

/* Reads the items of an INDEX on a value of type t; axes that are not
 * mentioned are whole.  False with a message. */
bool fe_indices(Lower *cx, const AstList *items, const IrType *t, Loc loc,
                FeIndices *out);

/* Stops the program where an element of index is not in 0 .. size - 1. */
void fe_check_range(Lower *cx, IrValue *index, Dim size, Loc loc);
/* The parts of x along axis whose numbers index has; not checked. */
FeValue *fe_take(Lower *cx, IrValue *x, IrValue *index, int64_t axis, Loc loc);

#endif
