/*
 * philox.h - random numbers by counter (D7)
 *
 * Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
 * easy as 1, 2, 3" (2011): four words from a key of two words and a counter of
 * four, without a state, so that a number depends on its purpose and not on the
 * thread that draws it, or when.
 */
#ifndef TFD_IR_BASE_PHILOX_H
#define TFD_IR_BASE_PHILOX_H

#include <stdint.h>

/* The multipliers of a round, and the increments of the key after it. */
enum { PHILOX_ROUNDS = 10 };
extern const uint32_t philox_multiplier[2], philox_bump[2];

void philox4x32(const uint32_t counter[4], const uint32_t key[2],
                uint32_t out[4]);

#endif
