/*
 * splice.c - new texts, from pieces of valid ones
 *
 * A text is divided into words once: names, numbers, strings, operators,
 * brackets, ends of lines.  A statement extends from the beginning of a line to
 * the end of a line where all its brackets are closed, a group from a bracket
 * to its partner.  The grammar is not used beyond that, so this serves
 * programs, IR and kernels.
 */
#include "tests/fuzz/splice.h"

#include <ctype.h>
#include <string.h>
#include "ir/base/vec.h"

typedef enum Kind { NAME, NUMBER, STRING, SIGN, OPEN, CLOSE, END } Kind;

/* Bytes begin to end of the text. */
typedef struct Word {
    Kind kind;
    size_t begin, end;
} Word;

typedef struct Text {
    Bytes bytes;
    VEC(Word) words;
} Text;

/* Words first to last, last excluded. */
typedef struct Range {
    int first, last;
} Range;

typedef struct Splicer {
    Arena *arena;
    uint64_t state;
} Splicer;

/* xorshift64*; from 0 to n - 1, 0 if n is not positive. */
static int
below(Splicer *s, int n)
{
    s->state ^= s->state >> 12;
    s->state ^= s->state << 25;
    s->state ^= s->state >> 27;
    uint64_t x = s->state * UINT64_C(0x2545F4914F6CDD1D) >> 33;
    return n > 0 ? (int)(x % (uint64_t)n) : 0;
}

/* ---- words --------------------------------------------------------------- */

static size_t
end_of_string(Bytes b, size_t at)
{
    for (at++; at < b.len && b.data[at] != '"' && b.data[at] != '\n'; at++)
        at += b.data[at] == '\\' && at + 1 < b.len;
    return at < b.len && b.data[at] == '"' ? at + 1 : at;
}

static Kind
kind_of(char c)
{
    if (c == '\n')
        return END;
    if (c == '"')
        return STRING;
    if (isdigit((unsigned char)c))
        return NUMBER;
    if (isalpha((unsigned char)c) || strchr("_%@", c))
        return NAME;
    return strchr("([{", c) ? OPEN : strchr(")]}", c) ? CLOSE : SIGN;
}

static bool
goes_on(Kind kind, Bytes b, size_t begin, size_t at)
{
    unsigned char c = (unsigned char)b.data[at];
    if (kind == NAME || kind == NUMBER)
        return isalnum(c) || c == '_' ||
               (c == '.' && kind == NUMBER && at + 1 < b.len &&
                isdigit((unsigned char)b.data[at + 1]));
    /* == != <= >= += -= *= /= ** // .. -> && such; two at most */
    return kind == SIGN && at == begin + 1 && strchr("=*/.>", c) &&
           strchr("=!<>+-*/.", b.data[begin]);
}

static Text
read_text(Arena *a, Bytes b)
{
    Text t = {.bytes = b};
    for (size_t at = 0; at < b.len;) {
        if (b.data[at] == ' ' || b.data[at] == '\t' || !b.data[at]) {
            at++;
            continue;
        }
        Word w = {kind_of(b.data[at]), at, at + 1};
        if (w.kind == STRING)
            w.end = end_of_string(b, at);
        while (w.end < b.len && w.kind != STRING &&
               goes_on(w.kind, b, w.begin, w.end) && b.data[w.end])
            w.end++;
        VEC_PUSH(a, t.words, w);
        at = w.end;
    }
    return t;
}

/* ---- pieces -------------------------------------------------------------- */

/* From the bracket that is word i to its partner. */
static Range
group_at(const Text *t, int i)
{
    int depth = 0, k = i;
    for (; k < t->words.len; k++) {
        depth += t->words.data[k].kind == OPEN;
        depth -= t->words.data[k].kind == CLOSE;
        if (depth == 0)
            return (Range){i, k + 1};
    }
    return (Range){i, i + 1};
}

