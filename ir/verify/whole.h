/*
 * whole.h - inside ir/: which values are whole, while a walk overwrites memory
 *
 * A slot is something in memory, a value or a variable.  Of those that are
 * whole at a time, two that meet begin at the same place: one is another name
 * of the other.  So the ones that some bytes meet stand together in the order
 * of memory, and few others are looked at.
 */
#ifndef TFD_IR_VERIFY_WHOLE_H
#define TFD_IR_VERIFY_WHOLE_H

#include "ir/verify/verify_places.h"

/* The slots in the order of memory. */
typedef struct SlotOrder {
    int num;
    int *rank;     /* of each slot */
    int *slot;     /* of each rank */
    Extent *bytes; /* of each rank */
} SlotOrder;

/* A set of slots: a bit for each rank. */
typedef struct Whole {
    const SlotOrder *order;
    uint64_t *bits;
} Whole;

/* Lives as long as a does, as do the sets. */
SlotOrder *slot_order_new(Arena *a, const Extent *slots, int num);

Whole whole_new(Arena *a, const SlotOrder *order); /* nothing */
Whole whole_copy(Arena *a, const Whole *w);
void whole_assign(Whole *to, const Whole *from);
/* What is in both becomes what is in w. */
void whole_intersect(Whole *w, const Whole *other);

bool whole_has(const Whole *w, int slot);
/* What the slot meets must not be in the set, but for other names of it. */
void whole_add(Whole *w, int slot);
/* Takes out the slots from `first` on that e meets. */
void whole_spoil(Whole *w, const Extent *e, int first);

#endif
