/*
 * lookups.h - which rows of a variable a program reads
 *
 * A program that reads nothing of a variable but the rows that some of its
 * parameters name can do without the others: a worker pulls these alone.
 */
#ifndef TFD_IR_ANALYSIS_LOOKUPS_H
#define TFD_IR_ANALYSIS_LOOKUPS_H

#include "ir/ir.h"

typedef struct IrLookups {
    bool reads;        /* the program reads the variable */
    const IrOp *whole; /* the first operation that needs more than rows that
                          parameters name; NULL: there is none */
    VEC(int) params;   /* which name rows, each once */
    int64_t most;      /* rows that all of them name, on all replicas */
    bool pays;         /* so many, with their numbers, are fewer bytes than all
                          that the variable has */
} IrLookups;

/* Bytes of a row's number, where it is sent. */
enum { IR_ROW_NUMBER_BYTES = 8 };

IrLookups ir_lookups_find(Arena *a, const IrFunc *fn, const IrVar *var);

/* Whether rows alone are pulled. */
static inline bool
ir_is_looked_up(const IrLookups *l)
{
    return l->reads && !l->whole && l->pays;
}

/* The bytes of a row, of a variable with rows. */
int64_t ir_var_row_bytes(const IrModule *m, const IrVar *var);

#endif
