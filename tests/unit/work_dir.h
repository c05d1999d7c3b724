/*
 * work_dir.h - folders for tests
 */
#ifndef TFD_TESTS_UNIT_WORK_DIR_H
#define TFD_TESTS_UNIT_WORK_DIR_H

#include "tests/unit/unit.h"

#include <ftw.h>
#include "ir/base/arena.h"

static inline int
remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static inline void
remove_dir(void *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* A new folder, removed with all it holds when a is released. */
static inline const char *
work_dir(Arena *a)
{
    char *path = arena_strdup(a, "/tmp/tfd-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    arena_on_release(a, remove_dir, path);
    return path;
}

#endif
