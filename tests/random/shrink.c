/*
 * shrink.c - reduces a failing program to a few lines
 *
 * The text is a list of lines, one operation each; a line that ends in "{" and
 * the one that closes it belong together.  What may not be left out shows in
 * that the program is refused, or fails in another way.
 */
#include "tests/random/shrink.h"

#include <ctype.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "tests/random/check.h"

typedef VEC(const char *) Lines;

typedef struct Shrink {
    Arena *arena;
    Lines lines;
    const char *kind; /* of failure */
    const char *wrong;
    bool refused;
    unsigned seconds; /* for a program */
    int tries;        /* left */
} Shrink;

/* What two failures have in common: the words without numbers and names. */
static const char *
kind_of(Arena *a, const char *wrong)
{
    Str s = str_new(a);
    bool in_quotes = false;
    const char *error = strstr(wrong, "error:");
    if (error)
        wrong = error;
    for (const char *p = wrong; *p && *p != '\n' && s.len < 60; p++) {
        in_quotes ^= *p == '"';
        if (!in_quotes && (isalpha(*p) || *p == ' '))
            str_addc(&s, *p);
    }
    const char *kind = str_text(&s);
    size_t n = strcspn(wrong, " ");
    if (!strncmp(wrong, "signal ", 7))
        return arena_strndup(a, wrong, strcspn(wrong, "\n"));
    if (!strncmp(wrong, "difference", n) || !strncmp(wrong, "varies", n))
        return arena_strndup(a, wrong, n);
    return kind;
}

static const char *
join(Arena *a, const Lines *lines)
{
    Str s = str_new(a);
    for (int i = 0; i < lines->len; i++)
        if (lines->data[i])
            str_addf(&s, "%s\n", lines->data[i]);
    return str_text(&s);
}

/* Whether the lines still fail in the same way; then they stay. */
static bool
accept(Shrink *s, Lines lines)
{
    if (s->tries-- <= 0)
        return false;
    Arena *a = arena_new(NULL, "try");
    const char *wrong = check_apart(a, join(a, &lines), s->seconds);
    bool alike = wrong && strcmp(kind_of(a, wrong), s->kind) == 0;
    if (alike) {
        s->wrong = arena_strdup(s->arena, wrong);
        s->lines.len = 0;
        for (int i = 0; i < lines.len; i++)
            if (lines.data[i])
                VEC_PUSH(s->arena, s->lines, lines.data[i]);
    }
    arena_release(a);
    return alike;
}

static Lines
copy(Shrink *s)
{
    Lines lines = {0};
    VEC_RESERVE(s->arena, lines, s->lines.len);
    for (int i = 0; i < s->lines.len; i++)
        VEC_PUSH(s->arena, lines, s->lines.data[i]);
    return lines;
}

static bool
opens(const char *line)
{
    size_t n = strlen(line);
    return n && line[n - 1] == '{';
}

static int
indent_of(const char *line)
{
    return (int)strspn(line, " ");
}

/* The last line of the block that line i begins; i itself if it begins none. */
static int
end_of(const Lines *lines, int i)
{
    int end = i;
    if (!opens(lines->data[i]))
        return i;
    while (++end < lines->len)
        if (indent_of(lines->data[end]) <= indent_of(lines->data[i]) &&
            !opens(lines->data[end]))
            return end;
    return i;
}

static bool
leave_out(Shrink *s, int first, int end)
{
    Lines lines = copy(s);
    for (int i = first; i < end; i++)
        lines.data[i] = NULL;
    return accept(s, lines);
}

/* Without n lines at a time, the last ones first. */
static bool
leave_out_chunks(Shrink *s, int n)
{
    bool any = false;
    for (int i = s->lines.len - n; i >= 0; i -= n)
        if (i + n <= s->lines.len)
            any |= leave_out(s, i, i + n);
    return any;
}

static bool
leave_out_blocks(Shrink *s)
{
    bool any = false;
    for (int i = s->lines.len - 1; i >= 0; i--)
        if (i < s->lines.len)
            any |= leave_out(s, i, end_of(&s->lines, i) + 1);
    return any;
}

