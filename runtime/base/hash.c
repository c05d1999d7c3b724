/*
 * hash.c - names by content
 */
#include "runtime/base/hash.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const char *
hash_text(Arena *a, const void *bytes, size_t n)
{
    XXH128_hash_t h = XXH3_128bits(bytes, n);
    return arena_printf(a, "%016llx%016llx", (unsigned long long)h.high64,
                        (unsigned long long)h.low64);
}

bool
hash_is_checked(void)
{
    const char *setting = getenv("TFD_CHECKSUMS");
    return !setting || strcmp(setting, "0") != 0;
}
