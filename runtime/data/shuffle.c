/*
 * shuffle.c - elements in a random order
 *
 * A buffer is filled from the input; each time a random one of its elements is
 * given, and the next of the input takes its place.  Which one is a function of
 * the seed, the pass and the position in the pass (D7): a key is drawn for the
 * pass, a number for each position.
 *
 * The buffer grows block by block, so that one larger than the data costs
 * nothing.
 */
#include <string.h>
#include "runtime/base/philox.h"
#include "runtime/base/vec.h"
#include "runtime/data/node.h"

__extension__ typedef unsigned __int128 Wide;

enum { BLOCK_BYTES = 64 << 10, DRAW = 0x73687566 /* "shuf" */ };

typedef struct Shuffle {
    RtElement in; /* room for an element of the input */
    uint32_t key[2];
    uint64_t position; /* elements given in this pass */
    int64_t held;      /* elements in the buffer: slots 0 .. held - 1 */
    size_t slot_bytes; /* the rows of an element, then its components */
    int64_t block_slots;
    VEC(char *) blocks;
} Shuffle;

/* ---- random numbers ----------------------------------------------------- */

/* Seeds that the program states stand for themselves, so that two datasets
 * with one seed are shuffled alike; else every shuffle is on its own. */
static void
draw_key(RtNode *n)
{
    Shuffle *s = n->state;
    bool reshuffle = n->stage->ints[2] != 0, stated = n->stage->ints[3] != 0;
    uint64_t seed = stated ? (uint64_t)n->stage->ints[1] : n->seed;
    uint64_t pass = reshuffle ? n->pass : 0;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)pass, (uint32_t)(pass >> 32),
                           stated ? 0 : n->site, DRAW};
    uint32_t out[4];
    philox4x32(counter, key, out);
    memcpy(s->key, out, sizeof s->key);
}

static int64_t
draw_below(const Shuffle *s, int64_t below)
{
    uint32_t counter[4] = {(uint32_t)s->position, (uint32_t)(s->position >> 32),
                           0, DRAW};
    uint32_t out[4];
    philox4x32(counter, s->key, out);
    uint64_t word = (uint64_t)out[1] << 32 | out[0];
    return (int64_t)((Wide)word * (uint64_t)below >> 64);
}

/* ---- the buffer --------------------------------------------------------- */

static char *
slot_at(const Shuffle *s, int64_t slot)
{
    return s->blocks.data[slot / s->block_slots] +
           (size_t)(slot % s->block_slots) * s->slot_bytes;
}

/* The slot behind those that are held, which it becomes one of. */
static char *
new_slot(RtNode *n)
{
    Shuffle *s = n->state;
    if (s->held == s->blocks.len * s->block_slots) {
        char *block =
            arena_array(n->arena, (size_t)s->block_slots, s->slot_bytes);
        VEC_PUSH(n->arena, s->blocks, block);
    }
    return slot_at(s, s->held++);
}

static void
put(RtNode *n, const RtElement *e)
{
    char *to = new_slot(n);
    memcpy(to, &e->rows, sizeof e->rows);
    to += sizeof e->rows;
    for (int i = 0; i < n->stage->types.len; i++) {
        memcpy(to, e->data[i], (size_t)n->bytes[i]);
        to += n->bytes[i];
    }
}

/* Takes an element out; the last one takes its place. */
static void
take(RtNode *n, int64_t slot, RtElement *e)
{
    Shuffle *s = n->state;
    const char *from = slot_at(s, slot);
    memcpy(&e->rows, from, sizeof e->rows);
    from += sizeof e->rows;
    for (int i = 0; i < n->stage->types.len; i++) {
        memcpy(e->data[i], from, (size_t)n->bytes[i]);
        from += n->bytes[i];
    }
    s->held--;
    if (slot != s->held)
        memcpy(slot_at(s, slot), slot_at(s, s->held), s->slot_bytes);
}

/* ---- the node ----------------------------------------------------------- */

static Status
shuffle_rewind(RtNode *n)
{
    Shuffle *s = n->state;
    s->position = 0;
    s->held = 0;
    draw_key(n);
    return rt_node_rewind(n->input, n->pass);
}

static Status
shuffle_next(RtNode *n, RtElement *e, bool *end)
{
    Shuffle *s = n->state;
    for (bool empty = false; !empty && s->held < n->stage->ints[0];) {
        TRY(rt_node_next(n->input, &s->in, &empty));
        if (!empty)
            put(n, &s->in);
    }
    *end = s->held == 0;
    if (*end)
        return OK;
    take(n, draw_below(s, s->held), e);
    s->position++;
    return OK;
}

static void
slot_carry(const RtNode *n, char *slot, RtState *to)
{
    const Shuffle *s = n->state;
    int64_t rows;
    memcpy(&rows, slot, sizeof rows);
    rt_rows_carry(n, &rows, to);
    memcpy(slot, &rows, sizeof rows);
    rt_state_bytes(to, slot + sizeof rows, s->slot_bytes - sizeof rows);
}

/* The buffer, as it is: in a checkpoint it is most of a pipeline's part. */
static void
shuffle_carry(RtNode *n, RtState *to)
{
    Shuffle *s = n->state;
    int64_t held = s->held;
    rt_state_u32(to, &s->key[0]);
    rt_state_u32(to, &s->key[1]);
    rt_state_u64(to, &s->position);
    rt_state_count(to, &held, n->stage->ints[0], s->slot_bytes);
    for (int64_t i = 0; i < held; i++)
        slot_carry(n, to->reads ? new_slot(n) : slot_at(s, i), to);
}

void
rt_shuffle_new(RtNode *n)
{
    static const RtNodeOps ops = {shuffle_next, shuffle_rewind, shuffle_carry};
    Shuffle *s = NEW(n->arena, Shuffle);
    s->slot_bytes = sizeof s->in.rows;
    for (int i = 0; i < n->stage->types.len; i++)
        s->slot_bytes += (size_t)n->bytes[i];
    s->block_slots = 1 + (int64_t)(BLOCK_BYTES / s->slot_bytes);
    s->in = rt_element_new(n->input);
    n->state = s;
    n->ops = &ops;
}
