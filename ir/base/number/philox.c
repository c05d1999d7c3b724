/*
 * philox.c - random numbers by counter
 *
 * Ten rounds.  Each multiplies two words, and the halves of the products
 * replace and mix with the words that were not multiplied; between rounds the
 * key is increased by the golden ratio and sqrt(3) - 1.
 */
#include "ir/base/number/philox.h"

const uint32_t philox_multiplier[2] = {0xD2511F53, 0xCD9E8D57};
const uint32_t philox_bump[2] = {0x9E3779B9, 0xBB67AE85};

void
philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)philox_multiplier[0] * x0;
        uint64_t p1 = (uint64_t)philox_multiplier[1] * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x1 = (uint32_t)p1;
        x3 = (uint32_t)p0;
        k0 += philox_bump[0];
        k1 += philox_bump[1];
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}