/* A block's lines without its first and last one. */
static bool
unwrap_blocks(Shrink *s)
{
    bool any = false;
    for (int i = s->lines.len - 1; i >= 0; i--) {
        int end = i < s->lines.len ? end_of(&s->lines, i) : i;
        if (end == i)
            continue;
        Lines lines = copy(s);
        int indent = indent_of(lines.data[i]);
        for (int k = i; k <= end; k++)
            if (indent_of(lines.data[k]) == indent)
                lines.data[k] = NULL;
        any |= accept(s, lines);
    }
    return any;
}

/* ---- values by their operands ------------------------------------------- */

static bool
is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* line with the name from replaced by to. */
static const char *
renamed(Arena *a, const char *line, const char *from, const char *to)
{
    Str s = str_new(a);
    size_t n = strlen(from);
    for (const char *p = line; *p; p++) {
        bool begins = p == line || (!is_name_char(p[-1]) && p[-1] != '.');
        if (begins && !strncmp(p, from, n) && !is_name_char(p[n])) {
            str_add(&s, to);
            p += n - 1;
        } else {
            str_addc(&s, *p);
        }
    }
    return str_text(&s);
}

static bool
replace_value(Shrink *s, int i, const char *name, const char *by)
{
    Lines lines = copy(s);
    lines.data[i] = NULL;
    for (int k = i + 1; k < lines.len; k++)
        lines.data[k] = renamed(s->arena, lines.data[k], name, by);
    return accept(s, lines);
}

/* "let NAME = TEXT": every name in TEXT is tried in its place, and 1. */
static bool
simplify_let(Shrink *s, int i)
{
    const char *at = s->lines.data[i] + indent_of(s->lines.data[i]);
    if (strncmp(at, "let x", 5) != 0 || opens(at))
        return false;
    size_t n = strcspn(at + 4, " ");
    const char *name = arena_strndup(s->arena, at + 4, n);
    for (const char *p = at + 4 + n; *p; p++) {
        if (!isalpha((unsigned char)*p) || is_name_char(p[-1]))
            continue;
        size_t len = 0;
        while (is_name_char(p[len]))
            len++;
        if (p[len] != '(' &&
            replace_value(s, i, name, arena_strndup(s->arena, p, len)))
            return true;
        p += len - 1;
    }
    return false;
}

static bool
simplify_values(Shrink *s)
{
    bool any = false;
    for (int i = s->lines.len - 1; i >= 0; i--)
        if (i < s->lines.len)
            any |= simplify_let(s, i);
    return any;
}

/* ---- all of it ---------------------------------------------------------- */

/* What takes longer than the program had is something else than the failure,
 * unless that is the failure: a part of a loop may leave it without an end. */
static unsigned
seconds_for(Arena *a, const char *wrong)
{
    const char *late = arena_printf(a, "signal %d ", SIGALRM);
    return strncmp(wrong, late, strlen(late)) == 0 ? MINUTE : MINUTE / 6;
}

const char *
shrink(Arena *a, const char *text, const char **wrong)
{
    Shrink s = {.arena = a,
                .kind = kind_of(a, *wrong),
                .wrong = *wrong,
                .refused = strncmp(*wrong, "refused", 7) == 0,
                .seconds = seconds_for(a, *wrong),
                .tries = 1500};
    for (const char *p = text; *p; p += strcspn(p, "\n") + 1) {
        VEC_PUSH(a, s.lines, arena_strndup(a, p, strcspn(p, "\n")));
        if (!p[strcspn(p, "\n")])
            break;
    }
    for (bool any = true; any && s.tries > 0;) {
        any = leave_out_chunks(&s, 6);
        any |= leave_out_blocks(&s);
        any |= unwrap_blocks(&s);
        /* another value may be refused for a reason of its own */
        if (!s.refused)
            any |= simplify_values(&s);
    }
    *wrong = s.wrong;
    return join(a, &s.lines);
}
