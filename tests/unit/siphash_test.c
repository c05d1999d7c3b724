/*
 * siphash_test.c - against the values of OpenSSL 3
 *
 * openssl mac -macopt hexkey:000102…0f -macopt size:16 -in FILE SipHash
 */
#include "tests/unit/unit.h"

#include <endian.h>
#include "ir/base/hash/siphash.h"

static uint8_t key[SIPHASH_KEY], message[63];

static const struct {
    size_t len;
    uint64_t first, second; /* as big-endian numbers */
} values[] = {
    {0, 0xa3817f04ba25a8e6, 0x6df67214c7550293},
    {1, 0xda87c1d86b99af44, 0x347659119b22fc45},
    {7, 0xa1f1ebbed8dbc153, 0xc0b84aa61ff08239},
    {8, 0x3b62a9ba6258f561, 0x0f83e264f31497b4},
    {15, 0x5493e99933b0a811, 0x7e08ec0f97cfc3d9},
    {16, 0x6ee2a4ca67b054bb, 0xfd3315bf85230577},
    {63, 0x5150d1772f50834a, 0x503e069a973fbd7c},
};

static void
expect(SipHash *s, size_t i)
{
    SipValue v = siphash_end(s);
    assert_int_equal(htobe64(v.first), htole64(values[i].first));
    assert_int_equal(htobe64(v.second), htole64(values[i].second));
}

static void
values_are_those_of_openssl(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        SipHash s = siphash_begin(key);
        siphash_add(&s, message, values[i].len);
        expect(&s, i);
    }
}

static void
parts_are_as_good_as_a_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t cut = 0; cut <= values[i].len; cut++) {
            SipHash s = siphash_begin(key);
            siphash_add(&s, message, cut);
            siphash_add(&s, message + cut, values[i].len - cut);
            expect(&s, i);
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_openssl),
        cmocka_unit_test(parts_are_as_good_as_a_whole),
    };
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (uint8_t)i;
    memcpy(key, message, sizeof key);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
