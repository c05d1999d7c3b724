/*
 * pairs_test.c - the order of products of bf16, beside what processors do
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>
#include "ir/rules/pairs.h"

static float
sum_in(IrPairOrder order, int num, const float *x, const float *y)
{
    IrPairs p = {.order = order};
    for (int i = 0; i < num; i++)
        ir_pairs_add(&p, x[i], y[i]);
    return ir_pairs_sum(&p);
}

static float
sum_of(int num, const float *x, const float *y)
{
    return sum_in(IR_TWO_CHAINS, num, x, y);
}

static void
assert_bits(float have, float want)
{
    if (memcmp(&have, &want, sizeof have))
        fail_msg("%a is not %a", (double)have, (double)want);
}

/* 2^24 + 1 + 1 is 2^24 in one chain, and 2^24 + 2 where 1 + 1 is the other. */
static void
even_and_odd_products_are_chains(void **state)
{
    (void)state;
    const float x[] = {4096, 1, 1, 1, 1}, y[] = {4096, 1, 1, 1, 1};
    assert_bits(sum_of(4, x, y), 16777218);
    assert_bits(sum_of(5, x, y), 16777218);
}

static void
groups_are_added_to_the_sum(void **state)
{
    (void)state;
    float x[67] = {4096}, y[67] = {4096};
    for (int i = 32; i < 67; i++)
        x[i] = y[i] = 0.25F;
    assert_bits(sum_of(64, x, y), 16777218); /* of 32 / 16 in one group */
    assert_bits(sum_of(67, x, y), 16777218);
}

/* A result below 2^-126 - 2^-151 is 0, one from there on 2^-126. */
static void
subnormal_results_are_zeros(void **state)
{
    (void)state;
    const float half = 0x1p-63F;
    float x[] = {half, 0, -0x1p-76F}, y[] = {half, 0, 0x1p-75F};
    assert_bits(sum_of(3, x, y), 0x1p-126F);
    x[2] = -0x1.02p-76F;
    assert_bits(sum_of(3, x, y), 0);
    x[0] = -half;
    x[2] = 0x1p-74F;
    assert_bits(sum_of(3, x, y), 0); /* the last group has more, +0 */
}

static void
subnormal_operands_are_zeros(void **state)
{
    (void)state;
    const float x[] = {0x1p-130F, 1}, y[] = {0x1p120F, 0x1p-130F};
    assert_bits(sum_of(2, x, y), 0);
}

/* Of 32 products -0 stays: the chains are -0, and so is the sum of +0 and a
 * subnormal number. */
static void
a_full_group_keeps_negative_zeros(void **state)
{
    (void)state;
    float x[32] = {0}, y[32] = {0};
    x[28] = 0x1p-63F, x[29] = -0x1.8p-63F;
    y[28] = y[29] = 0x1p-63F;
    assert_bits(sum_of(32, x, y), 0);
    float chains[] = {0x1p-126F, -0x1.8p-126F};
    IrPairs p = {.order = IR_TWO_CHAINS,
                 .chains = {chains[0], chains[1]},
                 .sum = -0.0F,
                 .count = 2};
    assert_bits(ir_pairs_sum(&p), -0.0F);
}

/* 2^24 + 1 + 1 is 2^24 from left to right, and 2^24 + 2 from right to left. */
static void
the_second_of_two_is_first(void **state)
{
    (void)state;
    const float x[] = {4096, 1, 1, 1, 1}, y[] = {4096, 1, 1, 1, 1};
    assert_bits(sum_in(IR_ONE_CHAIN, 2, x, y), 16777216);
    const float z[] = {1, 4096, -1, 1}, w[] = {1, 4096, 1, 1};
    assert_bits(sum_in(IR_ONE_CHAIN, 4, z, w), 16777215);
    const float v[] = {4096, 0, 1, -4096}, u[] = {4096, 0, 1, 4096};
    assert_bits(sum_in(IR_ONE_CHAIN, 4, v, u), 1);
}

static void
each_sum_of_one_chain_is_flushed(void **state)
{
    (void)state;
    const float half = 0x1p-63F;
    const float x[] = {half, -half}, y[] = {0x1p-70F, half};
    /* -2^-126 + 2^-133; 2^-133 alone is flushed, and then -2^-126 is left */
    assert_bits(sum_in(IR_ONE_CHAIN, 2, x, y), -0.0F);
    const float z[] = {0x1p-70F, half}, w[] = {half, -0x1p-70F};
    assert_bits(sum_in(IR_ONE_CHAIN, 2, z, w), 0);
    const float v[] = {1}, u[] = {0x1p-130F};
    assert_bits(sum_in(IR_ONE_CHAIN, 1, v, u), 0);
}

/* -0 stays where there are two, and becomes +0 where zeros fill up. */
static void
zeros_fill_up_the_last_pair(void **state)
{
    (void)state;
    IrPairs p = {.order = IR_ONE_CHAIN, .sum = -0.0F};
    assert_bits(ir_pairs_sum(&p), -0.0F);
    ir_pairs_add(&p, -0.0F, 1);
    assert_bits(ir_pairs_sum(&p), 0);
    ir_pairs_add(&p, -0.0F, 1);
    assert_bits(ir_pairs_sum(&p), -0.0F);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_and_odd_products_are_chains),
        cmocka_unit_test(groups_are_added_to_the_sum),
        cmocka_unit_test(subnormal_results_are_zeros),
        cmocka_unit_test(subnormal_operands_are_zeros),
        cmocka_unit_test(a_full_group_keeps_negative_zeros),
        cmocka_unit_test(the_second_of_two_is_first),
        cmocka_unit_test(each_sum_of_one_chain_is_flushed),
        cmocka_unit_test(zeros_fill_up_the_last_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
