/*
 * valid_test.c - the set of valid values, compared with a plain list
 */
#include "tests/unit/unit.h"

#include "ir/verify/valid.h"
#include "tests/unit/arena.h"

enum { SLOTS = 200, STEPS = 20000, VARS = 20 };

typedef struct Both {
    Extent extents[SLOTS];
    bool listed[SLOTS];
    ValidSet set;
    unsigned state;
} Both;

static int
pick(Both *b, int n)
{
    b->state = b->state * 1664525u + 1013904223u;
    return (int)(b->state >> 8) % n;
}

/* Some are empty, some other names of earlier ones, some of other spaces. */
static void
make_slots(Both *b)
{
    static const IrSpace spaces[] = {SPACE_ARENA, SPACE_ARENA, SPACE_ROW,
                                     SPACE_IN};
    for (int i = 0; i < SLOTS; i++) {
        b->extents[i] = (Extent){{spaces[pick(b, 4)], pick(b, 1000)},
                                 pick(b, 10) ? 1 + pick(b, 80) : 0};
        if (i && pick(b, 4) == 0)
            b->extents[i] = b->extents[pick(b, i)];
    }
    b->set = ir_valid_new(arena, ir_slot_order_new(arena, b->extents, SLOTS));
}

static void
clobber_both(Both *b, const Extent *e, int first)
{
    ir_valid_clobber(&b->set, e, first);
    for (int i = first; i < SLOTS; i++)
        b->listed[i] &= !ir_extents_overlap(&b->extents[i], e);
}

static void
add_both(Both *b, int slot)
{
    ir_valid_add(&b->set, slot);
    b->listed[slot] = true;
}

/* Written to, it is valid, as are all of its names that are given to it. */
static void
write_both(Both *b, int slot)
{
    clobber_both(b, &b->extents[slot], 0);
    add_both(b, slot);
    for (int i = 0; i < SLOTS; i++)
        if (ir_place_equal(b->extents[i].place, b->extents[slot].place) &&
            b->extents[i].bytes == b->extents[slot].bytes && pick(b, 2))
            add_both(b, i);
}

static void
assert_equal(const Both *b)
{
    for (int i = 0; i < SLOTS; i++)
        assert_int_equal(ir_valid_has(&b->set, i), b->listed[i]);
}

static void
a_set_is_what_a_list_says(void **state)
{
    (void)state;
    Both b = {.state = 1};
    make_slots(&b);
    for (int i = 0; i < STEPS; i++) {
        const Extent *e = &b.extents[pick(&b, SLOTS)];
        if (pick(&b, 4))
            write_both(&b, pick(&b, SLOTS));
        else
            clobber_both(&b, e, pick(&b, 2) ? VARS : 0);
        assert_equal(&b);
    }
}

static void
sets_are_copied_and_met(void **state)
{
    (void)state;
    Both b = {.state = 3};
    make_slots(&b);
    write_both(&b, 0);
    assert_true(b.extents[0].bytes > 0);
    ValidSet copy = ir_valid_copy(arena, &b.set);
    clobber_both(&b, &b.extents[0], 0);
    assert_true(ir_valid_has(&copy, 0));
    ir_valid_intersect(&copy, &b.set);
    assert_false(ir_valid_has(&copy, 0));
    ir_valid_assign(&b.set, &copy);
    assert_equal(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_set_is_what_a_list_says, new_arena,
                                        release_arena),
        cmocka_unit_test_setup_teardown(sets_are_copied_and_met, new_arena,
                                        release_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
