/*
 * lifetime.h - when values are live
 *
 * Positions number the operations of a function in the order of its text,
 * doubled: operation p reads at 2p and has written at 2p + 1.  When a loop uses
 * a value made outside of it, the use lasts to the loop's end.  When a replica
 * uses a value that all replicas of its device share, the use lasts to the end
 * of the replica loop, when the last of them has read the value
 * (per_replica.h).  When one of several kernels that may run together uses a
 * value that none of them has made, the use lasts to the last of them.
 */
#ifndef TFD_IR_ANALYSIS_LIFETIME_H
#define TFD_IR_ANALYSIS_LIFETIME_H

#include <assert.h>
#include "ir/ir.h"
#include "ir/table.h"

/* Bytes that values share, and the interval in which they hold one of them. */
typedef struct Buffer Buffer;
struct Buffer {
    Buffer *into; /* merged into that one; see ir_buffer_of */
    int begin, end;
    int64_t bytes;
    int64_t align;
    bool fixed; /* its place is given: a variable, a pointer table */
    bool sent;  /* a collective works on it */
    int num_values;
    int number; /* in its pool */
    IrPlace place;
};

/* The lifetime of a value. */
typedef struct Lifetime {
    Buffer *buffer;
    int made;     /* 2p + 1 of the operation that makes it */
    int last_use; /* 2p of the last one that reads it, also through views;
                     loops counted */
} Lifetime;

/* The positions of an operation, all doubled. */
typedef struct OpSpan {
    int begin; /* 2p */
    int end;   /* 2p of the last operation in its regions */
} OpSpan;

/* Of the functions that ir_lifetimes_find was called for. */
typedef struct IrLifetimes {
    Arena *arena; /* of the tables and the buffers */
    IR_TABLE(Lifetime) values;
    IR_TABLE(OpSpan) spans;
} IrLifetimes;

/* Numbers the operations of fn and gives every value a lifetime and a buffer of
 * its own. */
void ir_lifetimes_find(IrLifetimes *l, const IrFunc *fn);

/* Of a value and an operation of such a function, outside of its kernels. */
static inline Lifetime *
ir_lifetime_of(const IrLifetimes *l, const IrValue *v)
{
    Lifetime *life = IR_TABLE_FIND(l->values, v->number);
    assert(life && life->buffer);
    return life;
}

static inline OpSpan *
ir_span_of(const IrLifetimes *l, const IrOp *op)
{
    OpSpan *span = IR_TABLE_FIND(l->spans, op->number);
    assert(span && span->begin);
    return span;
}

/* The bytes that hold v, whatever its buffer was merged into. */
Buffer *ir_buffer_of(const IrLifetimes *l, const IrValue *v);

/* a and b share bytes from now on; their buffer lives from the first to the
 * last use of either. */
void ir_buffers_merge(Buffer *a, Buffer *b);

#endif
