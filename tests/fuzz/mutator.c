/*
 * mutator.c - slightly wrong inputs, by number
 *
 * A mutation is one to four edits.  An edit replaces a piece of the input by
 * another piece; edits differ in how both are chosen.  Random numbers come from
 * Philox, with the number of the mutation in the counter.
 */
#include "tests/fuzz/mutator.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "ir/base/number/philox.h"

typedef struct Mutator {
    Arena *arena;
    uint64_t seed, number;
    uint32_t drawn; /* random numbers so far */
} Mutator;

/* A piece of the input: len bytes from at. */
typedef struct Piece {
    size_t at, len;
} Piece;

static uint32_t
draw(Mutator *m)
{
    uint32_t key[2] = {(uint32_t)m->seed, (uint32_t)(m->seed >> 32)};
    uint32_t counter[4] = {m->drawn++, (uint32_t)m->number,
                           (uint32_t)(m->number >> 32),
                           0x66757a7a /* "fuzz" */};
    uint32_t out[4];
    philox4x32(counter, key, out);
    return out[0];
}

/* From 0 to n - 1; 0 if n is 0. */
static size_t
below(Mutator *m, size_t n)
{
    return n ? draw(m) % n : 0;
}

static Bytes
replaced(Mutator *m, Bytes in, Piece piece, const char *by, size_t len)
{
    Bytes out = {.len = in.len - piece.len + len};
    out.data = arena_alloc(m->arena, out.len + 1);
    size_t end = piece.at + piece.len;
    memcpy(out.data, in.data, piece.at);
    memcpy(out.data + piece.at, by, len);
    memcpy(out.data + piece.at + len, in.data + end, in.len - end);
    return out;
}

static const char *
copied(Mutator *m, Bytes in, Piece piece)
{
    return arena_copy(m->arena, in.data + piece.at, piece.len);
}

/* ---- pieces ------------------------------------------------------------- */

static Piece
some_bytes(Mutator *m, Bytes in, size_t most)
{
    Piece p = {.at = below(m, in.len + 1)};
    size_t left = in.len - p.at;
    p.len = below(m, (most < left ? most : left) + 1);
    return p;
}

static Piece
some_line(Mutator *m, Bytes in)
{
    size_t begin = below(m, in.len), end = begin;
    while (begin > 0 && in.data[begin - 1] != '\n')
        begin--;
    while (end < in.len && in.data[end++] != '\n')
        ;
    return (Piece){begin, end - begin};
}

static bool
is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* A word, a number, or one other character that is no space. */
static Piece
some_token(Mutator *m, Bytes in)
{
    size_t begin = below(m, in.len), end;
    while (begin < in.len && isspace((unsigned char)in.data[begin]))
        begin++;
    if (begin == in.len)
        return (Piece){begin, 0};
    if (!is_word(in.data[begin]))
        return (Piece){begin, 1};
    for (end = begin; end < in.len && is_word(in.data[end]); end++)
        ;
    while (begin > 0 && is_word(in.data[begin - 1]))
        begin--;
    return (Piece){begin, end - begin};
}

/* The first number at or after a random position. */
static Piece
some_number(Mutator *m, Bytes in)
{
    size_t begin = below(m, in.len), end;
    while (begin < in.len && !isdigit((unsigned char)in.data[begin]))
        begin++;
    for (end = begin; end < in.len && isdigit((unsigned char)in.data[end]);
         end++)
        ;
    return (Piece){begin, end - begin};
}

/* ---- edits -------------------------------------------------------------- */

typedef Bytes Edit(Mutator *m, Bytes in);

static Bytes
flip_bit(Mutator *m, Bytes in)
{
    if (in.len)
        in.data[below(m, in.len)] ^= (char)(1 << below(m, 8));
    return in;
}

static Bytes
set_byte(Mutator *m, Bytes in)
{
    static const unsigned char values[] = {0, 1, ' ', '\n', 0x7f, 0x80, 0xff};
    if (in.len)
        in.data[below(m, in.len)] =
            (char)(below(m, 2) ? values[below(m, sizeof values)] : draw(m));
    return in;
}

/* A little-endian number of 1 to 8 bytes, at a position where one may be. */
static Bytes
set_word(Mutator *m, Bytes in)
{
    static const int64_t values[] = {0,  1,   -1,  2,     7,     8,    64,
                                     65, 127, 255, 65535, 65536, 4095, 4096};
    size_t width = (size_t)1 << below(m, 4);
    uint64_t x = (uint64_t)values[below(m, sizeof values / sizeof *values)];
    if (below(m, 4) == 0)
        x = ((uint64_t)1 << (8 * width - 1)) - below(m, 2);
    if (in.len >= width)
        memcpy(in.data + below(m, in.len - width + 1), &x, width);
    return in;
}

