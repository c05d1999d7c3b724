/*
 * nodes.c - what processes send of their replicas: nodes of D2's tree
 *
 * A node of level k begins at a multiple of 2^k and has 2^k leaves, or what
 * remains of them at the end of all.  Nodes of one size are the leaves of a
 * tree of the same form, so that the kernel for leaves combines them
 * (reduce.h); others are combined by pairs, in an order found once by walking
 * down the tree. Elements are taken in blocks that stay in the cache.
 */
#include "runtime/coll/messages/nodes.h"

#include <assert.h>
#include <string.h>
#include "ir/analysis/collectives.h"

enum { BLOCK = 1024 };

/* ---- which --------------------------------------------------------------- */

/* Appends the pairs of the subtree of replicas lo .. hi; returns its value. */
static int
pair_up(RtNodes *n, int *num_pairs, int *node, int lo, int hi)
{
    int left = 1;
    if (n->begin[*node] == lo && n->begin[*node + 1] == hi)
        return (*node)++;
    while (2 * left < hi - lo)
        left *= 2;
    int x = pair_up(n, num_pairs, node, lo, lo + left);
    int y = pair_up(n, num_pairs, node, lo + left, hi);
    n->pairs[*num_pairs][0] = x;
    n->pairs[*num_pairs][1] = y;
    return n->num + (*num_pairs)++;
}

static bool
is_even(const RtNodes *n)
{
    int size = n->begin[1] - n->begin[0];
    for (int i = 1; i + 1 < n->num; i++)
        if (n->begin[i + 1] - n->begin[i] != size)
            return false;
    int last = n->begin[n->num] - n->begin[n->num - 1];
    return n->num == 1 || ((size & (size - 1)) == 0 && last <= size);
}

static RtNodes *
nodes_new(Arena *a, int most, int size)
{
    RtNodes *n = NEW(a, RtNodes);
    n->first = NEW_ARRAY(a, int, (size_t)size + 1);
    n->begin = NEW_ARRAY(a, int, (size_t)most + 1);
    return n;
}

static void
finish(RtNodes *n, Arena *a, int num_replicas, int size)
{
    int num_pairs = 0, node = 0;
    for (int p = 0; p < size; p++)
        if (rt_nodes_of(n, p) > n->most)
            n->most = rt_nodes_of(n, p);
    n->even = is_even(n);
    if (n->even)
        return;
    n->pairs = arena_array(a, (size_t)n->num, sizeof *n->pairs);
    pair_up(n, &num_pairs, &node, 0, num_replicas);
    assert(num_pairs == n->num - 1 && node == n->num);
}

static RtNodes *
divide(Arena *a, int num_replicas, int size, bool leaves)
{
    RtNodes *n = nodes_new(a, num_replicas, size);
    int each = num_replicas / size;
    for (int p = 0; p < size; p++) {
        n->first[p] = n->num;
        for (int at = p * each; at < (p + 1) * each;) {
            n->begin[n->num++] = at;
            at = leaves ? at + 1
                        : ir_coll_node_end(at, (p + 1) * each, num_replicas);
        }
    }
    n->first[size] = n->num;
    n->begin[n->num] = num_replicas;
    finish(n, a, num_replicas, size);
    return n;
}

RtNodes *
rt_nodes_new(Arena *a, int num_replicas, int size)
{
    return divide(a, num_replicas, size, false);
}

RtNodes *
rt_nodes_of_leaves(Arena *a, int num_replicas, int size)
{
    return divide(a, num_replicas, size, true);
}

RtNodes *
rt_nodes_of_one(Arena *a, int size, int process, int replica)
{
    RtNodes *n = nodes_new(a, 1, size);
    n->num = n->most = 1;
    n->even = true;
    n->begin[0] = replica;
    n->begin[1] = replica + 1;
    for (int p = process + 1; p <= size; p++)
        n->first[p] = 1;
    return n;
}

/* ---- combining ----------------------------------------------------------- */

struct RtNodeScratch {
    const void **in;         /* of a kernel */
    const void **value;      /* of pairs */
    char (*block)[BLOCK][8]; /* one for each replica, and one more */
};

