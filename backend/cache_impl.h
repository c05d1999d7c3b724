/*
 * cache_impl.h - what the files of the cache share
 */
#ifndef TFD_BACKEND_CACHE_IMPL_H
#define TFD_BACKEND_CACHE_IMPL_H

#include <stdint.h>

enum { CACHE_FOLDERS = 256 };

/* Removes the least recently used files of an open folder until the rest takes
 * up to limit bytes of the disk, and all that is no file of the cache. */
void be_cache_trim(int folder, uint64_t limit);

#endif
