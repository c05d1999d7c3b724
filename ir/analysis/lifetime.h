/*
 * lifetime.h - when values are alive
 *
 * Positions number the operations of a function in the order of its text,
 * doubled: operation p reads at 2p and has written at 2p + 1.  A use inside a
 * loop of what was made outside lasts to the loop's end, and one by a replica
 * of what all replicas of its device share to the end of the replica
 * loop, when the last of them has read it (per_replica.h).
 */
#ifndef TFD_IR_ANALYSIS_LIFETIME_H
#define TFD_IR_ANALYSIS_LIFETIME_H

#include "ir/ir.h"

/* Bytes that values share, and the interval in which they hold one of them. */
typedef struct Buffer Buffer;
struct Buffer {
    Buffer *into; /* merged into that one; see ir_buffer_of */
    int begin, end;
    int64_t bytes;
    int64_t align;
    bool fixed; /* has its place already: a variable, a pointer table */
    bool sent;  /* a collective works on it */
    int num_values;
    int number; /* in its pool */
    IrPlace place;
};

/* What is known of a value: its mark. */
typedef struct Lifetime {
    Buffer *buffer;
    int made;     /* 2p + 1 of the operation that makes it */
    int last_use; /* 2p of the last one that reads it, also through views;
                     loops counted */
} Lifetime;

static inline Lifetime *
ir_lifetime_of(const IrValue *v)
{
    return v->mark;
}

Buffer *ir_buffer_of(const IrValue *v);

/* What is known of an operation: its mark.  All positions are doubled. */
typedef struct OpSpan {
    int begin; /* 2p */
    int end;   /* 2p of the last operation in its regions */
} OpSpan;

static inline OpSpan *
ir_span_of(const IrOp *op)
{
    return op->mark;
}

/* Numbers the operations of fn and gives every value a life and a buffer of
 * its own. */
void ir_lifetimes_find(Arena *a, IrFunc *fn);

/* a and b share bytes from now on, and live from the first to the last. */
void ir_buffers_merge(Buffer *a, Buffer *b);

#endif
