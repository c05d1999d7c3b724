/*
 * valid.c - the set of valid values, while a walk overwrites memory
 */
#include "ir/verify/valid.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BITS = 64 };

/* ---- ordering by address ------------------------------------------------ */

typedef struct Entry {
    Extent bytes;
    int slot;
} Entry;

/* An empty extent overlaps nothing: it comes before all others. */
static int
order_entries(const void *x, const void *y)
{
    const Entry *a = x, *b = y;
    int space_a = a->bytes.bytes ? 1 + (int)a->bytes.place.space : 0;
    int space_b = b->bytes.bytes ? 1 + (int)b->bytes.place.space : 0;
    if (space_a != space_b)
        return space_a < space_b ? -1 : 1;
    int order = ir_extents_compare(&a->bytes, &b->bytes);
    return order ? order : a->slot - b->slot;
}

SlotOrder *
ir_slot_order_new(Arena *a, const Extent *slots, int num)
{
    size_t n = (size_t)num;
    SlotOrder *o = NEW(a, SlotOrder);
    *o = (SlotOrder){num, NEW_ARRAY(a, int, n), NEW_ARRAY(a, int, n),
                     NEW_ARRAY(a, Extent, n)};
    Entry *entries = NEW_ARRAY(a, Entry, n);
    for (int i = 0; i < num; i++)
        entries[i] = (Entry){slots[i], i};
    if (num)
        qsort(entries, n, sizeof *entries, order_entries);
    for (int i = 0; i < num; i++) {
        o->rank[entries[i].slot] = i;
        o->slot[i] = entries[i].slot;
        o->bytes[i] = entries[i].bytes;
    }
    return o;
}

/* The first rank whose slot begins at e's beginning or after it. */
static int
first_rank(const SlotOrder *o, const Extent *e)
{
    Entry key = {*e, -1};
    int low = 0, high = o->num;
    while (low < high) {
        int mid = low + (high - low) / 2;
        Entry at = {o->bytes[mid], o->slot[mid]};
        if (order_entries(&at, &key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* ---- sets --------------------------------------------------------------- */

static size_t
num_words(const SlotOrder *o)
{
    return (size_t)(o->num + WORD_BITS - 1) / WORD_BITS;
}

ValidSet
ir_valid_new(Arena *a, const SlotOrder *order)
{
    return (ValidSet){order, NEW_ARRAY(a, uint64_t, num_words(order))};
}

ValidSet
ir_valid_copy(Arena *a, const ValidSet *w)
{
    ValidSet copy = ir_valid_new(a, w->order);
    ir_valid_assign(&copy, w);
    return copy;
}

void
ir_valid_assign(ValidSet *to, const ValidSet *from)
{
    assert(to->order == from->order);
    memcpy(to->bits, from->bits, num_words(to->order) * sizeof *to->bits);
}

void
ir_valid_intersect(ValidSet *w, const ValidSet *other)
{
    assert(w->order == other->order);
    for (size_t i = 0; i < num_words(w->order); i++)
        w->bits[i] &= other->bits[i];
}

bool
ir_valid_has(const ValidSet *w, int slot)
{
    assert(slot >= 0 && slot < w->order->num);
    int rank = w->order->rank[slot];
    return w->bits[rank / WORD_BITS] >> rank % WORD_BITS & 1;
}

void
ir_valid_add(ValidSet *w, int slot)
{
    int rank = w->order->rank[slot];
    w->bits[rank / WORD_BITS] |= UINT64_C(1) << rank % WORD_BITS;
}

/* The first rank >= rank in the set, or the number of ranks. */
static int
next_rank(const ValidSet *w, int rank)
{
    int num = w->order->num;
    if (rank >= num)
        return num;
    uint64_t bits = w->bits[rank / WORD_BITS] >> rank % WORD_BITS;
    if (bits)
        return rank + __builtin_ctzll(bits);
    for (size_t i = (size_t)rank / WORD_BITS + 1; i < num_words(w->order); i++)
        if (w->bits[i])
            return (int)i * WORD_BITS + __builtin_ctzll(w->bits[i]);
    return num;
}

/* The last rank of the set before `rank`, or -1. */
static int
previous_rank(const ValidSet *w, int rank)
{
    if (rank-- == 0)
        return -1;
    uint64_t bits = w->bits[rank / WORD_BITS]
                    << (WORD_BITS - 1 - rank % WORD_BITS);
    if (bits)
        return rank - __builtin_clzll(bits);
    for (int i = rank / WORD_BITS - 1; i >= 0; i--)
        if (w->bits[i])
            return i * WORD_BITS + WORD_BITS - 1 - __builtin_clzll(w->bits[i]);
    return -1;
}

/* Whether the slot of that rank overlaps e; if so, it is no longer valid if it
 * is one of those from `first` on. */
static bool
clobber_rank(ValidSet *w, int rank, const Extent *e, int first)
{
    if (!ir_extents_overlap(&w->order->bytes[rank], e))
        return false;
    if (w->order->slot[rank] >= first)
        w->bits[rank / WORD_BITS] &= ~(UINT64_C(1) << rank % WORD_BITS);
    return true;
}

void
ir_valid_clobber(ValidSet *w, const Extent *e, int first)
{
    assert(first >= 0 && first <= w->order->num);
    const Extent *bytes = w->order->bytes;
    if (!e->bytes)
        return;
    int begin = first_rank(w->order, e), num = w->order->num;
    for (int r = next_rank(w, begin); r < num; r = next_rank(w, r + 1))
        if (!clobber_rank(w, r, e, first))
            break;
    /* before it, the nearest valid slot, and all slots that begin at the same
     * place */
    int r = previous_rank(w, begin);
    for (int nearest = r; r >= 0; r = previous_rank(w, r)) {
        if (!ir_place_equal(bytes[r].place, bytes[nearest].place))
            break;
        clobber_rank(w, r, e, first);
    }
}
