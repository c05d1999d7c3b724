/*
 * valid.h - the set of valid values, while a walk overwrites memory
 *
 * A slot is something in memory, a value or a variable.  The set is ordered by
 * address: of those that are valid at a time, two that overlap begin at the
 * same place, one being another name of the other.  So the ones that some bytes
 * overlap are neighbours, and few others are looked at.
 */
#ifndef TFD_IR_VERIFY_VALID_H
#define TFD_IR_VERIFY_VALID_H

#include "ir/verify/verify_places.h"

/* The slots in the order of memory. */
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

/* Lives as long as a does, as do the sets. */
SlotOrder *ir_slot_order_new(Arena *a, const Extent *slots, int num);

ValidSet ir_valid_new(Arena *a, const SlotOrder *order); /* nothing */
ValidSet ir_valid_copy(Arena *a, const ValidSet *w);
void ir_valid_assign(ValidSet *to, const ValidSet *from);
/* What is in both becomes what is in w. */
void ir_valid_intersect(ValidSet *w, const ValidSet *other);

bool ir_valid_has(const ValidSet *w, int slot);
/* What the slot overlaps must not be in the set, but for other names of it. */
void ir_valid_add(ValidSet *w, int slot);
/* Takes out the slots from `first` on that e overlaps. */
void ir_valid_clobber(ValidSet *w, const Extent *e, int first);

#endif