/* The statement around word i. */
static Range
statement_at(const Text *t, int i)
{
    Range r = {i, i};
    int depth = 0;
    while (r.first > 0 && t->words.data[r.first - 1].kind != END)
        r.first--;
    for (r.last = r.first; r.last < t->words.len; r.last++) {
        Kind kind = t->words.data[r.last].kind;
        depth += kind == OPEN;
        depth -= kind == CLOSE;
        if (kind == END && depth <= 0)
            return (Range){r.first, r.last + 1};
    }
    return r;
}

/* A word like w, searched from a random position; NULL if there is no other. */
static bool
find_like(Splicer *s, const Text *t, const Text *of, int w, int *out)
{
    const Word *like = &of->words.data[w];
    int n = t->words.len, start = below(s, n);
    for (int i = 0; i < n; i++) {
        *out = (start + i) % n;
        const Word *x = &t->words.data[*out];
        bool bracket = x->kind == OPEN || x->kind == CLOSE;
        if (x->kind == like->kind &&
            (!bracket ||
             t->bytes.data[x->begin] == of->bytes.data[like->begin]))
            return true;
    }
    return false;
}

/* ---- edits --------------------------------------------------------------- */

/* The bytes of words, with the blanks between them. */
static Bytes
bytes_of(const Text *t, Range r)
{
    if (r.first >= r.last)
        return (Bytes){t->bytes.data, 0};
    size_t begin = t->words.data[r.first].begin;
    return (Bytes){t->bytes.data + begin,
                   t->words.data[r.last - 1].end - begin};
}

static Bytes
replaced(Splicer *s, const Text *t, Range r, Bytes by)
{
    Bytes all = t->bytes, out;
    size_t begin =
        r.first < t->words.len ? t->words.data[r.first].begin : all.len;
    size_t end = r.last > r.first ? t->words.data[r.last - 1].end : begin;
    out.len = all.len - (end - begin) + by.len;
    out.data = arena_alloc(s->arena, out.len + 1);
    memcpy(out.data, all.data, begin);
    memcpy(out.data + begin, by.data, by.len);
    memcpy(out.data + begin + by.len, all.data + end, all.len - end);
    return out;
}

static Bytes
edit(Splicer *s, const Text *t, const Text *from)
{
    int i = below(s, t->words.len), k = below(s, from->words.len);
    Range none = statement_at(t, i);
    none.last = none.first;
    switch (below(s, 8)) {
    case 0: /* another statement after this one */
    case 1:
        return replaced(s, t, none, bytes_of(from, statement_at(from, k)));
    case 2: /* in its place */
        return replaced(s, t, statement_at(t, i),
                        bytes_of(from, statement_at(from, k)));
    case 3:
        return replaced(s, t, statement_at(t, i), (Bytes){t->bytes.data, 0});
    case 4: /* its arguments, items or block: those of another */
        while (i > 0 && t->words.data[i].kind != OPEN)
            i--;
        if (find_like(s, from, t, i, &k))
            return replaced(s, t, group_at(t, i),
                            bytes_of(from, group_at(from, k)));
        return t->bytes;
    default: /* a name for a name, a number for a number */
        if (find_like(s, below(s, 2) ? t : from, t, i, &k)) {
            const Text *of = k < t->words.len && below(s, 2) ? t : from;
            if (k < of->words.len)
                return replaced(s, t, (Range){i, i + 1},
                                bytes_of(of, (Range){k, k + 1}));
        }
        return t->bytes;
    }
}

Bytes
splice(Arena *a, Bytes into, Bytes from, uint64_t seed, size_t max)
{
    Splicer s = {a, (seed + 1) * UINT64_C(0x9E3779B97F4A7C15)};
    Text donor = read_text(a, from);
    for (int n = below(&s, 4) + 1; n > 0; n--) {
        Text t = read_text(a, into);
        if (!t.words.len || !donor.words.len)
            break;
        Bytes next = edit(&s, &t, below(&s, 4) ? &donor : &t);
        if (next.len <= max)
            into = next;
    }
    return into;
}
