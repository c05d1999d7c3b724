/*
 * dir.h - an arena and a folder for each test
 *
 *   cmocka_unit_test_setup_teardown(test, new_dir, release_arena)
 *
 * A test finds them as `arena` and `dir`; the folder goes with the arena.
 */
#ifndef TFD_TESTS_UNIT_DIR_H
#define TFD_TESTS_UNIT_DIR_H

#include "tests/unit/arena.h"
#include "tests/unit/work_dir.h"

static const char *dir;

static inline int
new_dir(void **state)
{
    new_arena(state);
    dir = work_dir(arena);
    return 0;
}

static inline const char *
in_dir(const char *name)
{
    return arena_printf(arena, "%s/%s", dir, name);
}

#endif
