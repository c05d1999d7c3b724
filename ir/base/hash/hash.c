/*
 * hash.c - names by content
 */
#include "ir/base/hash/hash.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* a state in memory that we allocated */
#include <xxhash.h>

struct Hash {
    XXH3_state_t state;
};

static const char *
text_of(Arena *a, XXH128_hash_t h)
{
    return arena_printf(a, "%016llx%016llx", (unsigned long long)h.high64,
                        (unsigned long long)h.low64);
}

const char *
hash_text(Arena *a, const void *bytes, size_t n)
{
    return text_of(a, XXH3_128bits(bytes, n));
}

uint64_t
hash_bytes(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

/* The state needs a larger alignment than an arena gives. */
Hash *
hash_new(Arena *a)
{
    enum { ALIGN = _Alignof(struct Hash) };
    char *room = arena_alloc(a, sizeof(Hash) + ALIGN);
    Hash *h =
        (Hash *)(void *)(room + (ALIGN - (uintptr_t)room % ALIGN) % ALIGN);
    XXH3_128bits_reset(&h->state);
    return h;
}

void
hash_add(Hash *h, const void *bytes, size_t n)
{
    XXH3_128bits_update(&h->state, bytes, n);
}

const char *
hash_end(Arena *a, const Hash *h)
{
    return text_of(a, XXH3_128bits_digest(&h->state));
}

bool
hash_is_checked(void)
{
    const char *setting = getenv("TFD_CHECKSUMS");
    return !setting || strcmp(setting, "0") != 0;
}
