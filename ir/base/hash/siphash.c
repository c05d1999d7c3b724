/*
 * siphash.c - a hash that cannot be predicted without its key
 *
 * Four words of state; two rounds mix in each word of the message.
 */
#include "ir/base/hash/siphash.h"

#include <endian.h>
#include <string.h>

enum { WORD = 8, ROUNDS_A_WORD = 2, ROUNDS_AT_END = 4 };

static uint64_t
rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

/* Half of a round, for two neighbouring words. */
static void
mix(uint64_t *x, uint64_t *y, int by)
{
    *x += *y;
    *y = rotate(*y, by) ^ *x;
}

static void
stir(SipHash *s, int rounds)
{
    uint64_t *v = s->v;
    for (int i = 0; i < rounds; i++) {
        mix(&v[0], &v[1], 13);
        v[0] = rotate(v[0], 32);
        mix(&v[2], &v[3], 16);
        mix(&v[0], &v[3], 21);
        mix(&v[2], &v[1], 17);
        v[2] = rotate(v[2], 32);
    }
}

static void
add_word(SipHash *s, uint64_t word)
{
    s->v[3] ^= word;
    stir(s, ROUNDS_A_WORD);
    s->v[0] ^= word;
}

static uint64_t
load(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return le64toh(word);
}

SipHash
siphash_begin(const uint8_t key[SIPHASH_KEY])
{
    uint64_t low = load(key), high = load(key + WORD);
    return (SipHash){.v = {low ^ 0x736f6d6570736575, /* "somepseu" ... */
                           high ^ 0x646f72616e646f6d ^ 0xee,
                           low ^ 0x6c7967656e657261,
                           high ^ 0x7465646279746573}};
}

static void
add_byte(SipHash *s, uint8_t byte)
{
    s->tail |= (uint64_t)byte << (s->len % WORD * 8);
    if (++s->len % WORD)
        return;
    add_word(s, s->tail);
    s->tail = 0;
}

void
siphash_add(SipHash *s, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    for (; n && s->len % WORD; n--)
        add_byte(s, *p++);
    for (; n >= WORD; n -= WORD, p += WORD, s->len += WORD)
        add_word(s, load(p));
    for (; n; n--)
        add_byte(s, *p++);
}

static uint64_t
folded(const SipHash *s)
{
    return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

SipValue
siphash_end(SipHash *s)
{
    SipValue out;
    add_word(s, s->len << 56 | s->tail);
    s->v[2] ^= 0xee;
    stir(s, ROUNDS_AT_END);
    out.first = folded(s);
    s->v[1] ^= 0xdd;
    stir(s, ROUNDS_AT_END);
    out.second = folded(s);
    return out;
}