/* A piece over another one of its length. */
static Bytes
copy_over(Mutator *m, Bytes in)
{
    Piece from = some_bytes(m, in, 64);
    size_t to = below(m, in.len - from.len + 1);
    memmove(in.data + to, in.data + from.at, from.len);
    return in;
}

static Bytes
delete_bytes(Mutator *m, Bytes in)
{
    return replaced(m, in, some_bytes(m, in, below(m, 4) ? 4 : 64), "", 0);
}

static Bytes
insert_bytes(Mutator *m, Bytes in)
{
    char bytes[8];
    size_t n = 1 + below(m, sizeof bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)draw(m);
    return replaced(m, in, (Piece){below(m, in.len + 1), 0}, bytes, n);
}

/* A piece over another one, or between two others. */
static Bytes
move_bytes(Mutator *m, Bytes in)
{
    Piece from = some_bytes(m, in, 64), to = some_bytes(m, in, 64);
    if (below(m, 2))
        to.len = 0;
    return replaced(m, in, to, copied(m, in, from), from.len);
}

static Bytes
cut_off(Mutator *m, Bytes in)
{
    in.len = below(m, in.len + 1);
    return in;
}

static Bytes
delete_line(Mutator *m, Bytes in)
{
    return replaced(m, in, some_line(m, in), "", 0);
}

static Bytes
move_line(Mutator *m, Bytes in)
{
    Piece from = some_line(m, in), to = some_line(m, in);
    if (below(m, 2))
        to.len = 0;
    return replaced(m, in, to, copied(m, in, from), from.len);
}

static Bytes
delete_token(Mutator *m, Bytes in)
{
    return replaced(m, in, some_token(m, in), "", 0);
}

static Bytes
move_token(Mutator *m, Bytes in)
{
    Piece from = some_token(m, in), to = some_token(m, in);
    if (below(m, 4) == 0)
        to.len = 0;
    return replaced(m, in, to, copied(m, in, from), from.len);
}

static Bytes
set_number(Mutator *m, Bytes in)
{
    static const char *const values[] = {"0",
                                         "1",
                                         "2",
                                         "3",
                                         "7",
                                         "64",
                                         "65",
                                         "255",
                                         "1024",
                                         "65536",
                                         "2147483647",
                                         "2147483648",
                                         "-1",
                                         "-7",
                                         "0.0",
                                         "9223372036854775807",
                                         "1e38",
                                         "1e400",
                                         "4611686018427387904",
                                         "99999999999999999999999999999999"};
    size_t i = below(m, sizeof values / sizeof *values);
    return replaced(m, in, some_number(m, in), values[i], strlen(values[i]));
}

/* One character many times, to provoke deep nesting. */
static Bytes
repeat_character(Mutator *m, Bytes in)
{
    static const char characters[] = "([{-~!\"'+*.,:;%@#<=xn0 \n";
    char many[1000];
    size_t n = 2 + below(m, below(m, 4) ? 16 : sizeof many - 2);
    memset(many, characters[below(m, sizeof characters - 1)], n);
    return replaced(m, in, (Piece){below(m, in.len + 1), 0}, many, n);
}

/* First those that keep the length, then those that change it, then those for
 * texts. */
static Edit *const edits[] = {
    flip_bit,     set_byte,     set_word,    copy_over,

    delete_bytes, insert_bytes, move_bytes,  cut_off,

    set_number,   set_number,   delete_line, move_line,
    delete_token, move_token,   move_token,  repeat_character,
};

enum {
    NUM_STEADY = 4,
    NUM_BINARY = 8,
    NUM_EDITS = sizeof edits / sizeof *edits
};

/* In most binary inputs every length is stated somewhere, so that changing it
 * tests little else: half of them keep it. */
Bytes
mutate(Arena *a, Bytes from, bool is_text, uint64_t seed, uint64_t number)
{
    Mutator m = {.arena = a, .seed = seed, .number = number};
    Bytes out = {arena_copy(a, from.data, from.len), from.len};
    size_t binary = below(&m, 2) ? NUM_STEADY : NUM_BINARY;
    size_t most = is_text ? NUM_EDITS : binary;
    for (size_t left = 1 + below(&m, 4); left > 0; left--)
        out = edits[below(&m, most)](&m, out);
    return out;
}
