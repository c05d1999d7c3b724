/*
 * op.c - the op table as data
 */
#include "ir/ops/op.h"

#include <assert.h>
#include <string.h>

/* ONE_OF(LIST, a, b): the list, and a bit for each of up to 7 of its words. */
/* clang-format off */
#define BIT(L, w) 1u << L##_##w
#define BITS_1(L, w) BIT(L, w)
#define BITS_2(L, w, ...) BIT(L, w) | BITS_1(L, __VA_ARGS__)
#define BITS_3(L, w, ...) BIT(L, w) | BITS_2(L, __VA_ARGS__)
#define BITS_4(L, w, ...) BIT(L, w) | BITS_3(L, __VA_ARGS__)
#define BITS_5(L, w, ...) BIT(L, w) | BITS_4(L, __VA_ARGS__)
#define BITS_6(L, w, ...) BIT(L, w) | BITS_5(L, __VA_ARGS__)
#define BITS_7(L, w, ...) BIT(L, w) | BITS_6(L, __VA_ARGS__)
#define BITS_OF(a, b, c, d, e, f, g, BITS, ...) BITS
#define ONE_OF(LIST, ...) \
    ENUM, .list = WORDS_##LIST, .allowed = \
    BITS_OF(__VA_ARGS__, BITS_7, BITS_6, BITS_5, BITS_4, BITS_3, BITS_2, BITS_1, 0) \
    (LIST, __VA_ARGS__)

/* The ATTR rows that follow an OP row become an array of their own: each OP
 * row closes the array before it.  Element 0 is a filler, so that an op
 * without attributes has an array too. */
static const IrAttrInfo attrs_before_the_first[] __attribute__((unused)) = {{0}
#define OP(name, in, out, regions, shape, dtype, locality, effect, traits, index, grad, code, doc) \
    }; static const IrAttrInfo attrs_of_##name[] = { {0}
#define ATTR(op, a, type, need, meaning) , \
    {.name = A_##a, .text = #a, .kind = type, .required = need, .doc = meaning}
#include "ir/ops/ops.def"
#undef OP
#undef ATTR
};

const IrOpInfo ir_op_info[NUM_OPS] = {
#define OP(name, in, out, regions, shape, dtype, locality, effect, traits, index, grad, code, doc) \
    {#name, in, out, regions, effect, traits, INDEXES_##index, #shape, #dtype, #locality, #grad, CODE_##code, doc, \
     attrs_of_##name + 1, sizeof attrs_of_##name / sizeof *attrs_of_##name - 1},
#define ATTR(op, attr, kind, need, doc)
#include "ir/ops/ops.def"
#undef OP
#undef ATTR
};

const IrCodeInfo ir_code_info[NUM_CODES] = {
#define ELEMENT_CODE(word, exact, cost) [CODE_##word] = {#word, true, exact, cost},
#define OTHER_CODE(word, in_kernels) [CODE_##word] = {#word, in_kernels, false, 1},
#include "ir/ops/codes.def"
};

static const IrSplit splits[] = {
#define OP(name, in, out, regions, shape, dtype, locality, ...)
#define ATTR(op, attr, kind, need, doc)
#define SPLIT(op, start, done) {OP_##op, OP_##start, OP_##done},
#include "ir/ops/ops.def"
#undef OP
#undef ATTR
};

const char *const ir_attr_text[NUM_ATTR_NAMES] = {
#define ATTR_NAME(name) #name,
#include "ir/ops/attrs.def"
};

/* As with attributes, each list closes the one before it. */
static const char *const words_before_the_first[] __attribute__((unused)) = {
#define WORD_LIST(LIST, doc) NULL}; static const char *const words_of_##LIST[] = {
#define AGG(word, doc) #word,
#define UPDATE(word, floats, ints, doc) #word,
#define ALGORITHM(word, has_packs, doc) #word,
#include "ir/ops/attrs.def"
NULL};

const char *const *const ir_words[NUM_WORD_LISTS] = {
#define WORD_LIST(LIST, doc) words_of_##LIST,
#include "ir/ops/attrs.def"
};

static const struct {
    IrOpKind floats, ints;
} update_ops[NUM_UPDATES] = {
#define UPDATE(word, floats, ints, doc) {OP_##floats, OP_##ints},
#include "ir/ops/attrs.def"
};

static const bool has_packs[NUM_ALGORITHMS] = {
#define ALGORITHM(word, has_packs, doc) has_packs,
#include "ir/ops/attrs.def"
};
/* clang-format on */

const IrCodeInfo *
ir_op_code(IrOpKind kind)
{
    assert(kind < NUM_OPS);
    return &ir_code_info[ir_op_info[kind].code];
}

bool
ir_op_by_name(const char *name, IrOpKind *out)
{
    for (int k = 0; k < NUM_OPS; k++) {
        if (strcmp(ir_op_info[k].name, name) == 0) {
            *out = (IrOpKind)k;
            return true;
        }
    }
    return false;
}

const IrSplit *
ir_op_split(IrOpKind kind)
{
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        if (splits[i].op == kind || splits[i].start == kind ||
            splits[i].done == kind)
            return &splits[i];
    return NULL;
}

bool
ir_op_is_start(IrOpKind kind)
{
    const IrSplit *split = ir_op_split(kind);
    return split && split->start == kind;
}

bool
ir_op_is_done(IrOpKind kind)
{
    const IrSplit *split = ir_op_split(kind);
    return split && split->done == kind;
}

int
ir_attr_index(IrOpKind kind, IrAttrName a)
{
    const IrOpInfo *info = &ir_op_info[kind];
    for (int i = 0; i < info->num_attrs; i++) {
        if (info->attrs[i].name == a)
            return i;
    }
    return -1;
}

const IrAttrInfo *
ir_attr_info(IrOpKind kind, IrAttrName a)
{
    int i = ir_attr_index(kind, a);
    assert(i >= 0);
    return &ir_op_info[kind].attrs[i];
}

bool
ir_attr_allows(const IrAttrInfo *attr, int64_t x)
{
    assert(attr->kind == ENUM);
    return x >= 0 && x < 32 && (attr->allowed >> x & 1);
}

IrOpKind
ir_update_op(IrUpdate update, bool floats)
{
    assert(update < NUM_UPDATES);
    return floats ? update_ops[update].floats : update_ops[update].ints;
}

bool
ir_algorithm_has_packs(IrAlgorithm algorithm)
{
    assert(algorithm < NUM_ALGORITHMS);
    return has_packs[algorithm];
}
