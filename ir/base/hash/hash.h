/*
 * hash.h - names by content
 *
 * XXH3 in 128 bits: fast, and equal on every machine.  It detects damage and
 * distinguishes contents; it does not resist an attacker who constructs
 * collisions.
 */
#ifndef TFD_IR_BASE_HASH_H
#define TFD_IR_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ir/base/arena.h"

enum { HASH_LEN = 32 }; /* digits of a hash as text */

/* The hash of n bytes as HASH_LEN lower-case hexadecimal digits, in a. */
const char *hash_text(Arena *a, const void *bytes, size_t n);

/* The same for bytes that come in parts. */
typedef struct Hash Hash;
Hash *hash_new(Arena *a);
void hash_add(Hash *h, const void *bytes, size_t n);
const char *hash_end(Arena *a, const Hash *h);

/* A hash in 64 bits, for comparisons within a process. */
uint64_t hash_bytes(const void *bytes, size_t n);

/* Whether files are compared with the hashes stored in them; TFD_CHECKSUMS=0
 * turns that off, so that a fuzzer gets past them. */
bool hash_is_checked(void);

#endif
