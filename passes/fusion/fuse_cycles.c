/*
 * fuse_cycles.c - clusters are merged where that makes no cycle
 *
 * A cluster of a and b has a cycle if a path leads from one to the other
 * through a third.  All clusters have an order in which each comes after those
 * that it depends on, so such a path goes from the earlier to the later one of
 * the two, and all of it lies between them: only what is between them is
 * searched, forward from the earlier one and backward from the later one in
 * turn.  When one side comes to its end there is no path.
 *
 * Merging keeps the order (Pearce and Kelly, "A dynamic topological sort
 * algorithm for directed acyclic graphs", 2006): the clusters that were found
 * on the side that came to its end are all that depend on the earlier one and
 * stand before the later one.  They move behind it, where the merged cluster
 * stays; or the mirror image.  Places have gaps, and all clusters get new ones
 * when a gap is full.
 */
#include <assert.h>
#include <stdlib.h>
#include "passes/fusion/fuse.h"

/* The search gives up after this many edges: then there may be a cycle. */
enum { MAX_SEARCH = 4096 };

static const int64_t GAP = INT64_C(1) << 32;

/* ---- the order ---------------------------------------------------------- */

static void
unlink_cluster(Cluster *c)
{
    c->before->after = c->after;
    c->after->before = c->before;
}

static void
link_after(Cluster *c, Cluster *at)
{
    c->before = at;
    c->after = at->after;
    at->after->before = c;
    at->after = c;
}

void
pass_fuse_order_begin(Fuse *f, const IrBlock *b)
{
    f->ends = NEW(f->arena, Cluster);
    f->ends->before = f->ends->after = f->ends;
    for (const IrOp *op = b->first; op; op = op->next) {
        Cluster *c = pass_fuse_cluster(f, op);
        c->place = f->ends->before->place + GAP;
        link_after(c, f->ends->before);
    }
}

static void
renumber(Fuse *f)
{
    int64_t place = 0;
    for (Cluster *c = f->ends->after; c != f->ends; c = c->after)
        c->place = place += GAP;
}

static int
by_place(const void *x, const void *y)
{
    const Cluster *a = *(Cluster *const *)x, *b = *(Cluster *const *)y;
    return (a->place > b->place) - (a->place < b->place);
}

/* The distance of the places of num clusters that come to stand behind at, or 0
 * if they have no room. */
static int64_t
step_behind(const Fuse *f, const Cluster *at, int num)
{
    if (at->after == f->ends)
        return GAP;
    return (at->after->place - at->place) / (num + 1);
}

/* Moves them, in their order, behind at, which is none of them. */
static void
move_behind(Fuse *f, ClusterList *moved, Cluster *at)
{
    if (!moved->len)
        return;
    qsort(moved->data, (size_t)moved->len, sizeof(Cluster *), by_place);
    for (int i = 0; i < moved->len; i++)
        unlink_cluster(moved->data[i]);
    if (!step_behind(f, at, moved->len))
        renumber(f);
    int64_t step = step_behind(f, at, moved->len), place = at->place;
    for (int i = 0; i < moved->len; i++, at = at->after) {
        moved->data[i]->place = place += step;
        link_after(moved->data[i], at);
    }
}

/* a alone stands where `place`, one of both, did. */
static void
stand_at(Cluster *a, Cluster *b, const Cluster *place)
{
    if (place == b) {
        unlink_cluster(a);
        link_after(a, b);
        a->place = b->place;
    }
    unlink_cluster(b);
}

/* ---- the search --------------------------------------------------------- */

/* From one cluster towards another, in one direction. */
typedef struct Side {
    const Cluster *from, *to;
    bool later;
    int search, other; /* its number, and that of the side that meets it */
    ClusterList *found;
    int next; /* of found, to be looked at */
} Side;

/* Adds what c leads to and stands between the two; returns whether that shows a
 * path through a third cluster. */
static bool
follow(Fuse *f, Side *s, const Cluster *c, int *steps)
{
    for (int i = 0; i < c->ops.len; i++) {
        const FuseNode *n = pass_fuse_node(f, c->ops.data[i]);
        const IrOpList *list = s->later ? &n->later : &n->needs;
        *steps += list->len;
        for (int j = 0; j < list->len; j++) {
            Cluster *next = pass_fuse_cluster(f, list->data[j]);
            if (next == s->to && c != s->from)
                return true;
            if (next == s->to || next == c || next->visited == s->search ||
                (s->later ? next->place > s->to->place
                          : next->place < s->to->place))
                continue;
            if (next->visited == s->other)
                return true;
            next->visited = s->search;
            VEC_PUSH(f->arena, *s->found, next);
        }
    }
    return false;
}

/* Whether a path leads from a to b through others; if not, *done is the side
 * that has come to its end. */
static bool
has_path(Fuse *f, Cluster *a, Cluster *b, const ClusterList **done)
{
    int steps = 0, search = f->search + 1;
    Side sides[] = {{a, b, true, search, search + 1, &f->ahead, 0},
                    {b, a, false, search + 1, search, &f->behind, 0}};
    f->search += 2;
    f->ahead.len = f->behind.len = 0;
    if (follow(f, &sides[0], a, &steps) || follow(f, &sides[1], b, &steps))
        return true;
    steps = 0;
    for (Side *s = sides;; s = s == sides ? sides + 1 : sides) {
        if (s->next == s->found->len) {
            *done = s->found;
            return false;
        }
        if (follow(f, s, s->found->data[s->next++], &steps) ||
            steps > MAX_SEARCH)
            return true;
    }
}

bool
pass_fuse_merge_acyclic(Fuse *f, Cluster *a, Cluster *b)
{
    assert(a != b && !a->into && !b->into);
    Cluster *first = a->place < b->place ? a : b, *last = first == a ? b : a;
    const ClusterList *done;
    if (has_path(f, first, last, &done))
        return false;
    if (done == &f->ahead)
        move_behind(f, &f->ahead, last);
    else
        move_behind(f, &f->behind, first->before);
    stand_at(a, b, done == &f->ahead ? last : first);
    pass_fuse_merge(f, a, b);
    return true;
}
