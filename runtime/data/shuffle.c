/*
 * shuffle.c - elements in a random order
 *
 * A buffer is filled from the input; each time a random one of its elements is
 * given, and the next of the input takes its place.  Which one is a function of
 * the seed, the pass and the position in the pass (D7): a key is drawn for the
 * pass, a number for each position.
 */
#include <string.h>
#include "ir/base/number/philox.h"
#include "runtime/data/store.h"

__extension__ typedef unsigned __int128 Wide;

enum { DRAW = 0x73687566 /* "shuf" */ };

typedef struct Shuffle {
    RtElement in; /* memory for an element of the input */
    uint32_t key[2];
    uint64_t position; /* elements given in this pass */
    RtStore buffer;
} Shuffle;

/* ---- random numbers ----------------------------------------------------- */

/* Seeds in the program are used as they are, so that two datasets with one seed
 * are shuffled alike; otherwise every shuffle has its own. */
static void
draw_key(RtNode *n)
{
    Shuffle *s = n->state;
    bool reshuffle = n->stage->ints[2] != 0, stated = n->stage->ints[3] != 0;
    uint64_t seed = stated ? (uint64_t)n->stage->ints[1] : n->seed;
    uint64_t pass = reshuffle ? n->pass : 0;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)pass, (uint32_t)(pass >> 32),
                           stated ? 0 : n->call_site, DRAW};
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

/* ---- the node ----------------------------------------------------------- */

static Status
shuffle_rewind(RtNode *n)
{
    Shuffle *s = n->state;
    s->position = 0;
    s->buffer.len = 0;
    draw_key(n);
    return rt_node_rewind(n->input, n->pass);
}

static Status
shuffle_next(RtNode *n, RtElement *e, bool *end)
{
    Shuffle *s = n->state;
    for (bool empty = false; !empty && s->buffer.len < n->stage->ints[0];) {
        TRY(rt_node_next(n->input, &s->in, &empty));
        if (!empty)
            rt_store_add(&s->buffer, &s->in);
    }
    *end = s->buffer.len == 0;
    if (*end)
        return OK;
    int64_t slot = draw_below(s, s->buffer.len);
    rt_store_get(&s->buffer, slot, e);
    rt_store_drop(&s->buffer, slot);
    s->position++;
    return OK;
}

/* The buffer, unchanged: most of a pipeline's part of a checkpoint. */
static void
shuffle_archive(RtNode *n, RtArchive *to)
{
    Shuffle *s = n->state;
    rt_archive_u32(to, &s->key[0]);
    rt_archive_u32(to, &s->key[1]);
    rt_archive_u64(to, &s->position);
    rt_store_archive(&s->buffer, n->stage->ints[0], to);
}

void
rt_shuffle_new(RtNode *n)
{
    static const RtNodeOps ops = {shuffle_next, shuffle_rewind, shuffle_archive,
                                  NULL};
    Shuffle *s = NEW(n->arena, Shuffle);
    s->buffer = rt_store_new(n);
    s->in = rt_element_new(n->input);
    n->state = s;
    n->ops = &ops;
}
