/*
 * arena.h - an arena for each test, or for each group
 *
 *   cmocka_unit_test_setup_teardown(test, new_arena, release_arena)
 *   cmocka_run_group_tests(tests, new_arena, release_arena)
 *
 * A test finds it as `arena`, and as *state.
 */
#ifndef TFD_TESTS_UNIT_ARENA_H
#define TFD_TESTS_UNIT_ARENA_H

#include "ir/base/arena.h"

static Arena *arena;

static inline int
new_arena(void **state)
{
    arena = arena_new(NULL, "test");
    *state = arena;
    return 0;
}

static inline int
release_arena(void **state)
{
    (void)state;
    arena_release(arena);
    arena = NULL;
    return 0;
}

#endif
