/*
 * op.c - the op table as data
 */
#include "ir/ops/op.h"

#include <string.h>

/* The ATTR rows that follow an OP row become an array of their own: each OP
 * row closes the array before it.  Element 0 is a filler, so that an op
 * without attributes has an array too. */
static const IrAttrInfo attrs_before_the_first[] __attribute__((unused)) = {{0}
/* clang-format off */
#define OP(name, in, out, regions, shape, dtype, locality, effect, traits, index, grad, code, doc) \
    }; static const IrAttrInfo attrs_of_##name[] = { {0}
#define ATTR(op, attr, kind, need, doc) , {A_##attr, #attr, kind, need, doc}
#include "ir/ops/ops.def"
#undef OP
#undef ATTR
};

const IrOpInfo ir_op_info[NUM_OPS] = {
#define OP(name, in, out, regions, shape, dtype, locality, effect, traits, index, grad, code, doc) \
    {#name, in, out, regions, effect, traits, INDEXES_##index, #shape, #dtype, #locality, #grad, #code, doc, \
     attrs_of_##name + 1, sizeof attrs_of_##name / sizeof *attrs_of_##name - 1},
#define ATTR(op, attr, kind, need, doc)
#include "ir/ops/ops.def"
#undef OP
#undef ATTR
};

const char *const ir_attr_text[NUM_ATTR_NAMES] = {
#define ATTR_NAME(name) #name,
#include "ir/ops/attrs.def"
#undef ATTR_NAME
};
/* clang-format on */

/* Words of the `code` column that are more than an instruction or two. */
static const struct {
    const char *code;
    double cost;
} costs[] = {
    {"maths", 20},  {"pow", 40},      {"div", 4},  {"random", 80},
    {"sqrt", 4},    {"mod", 12},      {"cast", 2}, {"maximum", 3},
    {"minimum", 3}, {"floordiv", 10},
};

double
ir_op_cost(IrOpKind kind)
{
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        if (strcmp(costs[i].code, ir_op_info[kind].code) == 0)
            return costs[i].cost;
    }
    return 1;
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
