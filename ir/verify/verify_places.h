/*
 * verify_places.h - inside ir/: places as intervals of memory
 */
#ifndef TFD_IR_VERIFY_VERIFY_PLACES_H
#define TFD_IR_VERIFY_VERIFY_PLACES_H

#include "ir/verify/verify_impl.h"

typedef struct Extent {
    IrPlace place;
    int64_t bytes;
} Extent;

typedef VEC(Extent) Extents;

Extent ir_extent_of(const IrModule *m, IrPlace place, const IrType *t);
bool ir_extents_overlap(const Extent *a, const Extent *b);
/* Their order in memory, for qsort. */
int ir_extents_compare(const void *x, const void *y);

/* Whether fn's values are intact wherever they are used. */
void ir_verify_overlap(Verify *v, const IrFunc *fn);

#endif
