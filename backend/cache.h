/*
 * cache.h - compiled code kept from one compilation to the next
 *
 * A folder of files named by a keyed hash of all that their bytes depend on:
 * text, target, level, this very compiler and its LLVM.  It may be deleted at
 * any time, and several compilers may use it at once.  Nothing that goes wrong
 * with it is an error: then code is compiled.
 *
 * The files become code that the user runs, so it is believed only if
 * the user made it (cache.c says how that is known).
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

/* dir NULL: $TFD_CACHE, else $XDG_CACHE_HOME/tfd, else ~/.cache/tfd.  It is
 * kept near $TFD_CACHE_SIZE megabytes, else 1024: the least recently used files
 * are removed when something is put there.  An empty name is a cache that never
 * has anything, and so is one whose folder cannot be made, or is not the user's
 * alone.  In a; any number of threads may use it. */
BeCache *be_cache_open(Arena *a, const char *dir);

/* Why a folder that is there is not used, a sentence; NULL if it is. */
const char *be_cache_refused(const BeCache *c);

/* Cannot fail; differs from cache to cache. */
BeCacheKey be_cache_key(const BeCache *c, const char *text, size_t len,
                        const char *target, int level);

/* The object stored under key, in a; false if there is none, or a damaged one.
 */
bool be_cache_get(const BeCache *c, BeCacheKey key, Arena *a,
                  const void **bytes, size_t *size);
void be_cache_put(const BeCache *c, BeCacheKey key, const void *bytes,
                  size_t size);

#endif
