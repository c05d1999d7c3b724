/*
 * rows.h - which rows of variables a closure looks up, or changes
 */
#ifndef TFD_RUNTIME_PS_PARTS_ROWS_H
#define TFD_RUNTIME_PS_PARTS_ROWS_H

#include "runtime/ps/parts/placement.h"

/* A variable of which a program reads rows that operands of its launch name. */
typedef struct RtLookup {
    int var;
    VEC(int) operands;
} RtLookup;

/* Numbers of rows, each once, in the order in which they were first named. */
typedef struct RtRows {
    int64_t *rows, num;
} RtRows;

/* Those that the operands of h, a launch of main, have for l now, on all
 * replicas of this process, in arena a.  What is beyond the variable is its
 * first or last row, as it is for take. */
RtRows rt_rows_looked_up(Arena *a, const RtInvocation *main, const RtHostOp *h,
                         const RtLookup *l);

/* The rows that n ids of a server's part with so many rows name; each id
 * becomes the number of its row among them.  One that names none stays. */
RtRows rt_rows_number(Arena *a, char *ids, DType t, int64_t n, int64_t rows);

#endif
