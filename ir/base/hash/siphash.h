/*
 * siphash.h - a hash that cannot be predicted without its key
 *
 * SipHash-2-4 of 128 bits (Aumasson and Bernstein, 2012): a pseudorandom
 * function, so its value over some bytes is a message authentication code.
 * Allocates nothing and cannot fail.
 */
#ifndef TFD_IR_BASE_SIPHASH_H
#define TFD_IR_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

enum { SIPHASH_KEY = 16 }; /* bytes */

typedef struct SipHash {
    uint64_t v[4];
    uint64_t tail; /* bytes of an incomplete word, the first lowest */
    uint64_t len;
} SipHash;

typedef struct SipValue {
    uint64_t first, second;
} SipValue;

SipHash siphash_begin(const uint8_t key[SIPHASH_KEY]);
void siphash_add(SipHash *s, const void *bytes, size_t n);
/* The hash of everything that was added; s is used up. */
SipValue siphash_end(SipHash *s);

#endif
