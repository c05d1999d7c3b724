/*
 * store.c - elements kept in memory, by number
 *
 * A slot of a block has the rows of an element, then its components
 * (ir_stored_element).
 */
#include "runtime/data/store.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include "ir/analysis/footprint.h"
#include "ir/base/cache_line.h"

enum { BLOCK_BYTES = 64 << 10 };

static char *
slot_at(const RtStore *s, int64_t i)
{
    assert(i >= 0 && i < s->blocks.len * s->block_slots);
    return s->blocks.data[i / s->block_slots] +
           (size_t)(i % s->block_slots) * s->slot_bytes;
}

RtStore
rt_store_new(const RtNode *n)
{
    int64_t *offsets =
        NEW_ARRAY(n->arena, int64_t, (size_t)n->stage->types.len);
    RtStore s = {.of = n, .offsets = offsets, .is_on_lines = true};
    s.slot_bytes = (size_t)ir_stored_element(n->module, n->stage, offsets);
    for (int i = 0; i < n->stage->types.len; i++)
        s.is_on_lines &= offsets[i] % CACHE_LINE == 0;
    s.block_slots = 1 + (int64_t)(BLOCK_BYTES / s.slot_bytes);
    return s;
}

/* Adds the slot after those in use. */
static char *
new_slot(RtStore *s)
{
    Arena *a = s->of->arena;
    if (s->len == s->blocks.len * s->block_slots) {
        char *block =
            arena_alloc_on_lines(a, (size_t)s->block_slots * s->slot_bytes);
        VEC_PUSH(a, s->blocks, block);
    }
    if (s->len == s->most) {
        s->most++;
        if (s->kept_bytes)
            atomic_fetch_add(s->kept_bytes, (int64_t)s->slot_bytes);
    }
    return slot_at(s, s->len++);
}

void
rt_store_add(RtStore *s, const RtElement *e)
{
    const RtNode *n = s->of;
    assert(s->len <= s->most);
    char *to = new_slot(s);
    memcpy(to, &e->rows, sizeof e->rows);
    for (int i = 0; i < n->stage->types.len; i++)
        memcpy(to + s->offsets[i], e->data[i], (size_t)n->bytes[i]);
}

void
rt_store_get(const RtStore *s, int64_t i, RtElement *e)
{
    const RtNode *n = s->of;
    assert(i < s->len);
    const char *from = slot_at(s, i);
    memcpy(&e->rows, from, sizeof e->rows);
    for (int k = 0; k < n->stage->types.len; k++)
        memcpy(e->data[k], from + s->offsets[k], (size_t)n->bytes[k]);
}

void
rt_store_lend(const RtStore *s, int64_t i, RtElement *e)
{
    assert(i < s->len && s->is_on_lines);
    char *from = slot_at(s, i);
    memcpy(&e->rows, from, sizeof e->rows);
    for (int k = 0; k < s->of->stage->types.len; k++)
        e->data[k] = from + s->offsets[k];
}

const char *
rt_store_component(const RtStore *s, int64_t i, int component)
{
    assert(i < s->len && component < s->of->stage->types.len);
    return slot_at(s, i) + s->offsets[component];
}

void
rt_store_drop(RtStore *s, int64_t i)
{
    assert(i >= 0 && i < s->len);
    s->len--;
    if (i != s->len)
        memcpy(slot_at(s, i), slot_at(s, s->len), s->slot_bytes);
}

static void
slot_archive(const RtStore *s, char *slot, RtArchive *to)
{
    int64_t rows;
    memcpy(&rows, slot, sizeof rows);
    rt_rows_archive(s->of, &rows, to);
    memcpy(slot, &rows, sizeof rows);
    for (int i = 0; i < s->of->stage->types.len; i++)
        rt_archive_bytes(to, slot + s->offsets[i], (size_t)s->of->bytes[i]);
}

/* Of an element in an archive, which has nothing between the components. */
static size_t
archived_bytes(const RtStore *s)
{
    size_t sum = sizeof(int64_t);
    for (int i = 0; i < s->of->stage->types.len; i++)
        sum += (size_t)s->of->bytes[i];
    return sum;
}

void
rt_store_archive(RtStore *s, int64_t most, RtArchive *to)
{
    int64_t len = s->len;
    rt_archive_count(to, &len, most, archived_bytes(s));
    for (int64_t i = 0; i < len; i++)
        slot_archive(s, to->reads ? new_slot(s) : slot_at(s, i), to);
}
