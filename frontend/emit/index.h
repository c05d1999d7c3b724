/*
 * index.h - the indices in brackets behind a tensor
 */
#ifndef TFD_FRONTEND_EMIT_INDEX_H
#define TFD_FRONTEND_EMIT_INDEX_H

#include "frontend/context/eval.h"
#include "frontend/context/messages.h"

typedef enum FeIndexKind {
    INDEX_FULL,     /* : */
    INDEX_RANGE,    /* start:stop:step, of a known length */
    INDEX_REVERSED, /* ::-1 of a length that is not known */
    INDEX_STATIC,   /* i: the axis goes away */
    INDEX_DYNAMIC,  /* i, known when the program runs */
    INDEX_NEW       /* none: a new axis of 1 */
} FeIndexKind;

/* One axis of the operand; or a new one. */
typedef struct FeIndex {
    FeIndexKind kind;
    int64_t start, step; /* RANGE; start of a NUMBER */
    int64_t size;        /* RANGE: how many elements */
    IrValue *value;      /* VALUE: an i64 scalar, or a tensor of integers */
    /* For messages: whose axis it is (NULL: no variable's), what has the index,
     * as it is written, and which of its axes this is. */
    const char *var, *of;
    int rank; /* of that, where this is its only index; else 0 */
    int axis;
} FeIndex;

typedef struct FeIndices {
    FeIndex items[2 * IR_MAX_RANK]; /* one for each axis, and new ones */
    int len;
} FeIndices;

/* Reads the items of n, an INDEX on a value; axes that are not
 * mentioned are whole.  False with a message. */
bool fe_indices(Lower *cx, const AstNode *n, IrValue *of, FeIndices *out);

/* The axis that an index is of, for messages. */
typedef struct FeAxis {
    Dim size;
    const char *var; /* whose axis it is, or NULL */
    int number;      /* of its axes */
    Loc list;        /* x[i] of a list x that is written out; or NO_LOC */
} FeAxis;

/* The error that an index is of dtype t; false. */
bool fe_index_dtype_error(Lower *cx, DType t, const FeOwn *at);
/* Asks that every element of index is in 0 .. size - 1: of a constant now,
 * false with a message; else the program stops where one is not. */
bool fe_check_range(Lower *cx, IrValue *index, const FeAxis *axis,
                    const FeOwn *at);
/* The same of labels, which are the numbers of so many classes.  call is that
 * of one_hot, and written where its size is; NO_LOC where the library calls it.
 */
bool fe_check_labels(Lower *cx, IrValue *labels, Dim size, const FeOwn *at,
                     Loc call, Loc written);
/* The variable whose value x is, or NULL. */
const char *fe_variable_of(const IrValue *x);
/* From here on index is known to be in range and is not checked again. */
void fe_mark_index_checked(Lower *cx, IrValue *index, Dim size);
/* The error that the axis, of a length that is known, has no index i; false. */
bool fe_index_error(Lower *cx, int64_t i, const FeAxis *axis, const FeOwn *at);
/* Stops the program where an axis, of a length that it knows, has no index i,
 * which counts from the end where it is negative. */
void fe_check_static_index(Lower *cx, int64_t i, Dim size, const char *var,
                           Loc loc);
/* A dimension as an i64. */
IrValue *fe_length_of(Lower *cx, Dim size, Loc loc);
/* The parts of x along axis whose numbers index has. */
FeValue *fe_take(Lower *cx, IrValue *x, IrValue *index, int64_t axis, Loc loc);

#endif
