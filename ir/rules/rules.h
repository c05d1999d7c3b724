/*
 * rules.h - inside ir/: the functions that the cells of ops.def name
 *
 * A rule looks at an operation and gives one property of its result number i.
 * A cell without its function does not link.
 */
#ifndef TFD_IR_RULES_RULES_H
#define TFD_IR_RULES_RULES_H

#include "ir/base/message.h"
#include "ir/ir.h"

typedef struct Infer {
    const IrOp *op;
    const IrBlock *at; /* its block */
    IrModule *module;
} Infer;

/* Sets its part of *out; returns NULL, or a message for a user.  Rules run in
 * the order shape, dtype, locality; for an operation without results they run
 * once, with i = 0, for their checks. */
typedef const char *IrRule(const Infer *in, int i, IrType *out);

#define OP(name, in, out, regions, shape, dtype, locality, ...)                \
    IrRule ir_shape_##shape, ir_dtype_##dtype, ir_locality_##locality;
#define ATTR(op, attr, kind, need, doc)
#include "ir/ops/ops.def"
#undef OP
#undef ATTR

/* A formatted message in the module's arena. */
#define WRONG(in, ...) message_printf((in)->module->arena, __VA_ARGS__)

/* The variable that the operation names; NULL, and a message, if there is none.
 */
const IrVar *ir_rule_var(const Infer *in, const char **wrong);

/* An error in the number of operands and the attributes of op. */
const char *ir_check_form(const IrOp *op);
/* Whether the table infers results of this kind. */
bool ir_is_inferred(IrOpKind kind);
/* How many results an inferred operation has. */
int ir_infer_count(const IrOp *op);
/* The type of result i.  The form of op must be valid. */
const char *ir_infer_result(const IrOp *op, const IrBlock *at, int i,
                            IrType *out);

/* Whether a value may be declared with this type when the table gives
 * `inferred`: the same type but for a greater locality, which promises less. (A
 * pass need not repeat all inference after it found a better operand.) Host
 * values are not declared as device values, nor the reverse. */
bool ir_locality_allows(const IrType *declared, const IrType *least);
bool ir_type_allows(const IrType *declared, const IrType *inferred);

/* The least locality that a value defined by control flow can have: result i
 * of run, merge, if, for, while and kernel, and argument i of their region r.
 * False for other operations and while a region has no yield. */
bool ir_locality_of_result(const IrOp *op, int i, IrType *out);
bool ir_locality_of_arg(const IrOp *op, int r, int i, IrType *out);

#endif
