/*
 * random_impl.h - private to the generator of random programs
 */
#ifndef TFD_TESTS_PASSES_RANDOM_IMPL_H
#define TFD_TESTS_PASSES_RANDOM_IMPL_H

#include "ir/ir.h"

typedef struct Gen {
    IrModule *m;
    uint64_t state;
    IrValues scope; /* the values that may be operands */
    int budget;     /* statements left to make */
    uint32_t line;  /* of the next statement */
} Gen;

/* From 0 to n - 1; true with a probability in per cent; the source location of
 * the statement. */
int random_pick(Gen *g, int n);
bool random_chance(Gen *g, int percent);
Loc random_here(Gen *g);

typedef bool (*Fits)(const IrValue *v, const void *like);

void random_add_value(Gen *g, IrValue *v);
/* A value in scope, later ones rather than earlier ones; NULL: none fits. */
IrValue *random_find_value(Gen *g, Fits fits, const void *like);

bool random_is_host(const IrValue *v);
bool random_is_equal_on_all(const IrValue *v);
bool random_is_number(const IrValue *v, const void *unused);
bool random_is_host_number(const IrValue *v, const void *unused);
bool random_is_own(const IrValue *v, const void *unused); /* per-replica */
bool random_is_flag(const IrValue *v, const void *unused);
bool random_is_host_flag(const IrValue *v, const void *unused);
/* Of like's dtype and shape, and host as it is or is not. */
bool random_is_alike_here(const IrValue *v, const void *like);

IrValue *random_new_constant(Gen *g, IrBlock *b);
/* Computes something from values that fit. */
void random_gen_compute(Gen *g, IrBlock *b, Fits fits);

#endif
