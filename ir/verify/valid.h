/*
 * valid.h - the set of valid values, while a walk overwrites memory
 *
 * A slot is a value or a variable in memory.  The set is ordered by address.
 * Two valid slots that overlap begin at the same address, because one is an
 * alias of the other.  So the valid slots that overlap some bytes are
 * neighbours, and few others are visited.
 */
#ifndef TFD_IR_VERIFY_VALID_H
#define TFD_IR_VERIFY_VALID_H

#include "ir/verify/verify_places.h"

/* The slots, ordered by address. */
typedef struct SlotOrder {
    int num;
    int *rank;     /* of each slot */
    int *slot;     /* of each rank */
    Extent *bytes; /* of each rank */
} SlotOrder;

/* A set of slots: a bit for each rank. */
typedef struct ValidSet {
    const SlotOrder *order;
    uint64_t *bits;
} ValidSet;

/* The order lives as long as arena a, as do the sets. */
SlotOrder *ir_slot_order_new(Arena *a, const Extent *slots, int num);

ValidSet ir_valid_new(Arena *a, const SlotOrder *order); /* the empty set */
ValidSet ir_valid_copy(Arena *a, const ValidSet *w);
void ir_valid_assign(ValidSet *to, const ValidSet *from);
/* w becomes the intersection of both. */
void ir_valid_intersect(ValidSet *w, const ValidSet *other);

bool ir_valid_has(const ValidSet *w, int slot);
/* The set must not have slots that overlap this one, except its aliases. */
void ir_valid_add(ValidSet *w, int slot);
/* Removes the slots from `first` on that e overlaps. */
void ir_valid_clobber(ValidSet *w, const Extent *e, int first);

#endif
