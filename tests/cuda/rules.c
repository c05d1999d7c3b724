/*
 * rules.c - what the emulator relies on in every PTX text
 */
#include "tests/cuda/rules.h"

#include <string.h>
#include "backend/kernel/kernel_impl.h"
#include "ir/ops/op.h"

/* ---- instructions of a text --------------------------------------------- */

/* One instruction: its opcode with modifiers, and all of it. */
typedef struct Line {
    const char *name, *end;
    size_t len;
} Line;

/* The instruction of a line, after its guard; its length is 0 for directives,
 * labels and comments. */
static Line
read_line(const char *line)
{
    Line l = {.end = line + strcspn(line, "\n")};
    l.name = line + strspn(line, " \t");
    if (*l.name == '@')
        l.name += strcspn(l.name, " \t\n");
    l.name += strspn(l.name, " \t");
    l.len = strcspn(l.name, " \t;\n");
    if (strchr("./$}{)(", *l.name))
        l.len = 0;
    return l;
}

/* Whether a modifier stands in the opcode, between dots. */
static bool
has(const Line *l, const char *modifier)
{
    size_t len = strlen(modifier);
    const char *end = l->name + l->len;
    for (const char *at = l->name;
         (at = memmem(at, (size_t)(end - at), modifier, len)); at++)
        if (at + len == end || at[len] == '.' || at[len] == ':')
            return true;
    return false;
}

static bool
is_one_of(const Line *l, const char *const *opcodes)
{
    for (; *opcodes; opcodes++) {
        size_t len = strlen(*opcodes);
        if (l->len >= len && !memcmp(l->name, *opcodes, len) &&
            (l->len == len || l->name[len] == '.'))
            return true;
    }
    return false;
}

/* ---- rules -------------------------------------------------------------- */

static bool
is_approximate(const Line *l)
{
    static const char *const modifiers[] = {".ftz",   ".approx",    ".full",
                                            ".sat",   ".satfinite", ".relu",
                                            ".noftz", ".oob"};
    for (size_t i = 0; i < sizeof modifiers / sizeof *modifiers; i++)
        if (has(l, modifiers[i]))
            return true;
    return false;
}

/* Of these the assembler may fuse or approximate those that do not say .rn. */
static bool
is_unrounded(const Line *l)
{
    static const char *const opcodes[] = {"add", "sub", "mul",  "fma", "mad",
                                          "div", "rcp", "sqrt", NULL};
    bool is_float = has(l, ".f16") || has(l, ".bf16") || has(l, ".f16x2") ||
                    has(l, ".bf16x2") || has(l, ".f32") || has(l, ".f64");
    return is_float && is_one_of(l, opcodes) && !has(l, ".rn");
}

/* The order in which a tensor core adds is NVIDIA's; what asks for it (D36)
 * gets numbers that are alike. */
static bool
has_an_order_of_its_own(const Line *l)
{
    static const char *const opcodes[] = {"mma", "wmma", "wgmma", "tcgen05",
                                          NULL};
    return is_one_of(l, opcodes);
}

/* What could carry a message from one block of a launch to another, or wait
 * for one: atomics, fences, orders other than weak, clusters. */
static bool
communicates(const Line *l)
{
    static const char *const opcodes[] = {
        "atom",      "red",      "membar",
        "fence",     "mbarrier", "griddepcontrol",
        "multimem",  "mapa",     "getctarank",
        "nanosleep", NULL};
    static const char *const modifiers[] = {
        ".volatile", ".acquire", ".release", ".acq_rel", ".relaxed",
        ".mmio",     ".sys",     ".gpu",     ".cluster", ".multicast"};
    for (size_t i = 0; i < sizeof modifiers / sizeof *modifiers; i++)
        if (has(l, modifiers[i]))
            return true;
    return is_one_of(l, opcodes);
}

/* What is not the same in each run, or on each GPU. */
static bool
reads_the_machine(const Line *l)
{
    static const char *const words[] = {"%clock",  "%globaltimer", "%smid",
                                        "%nsmid",  "%warpid",      "%nwarpid",
                                        "%gridid", "%envreg",      "%pm"};
    size_t len = (size_t)(l->end - l->name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(l->name, len, words[i], strlen(words[i])))
            return true;
    return false;
}

static bool
calls(const Line *l)
{
    static const char *const opcodes[] = {"call", "brx", "trap", "brkpt", NULL};
    return is_one_of(l, opcodes);
}

/* ---- what the kernel's own text allows ----------------------------------- */

typedef struct Allowed {
    bool fused; /* multiply-adds */
    bool tf32;  /* products on tensor cores */
} Allowed;

static void
note_allowed(KNode *n, void *data)
{
    Allowed *a = data;
    if (n->kind == K_CONTRACT) {
        a->fused = true;
        a->tf32 |= n->contract.tf32;
    }
    if (n->kind != K_MAP)
        return;
    static const char *const made_of_them[] = {"fma",      "maths", "pow",
                                               "floordiv", "mod",   "random"};
    const char *code = ir_op_code(n->map.op)->name;
    for (size_t i = 0; i < sizeof made_of_them / sizeof *made_of_them; i++)
        a->fused = a->fused || !strcmp(code, made_of_them[i]);
}

/* Fused multiply-adds are those of contractions (D2), the operation itself
 * (D3), and the polynomials of functions (D24). */
static Allowed
allowed_by(const BeKernel *k)
{
    Allowed a = {0};
    KBlock body = k->body;
    be_kernel_walk(&body, note_allowed, &a);
    return a;
}

static bool
is_fused(const Line *l)
{
    static const char *const opcodes[] = {"fma", "mad", NULL};
    return is_one_of(l, opcodes) && (has(l, ".f16") || has(l, ".bf16") ||
                                     has(l, ".f32") || has(l, ".f64"));
}

/* ---- all ---------------------------------------------------------------- */

static const char *
broken_by(const Line *l, const Allowed *a)
{
    if (is_approximate(l))
        return "approximates, flushes or saturates";
    if (is_unrounded(l))
        return "does not say how it rounds";
    if (!a->tf32 && has_an_order_of_its_own(l))
        return "adds in an order that is not D2's";
    if (communicates(l))
        return "may carry a message from block to block";
    if (reads_the_machine(l))
        return "reads what differs from run to run";
    if (calls(l))
        return "leaves the kernel";
    if (!a->fused && is_fused(l))
        return "is a fused multiply-add that the kernel does not have";
    return NULL;
}

const char *
ptx_broken_rule(Arena *a, const char *ptx, const BeKernel *k)
{
    Allowed allowed = k ? allowed_by(k) : (Allowed){.fused = true};
    for (const char *line = ptx; *line;) {
        Line l = read_line(line);
        const char *rule = l.len ? broken_by(&l, &allowed) : NULL;
        if (rule)
            return arena_printf(a, "%s%s%.*s: it %s", k ? k->name : "",
                                k ? ": " : "", (int)(l.end - l.name), l.name,
                                rule);
        line = l.end + (*l.end == '\n');
    }
    return NULL;
}