RtNodeScratch *
rt_node_scratch_new(Arena *a, int num_replicas)
{
    RtNodeScratch *s = NEW(a, RtNodeScratch);
    size_t n = (size_t)num_replicas;
    s->in = NEW_ARRAY(a, const void *, n);
    s->value = NEW_ARRAY(a, const void *, 2 * n);
    s->block = arena_array(a, n + 1, sizeof *s->block);
    return s;
}

static bool
is_widened(const RtNodeKernel *k)
{
    return k->stored != k->value;
}

static size_t
width(DType t)
{
    return dtype_info[t].bytes;
}

static void
widen(DType from, float *to, const void *in, int64_t at, int64_t m)
{
    const uint16_t *x = (const uint16_t *)in + at;
    for (int64_t i = 0; i < m; i++)
        to[i] = from == DT_f16 ? f16_to_f32(x[i]) : bf16_to_f32(x[i]);
}

static void
narrow(DType to, void *out, int64_t at, const float *from, int64_t m)
{
    uint16_t *x = (uint16_t *)out + at;
    for (int64_t i = 0; i < m; i++)
        x[i] = to == DT_f16 ? f32_to_f16(from[i]) : f32_to_bf16(from[i]);
}

static int64_t
block_at(int64_t at, int64_t count)
{
    return count - at < BLOCK ? count - at : BLOCK;
}

void
rt_node_make(const RtNodeKernel *k, RtNodeScratch *s, int n,
             const void *const *in, void *out, int64_t count)
{
    if (!is_widened(k)) {
        k->all(n, in, 1, &out, 0, count);
        return;
    }
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t m = block_at(at, count);
        void *to = (float *)out + at;
        for (int i = 0; i < n; i++) {
            widen(k->stored, (float *)s->block[i], in[i], at, m);
            s->in[i] = s->block[i];
        }
        k->values(n, s->in, 1, &to, 0, m);
    }
}

/* The value of the last pair, of m elements from `at` on, in a block. */
static const void *
combine_pairs(const RtNodeKernel *k, RtNodeScratch *s, const RtNodes *nodes,
              const void *const *in, int64_t at, int64_t m)
{
    for (int i = 0; i < nodes->num; i++)
        s->value[i] = (const char *)in[i] + (size_t)at * width(k->value);
    for (int i = 0; i < nodes->num - 1; i++) {
        const void *two[] = {s->value[nodes->pairs[i][0]],
                             s->value[nodes->pairs[i][1]]};
        void *to = s->block[i];
        k->values(2, two, 1, &to, 0, m);
        s->value[nodes->num + i] = to;
    }
    return s->value[2 * nodes->num - 2];
}

static const void *
combine_even(const RtNodeKernel *k, RtNodeScratch *s, const RtNodes *nodes,
             const void *const *in, int64_t at, int64_t m)
{
    void *to = s->block[0];
    for (int i = 0; i < nodes->num; i++)
        s->in[i] = (const char *)in[i] + (size_t)at * width(k->value);
    k->values(nodes->num, s->in, 1, &to, 0, m);
    return to;
}

static void
store(const RtNodeKernel *k, void *out, int64_t at, const void *from, int64_t m)
{
    if (is_widened(k))
        narrow(k->stored, out, at, from, m);
    else
        memmove((char *)out + (size_t)at * width(k->stored), from,
                (size_t)m * width(k->stored));
}

void
rt_nodes_combine(const RtNodeKernel *k, RtNodeScratch *s, const RtNodes *nodes,
                 const void *const *in, void *out, int64_t count)
{
    if (!is_widened(k) && nodes->even) {
        k->all(nodes->num, in, 1, &out, 0, count);
        return;
    }
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t m = block_at(at, count);
        const void *value = nodes->even ? combine_even(k, s, nodes, in, at, m)
                                        : combine_pairs(k, s, nodes, in, at, m);
        store(k, out, at, value, m);
    }
}

void
rt_node_store(const RtNodeKernel *k, const void *in, void *out, int64_t count)
{
    for (int64_t at = 0; at < count; at += BLOCK)
        store(k, out, at, (const char *)in + (size_t)at * width(k->value),
              block_at(at, count));
}
