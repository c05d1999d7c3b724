/*
 * two.c - another object for loader_test, which one.c calls
 */
#include <stdint.h>

int64_t p_add_seven(int64_t x);
double p_scale(double x);

int64_t
p_add_seven(int64_t x)
{
    return x + 7;
}

double
p_scale(double x)
{
    return x * 1.5 + 0.25;
}
