/*
 * philox_test.c - random numbers and hashes against published values
 */
#include "tests/unit/unit.h"

#include "ir/base/hash/hash.h"
#include "ir/base/number/philox.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* The known answers of the Random123 distribution (kat_vectors). */
static void
philox_gives_the_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], expect[4];
    } cases[] = {
        {{0, 0, 0, 0},
         {0, 0},
         {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        uint32_t out[4];
        philox4x32(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].expect, sizeof out);
    }
}

/* Plan files keep these for years: no version of the library may change them.
 */
static void
hashes_are_the_published_ones(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    assert_string_equal(hash_text(a, "", 0),
                        "99aa06d3014798d86001c324468d497f");
    assert_string_equal(hash_text(a, "abc", 3),
                        "06b05ab6733a618578af5f94892f3950");
    assert_int_equal(strlen(hash_text(a, "\0", 1)), HASH_LEN);
    arena_release(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(hashes_are_the_published_ones),
    };
    return cmocka_run_group_tests_name("philox", tests, NULL, NULL);
}
