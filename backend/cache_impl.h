/*
 * cache_impl.h - shared by the files of the cache
 */
#ifndef TFD_BACKEND_CACHE_IMPL_H
#define TFD_BACKEND_CACHE_IMPL_H

#include <stdint.h>

enum { CACHE_FOLDERS = 256 };

/* Removes the least recently used files of an open folder until the others take
 * at most limit bytes of the disk; also removes everything that is not a file
 * of the cache. */
void be_cache_trim(int folder, uint64_t limit);

#endif
