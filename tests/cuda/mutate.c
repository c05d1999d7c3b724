/*
 * mutate.c - small mistakes in a PTX text
 *
 * A line is an instruction as NVPTX writes it: blanks, the guard, the name, the
 * operands with ", " between them, and a semicolon.
 */
#include "tests/cuda/mutate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *const mutation_names[NUM_MUTATIONS] = {
    "barrier removed",           "store off by an element",
    "misaligned vector access",  "wrong operand of floats",
    "wrong operand of integers", "missing predicate"};

/* ---- parts of a line ---------------------------------------------------- */

static bool
begins_with(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static const char *
name_of(const char *line)
{
    return line + strspn(line, " \t");
}

/* The bytes of an instruction's last type: 4 of "st.global.v2.f32". */
static int
element_bytes(const char *name)
{
    size_t len = strcspn(name, " \t;");
    while (len && name[len - 1] >= '0' && name[len - 1] <= '9')
        len--;
    return atoi(name + len) / 8;
}

/* ---- mistakes ----------------------------------------------------------- */

/* [%rd1+8] becomes [%rd1+12]. */
static const char *
shift_address(Arena *a, const char *line, int bytes)
{
    const char *open = strchr(line, '['),
               *end = open ? strchr(open, ']') : NULL;
    if (!end || bytes == 0)
        return NULL;
    const char *plus = memchr(open, '+', (size_t)(end - open));
    int offset = plus ? atoi(plus + 1) : 0;
    int base = (int)((plus ? plus : end) - line);
    return arena_printf(a, "%.*s+%d%s", base, line, offset + bytes, end);
}

static const char *
mutate_store(Arena *a, const char *line)
{
    const char *name = name_of(line);
    return begins_with(name, "st.")
               ? shift_address(a, line, element_bytes(name))
               : NULL;
}

static const char *
mutate_vector(Arena *a, const char *line)
{
    const char *name = name_of(line);
    size_t len = strcspn(name, " \t;");
    bool is_vector =
        memmem(name, len, ".v2.", 4) || memmem(name, len, ".v4.", 4);
    return is_vector && (begins_with(name, "ld.") || begins_with(name, "st."))
               ? shift_address(a, line, element_bytes(name))
               : NULL;
}

static bool
has_two_like_sources(const char *name)
{
    static const char *const names[] = {
        "fma.", "add.", "sub.", "mul.",  "mad.",  "max.", "min.",
        "and.", "or.",  "xor.", "setp.", "selp.", "div."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins_with(name, names[i]))
            return true;
    return false;
}

/* op d, x, y, ... becomes op d, x, x, ... */
static const char *
mutate_operand(Arena *a, const char *line)
{
    const char *x = strstr(line, ", "), *y = x ? strstr(x + 2, ", ") : NULL;
    if (!has_two_like_sources(name_of(line)) || !y || x[2] != '%')
        return NULL;
    size_t len = (size_t)(y - x) - 2;
    const char *rest = y + 2 + strcspn(y + 2, ",;");
    if (!strncmp(x + 2, y + 2, len) && y + 2 + len == rest)
        return NULL;
    return arena_printf(a, "%.*s, %.*s%s", (int)(y - line), line, (int)len,
                        x + 2, rest);
}

static bool
is_of_floats(const char *line)
{
    const char *name = name_of(line);
    size_t len = strcspn(name, " \t");
    return memmem(name, len, ".f32", 4) || memmem(name, len, ".f64", 4);
}

static const char *
mutate_number(Arena *a, const char *line)
{
    return is_of_floats(line) ? mutate_operand(a, line) : NULL;
}

static const char *
mutate_index(Arena *a, const char *line)
{
    return is_of_floats(line) ? NULL : mutate_operand(a, line);
}

static const char *
mutate_guard(Arena *a, const char *line)
{
    const char *name = name_of(line);
    return *name == '@' ? arena_printf(a, "\t%s", name + strcspn(name, " "))
                        : NULL;
}

static const char *
mutate_barrier(Arena *a, const char *line)
{
    return begins_with(name_of(line), "bar.sync") ? arena_strdup(a, "") : NULL;
}

const char *
mutate(Arena *a, const char *text, const char *at, MutationKind kind)
{
    static const char *(*const kinds[])(Arena *, const char *) = {
        [MUTATE_BARRIER] = mutate_barrier, [MUTATE_STORE] = mutate_store,
        [MUTATE_VECTOR] = mutate_vector,   [MUTATE_NUMBER] = mutate_number,
        [MUTATE_INDEX] = mutate_index,     [MUTATE_GUARD] = mutate_guard,
    };
    size_t len = strcspn(at, "\n");
    const char *line = arena_strndup(a, at, len);
    const char *changed = kinds[kind](a, line);
    return changed ? arena_printf(a, "%.*s%s%s", (int)(at - text), text,
                                  changed, at + len)
                   : NULL;
}

/* ---- probes ------------------------------------------------------------- */

/* Of an instruction's result: its type, without the dot. */
static const char *
result_type(Arena *a, const char *name)
{
    int bytes = element_bytes(name);
    if (begins_with(name, "setp.") ||
        memmem(name, strcspn(name, " \t"), ".pred", 5))
        return "pred";
    bool wide = begins_with(name, "mul.wide") || begins_with(name, "mad.wide");
    return arena_printf(a, "b%d", 8 * bytes * (wide ? 2 : 1));
}

/* The instruction with another destination. */
static const char *
with_destination(Arena *a, const char *line, const char *d)
{
    const char *name = name_of(line), *rest = strchr(line, ',');
    return arena_printf(a, "%.*s %s%s", (int)strcspn(name, " \t"), name, d,
                        rest);
}

/* Both results, and a violation where they differ. */
static const char *
probe_operand(Arena *a, const char *line)
{
    const char *changed = mutate_operand(a, line);
    if (!changed)
        return NULL;
    const char *type = result_type(a, name_of(line));
    bool is_pred = !strcmp(type, "pred");
    return arena_printf(
        a,
        "{ .reg .%s probe_x, probe_y; .reg .pred probe_p; %s %s "
        "%s.%s probe_p, probe_x, probe_y; @probe_p bar.warp.sync 0; } %s",
        type, with_destination(a, line, "probe_x"),
        with_destination(a, changed, "probe_y"), is_pred ? "xor" : "setp.ne",
        type, line);
}

static bool
accesses_memory(const char *line, size_t len)
{
    return memmem(line, len, ".shared", 7) || memmem(line, len, ".global", 7);
}

/* Whether a barrier comes next in the text, before any access, branch or label.
 */
static bool
barrier_follows(const char *line)
{
    while (*(line += strcspn(line, "\n"))) {
        const char *name = name_of(++line);
        size_t len = strcspn(line, "\n");
        if (begins_with(name, "bar.sync"))
            return true;
        if (accesses_memory(line, len) || memchr(line, ':', len) ||
            memmem(line, len, "bra", 3))
            return false;
    }
    return false;
}

static bool
is_beside_barrier(const char *text, const char *line)
{
    const char *before = NULL;
    for (const char *at = text; (at = strstr(at, "bar.sync")) && at < line;)
        before = at++;
    return barrier_follows(line) ||
           (before && barrier_follows(before) &&
            !memmem(before + 1, (size_t)(line - before), "bar.sync", 8));
}

static bool
is_operand(MutationKind kind)
{
    return kind == MUTATE_NUMBER || kind == MUTATE_INDEX;
}

static const char *
probe_execution(Arena *a, const char *text, const char *at, const char *line,
                MutationKind kind)
{
    if (is_operand(kind))
        return probe_operand(a, line);
    if (kind == MUTATE_GUARD)
        return arena_printf(a, "%s bar.warp.sync 0;", line);
    if (kind == MUTATE_BARRIER && is_beside_barrier(text, at))
        return line;
    return arena_printf(a, "bar.warp.sync 0; %s", line);
}

/* The instruction, and then another result than any mistake would give. */
static const char *
probe_use(Arena *a, const char *line)
{
    const char *name = name_of(line), *type = result_type(a, name);
    const char *d = name + strcspn(name, " \t");
    d += strspn(d, " \t");
    int len = (int)strcspn(d, ",");
    if (!strcmp(type, "pred"))
        return arena_printf(a, "%s not.pred %.*s, %.*s;", line, len, d, len, d);
    if (!is_of_floats(line))
        return arena_printf(a, "%s xor.%s %.*s, %.*s, 0x5bd1;", line, type, len,
                            d, len, d);
    return arena_printf(a, "%s mov.f%s %.*s, 0%s;", line, type + 1, len, d,
                        strcmp(type, "b32") ? "d41678c29c0000000"
                                            : "f4b3c614e");
}

const char *
mutate_probe(Arena *a, const char *text, const char *at, MutationKind kind,
             int n)
{
    size_t len = strcspn(at, "\n");
    const char *line = arena_strndup(a, at, len);
    if (n > is_operand(kind))
        return NULL;
    const char *probe =
        n == 0 ? probe_execution(a, text, at, line, kind) : probe_use(a, line);
    return arena_printf(a, "%.*s%s%s", (int)(at - text), text, probe, at + len);
}
