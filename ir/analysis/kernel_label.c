/*
 * kernel_label.c - what a kernel does, in a few words
 *
 * The words are those of its operations in their order, each once: contractions
 * first of all, functions and modules of the library, else names of operations.
 * What only moves or rounds values is left out where anything else is there.
 */
#include "ir/analysis/kernel_label.h"

#include <string.h>

enum { MOST_WORDS = 4 };

typedef struct Label {
    Arena *arena;
    const char *words[MOST_WORDS];
    int num_words;
} Label;

bool
ir_op_is_gradient(const IrOp *op)
{
    return op->reason && strncmp(op->reason->rule, "differentiate.", 14) == 0;
}

static void
add_word(Label *l, const char *word)
{
    for (int i = 0; i < l->num_words; i++)
        if (strcmp(l->words[i], word) == 0)
            return;
    if (l->num_words < MOST_WORDS)
        l->words[l->num_words++] = word;
}

static bool
is_contraction(const IrOp *op)
{
    return op->kind == OP_dot || op->kind == OP_conv ||
           op->kind == OP_conv_weights;
}

static bool
is_plain(const IrOp *op)
{
    return op->kind == OP_constant || op->kind == OP_yield ||
           op->kind == OP_iota || op->kind == OP_cast || op->kind == OP_copy ||
           op->kind == OP_read || ir_op_info[op->kind].code == CODE_reshape ||
           op->kind == OP_transpose || op->kind == OP_broadcast;
}

/* A row that is added to all rows of the result of a contraction. */
static bool
is_bias(const Label *l, const IrOp *op)
{
    return op->kind == OP_add && l->num_words == 1 &&
           (op->operands[0]->type.rank == 1 || op->operands[1]->type.rank == 1);
}

/* The innermost function or module of the library that op is of, or NULL. */
static const char *
library_name(Arena *a, const IrOp *op)
{
    const Diag *d = op->module->diag;
    if (!op->calls || !diag_is_library(d, op->loc.file))
        return NULL;
    const char *name = op->calls->function;
    const char *dot = strchr(name, '.');
    return dot ? arena_strndup(a, name, (size_t)(dot - name)) : name;
}

/* A layer that multiplies and adds is named by what it adds. */
static const char *
word_of(const Label *l, const IrOp *op)
{
    if (op->kind == OP_dot)
        return "matmul";
    if (is_contraction(op))
        return ir_op_info[op->kind].name;
    bool follows = l->num_words && strcmp(l->words[0], "matmul") == 0;
    if (follows && is_bias(l, op))
        return "bias";
    const char *name = library_name(l->arena, op);
    return name ? name : ir_op_info[op->kind].name;
}

static void
add_words(Label *l, const IrOp *kernel, bool plain)
{
    const IrBlock *b = kernel->regions[0];
    for (const IrOp *op = b->first; op; op = op->next)
        if (is_contraction(op))
            add_word(l, word_of(l, op));
    for (const IrOp *op = b->first; op; op = op->next)
        if (op->kind != OP_yield && is_plain(op) == plain)
            add_word(l, word_of(l, op));
}

const char *
ir_kernel_label(Arena *a, const IrOp *kernel)
{
    Label l = {.arena = a};
    bool is_gradient = false;
    for (const IrOp *op = kernel->regions[0]->first; op; op = op->next)
        is_gradient = is_gradient || (!is_plain(op) && ir_op_is_gradient(op));
    add_words(&l, kernel, false);
    if (!l.num_words)
        add_words(&l, kernel, true);
    Str s = str_new(a);
    for (int i = 0; i < l.num_words; i++)
        str_addf(&s, "%s%s", i ? "_" : "", l.words[i]);
    str_add(&s, is_gradient ? "_grad" : "");
    return str_text(&s);
}
