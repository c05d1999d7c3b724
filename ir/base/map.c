/*
 * map.c - a map keyed by strings, and interned names
 *
 * The entries are in the order of insertion.  An index with open addressing,
 * whose size is a power of two and which is at most half full, holds their
 * numbers.  Interning is the same map without values: the copy of the key is
 * the name.
 */
#include "ir/base/str.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>
#include "ir/base/vec.h"

typedef struct Entry {
    const char *key;
    size_t len;
    uint64_t hash;
    void *value;
} Entry;

struct Map {
    Arena *arena;
    VEC(Entry) entries;
    int *index; /* entry number + 1; 0 is free */
    uint64_t mask;
};

struct Intern {
    Map map;
};

enum { FIRST_INDEX = 16 };

static void
init(Map *m, Arena *a)
{
    m->arena = a;
    m->index = NEW_ARRAY(a, int, FIRST_INDEX);
    m->mask = FIRST_INDEX - 1;
}

/* The slot of key in the index: that of its entry, or the free one where it
 * belongs. */
static int *
find_slot(const Map *m, const char *key, size_t len, uint64_t hash)
{
    assert((m->mask & (m->mask + 1)) == 0 &&
           (uint64_t)m->entries.len <= m->mask / 2 + 1);
    for (uint64_t i = hash & m->mask;; i = (i + 1) & m->mask) {
        int *slot = &m->index[i];
        if (!*slot)
            return slot;
        const Entry *e = &m->entries.data[*slot - 1];
        if (e->hash == hash && e->len == len &&
            (len == 0 || memcmp(e->key, key, len) == 0))
            return slot;
    }
}

static void
grow_index(Map *m)
{
    uint64_t size = (m->mask + 1) * 2;
    m->index = NEW_ARRAY(m->arena, int, size);
    m->mask = size - 1;
    for (int i = 0; i < m->entries.len; i++) {
        const Entry *e = &m->entries.data[i];
        *find_slot(m, e->key, e->len, e->hash) = i + 1;
    }
}

/* The entry of key, which is added if it is missing. */
static Entry *
find_or_add(Map *m, const char *key, size_t len)
{
    uint64_t hash = XXH3_64bits(key, len);
    int *slot = find_slot(m, key, len, hash);
    if (!*slot) {
        if ((uint64_t)m->entries.len >= m->mask / 2) {
            grow_index(m);
            slot = find_slot(m, key, len, hash);
        }
        Entry e = {arena_strndup(m->arena, key, len), len, hash, NULL};
        VEC_PUSH(m->arena, m->entries, e);
        *slot = m->entries.len;
    }
    return &m->entries.data[*slot - 1];
}

Map *
map_new(Arena *a)
{
    Map *m = NEW(a, Map);
    init(m, a);
    return m;
}

void *
map_get(const Map *m, const char *key)
{
    size_t len = strlen(key);
    int slot = *find_slot(m, key, len, XXH3_64bits(key, len));
    return slot ? m->entries.data[slot - 1].value : NULL;
}

void
map_set(Map *m, const char *key, void *value)
{
    find_or_add(m, key, strlen(key))->value = value;
}

int
map_count(const Map *m)
{
    return m->entries.len;
}

const char *
map_key(const Map *m, int i)
{
    assert(i >= 0 && i < m->entries.len);
    return m->entries.data[i].key;
}

void *
map_value(const Map *m, int i)
{
    assert(i >= 0 && i < m->entries.len);
    return m->entries.data[i].value;
}

Intern *
intern_new(Arena *a)
{
    Intern *in = NEW(a, Intern);
    init(&in->map, a);
    return in;
}

const char *
intern_n(Intern *in, const char *text, size_t n)
{
    return find_or_add(&in->map, text, n)->key;
}

const char *
intern(Intern *in, const char *text)
{
    return intern_n(in, text, strlen(text));
}
