/*
 * cache.h - compiled code kept from one compilation to the next
 *
 * A folder of files named by a keyed hash of all that their bytes depend on:
 * text, target, level, this very compiler and its LLVM; or, for compilers that
 * share code, LLVM's module instead of text and compiler.  It may be deleted at
 * any time, and several compilers may use it at once.  A failure of the cache
 * is never an error: the code is compiled instead.
 *
 * The files become code that the user runs, so they are trusted only if the
 * user made them (cache.c describes the check).
 */
#ifndef TFD_BACKEND_CACHE_H
#define TFD_BACKEND_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/arena.h"

typedef struct BeCache BeCache;

typedef struct BeCacheKey {
    uint64_t high, low;
} BeCacheKey;

/* dir NULL: $TFD_CACHE, else $XDG_CACHE_HOME/tfd, else ~/.cache/tfd.  Its size
 * is kept near $TFD_CACHE_SIZE megabytes, else 1024: insertions remove the
 * least recently used files.  An empty name gives a cache that is always empty,
 * as does a folder that cannot be made or that others may write to.  In a; any
 * number of threads may use it. */
BeCache *be_cache_open(Arena *a, const char *dir);

/* Why an existing folder is not used, or which limit is none, as a message;
 * NULL if there is nothing to say. */
const char *be_cache_warning(const BeCache *c);

/* Whether code is also looked for by LLVM's module ($TFD_CACHE_MODULES is 1):
 * other builds of this compiler make the same modules. */
bool be_cache_has_modules(const BeCache *c);

/* Keyed hashes; cannot fail; differ between caches. */
BeCacheKey be_cache_key(const BeCache *c, const char *text, size_t len,
                        const char *target, int level);
BeCacheKey be_cache_module_key(const BeCache *c, const void *bitcode,
                               size_t size, const char *target, int level);

/* The object stored under key, in a; false if it is missing or damaged. */
bool be_cache_get(const BeCache *c, BeCacheKey key, Arena *a,
                  const void **bytes, size_t *size);
void be_cache_put(const BeCache *c, BeCacheKey key, const void *bytes,
                  size_t size);

#endif
