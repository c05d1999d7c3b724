/*
 * lower_impl.h - the parts of evaluation that eval.c and lower_control.c join
 */
#ifndef TFD_FRONTEND_LOWER_LOWER_IMPL_H
#define TFD_FRONTEND_LOWER_LOWER_IMPL_H

#include "frontend/lower/call.h"
#include "frontend/lower/stmt.h"

/* ---- expressions by kind; n is of the kind in the name ------------------ */

FeValue *fe_eval_tuple(Lower *cx, const AstNode *n); /* lower_nest.c */
FeValue *fe_eval_named_tuple(Lower *cx, const AstNode *n);
FeValue *fe_eval_list(Lower *cx, const AstNode *n);
FeValue *fe_eval_comprehension(Lower *cx, const AstNode *n);
FeValue *fe_eval_field(Lower *cx, const AstNode *n);
FeValue *fe_eval_element(Lower *cx, const AstNode *n);
FeValue *fe_eval_index(Lower *cx, const AstNode *n); /* lower_index.c */
FeValue *fe_eval_call(Lower *cx, const AstNode *n);  /* lower_call.c */
FeValue *fe_eval_if(Lower *cx, const AstNode *n);    /* lower_control.c */

/* The field that a FIELD names, of a value that is known. */
FeValue *fe_field_of(Lower *cx, FeValue *v, const AstNode *field);

/* The element that an INDEX selects of a value that is known. */
FeValue *fe_index_of(Lower *cx, FeValue *v, const AstNode *index);

/* Item number i of a list, of an argument list: an instance in it has a path
 * of its own. */
FeValue *fe_eval_item(Lower *cx, const AstNode *expr, const char *name, int i);

/* ---- ranges and nests that loops iterate over (lower_nest.c) ------------ */

/* from..to of a RANGE: at one dtype, i32 unless they say otherwise.  False with
 * a message when they are no integers. */
bool fe_range(Lower *cx, const AstNode *range, FeValue **from, FeValue **to);
bool fe_range_is_known(const FeValue *from, const FeValue *to);
/* How often a range of constants goes; false if it is none, or with a message
 * if that is more than loops are unrolled. */
bool fe_range_count(Lower *cx, FeValue *from, FeValue *to, Loc loc,
                    int64_t *count);
/* Number i of a range of constants: of the dtype of from. */
FeValue *fe_range_item(Lower *cx, FeValue *from, int64_t i);

/* ---- calls -------------------------------------------------------------- */

FeValue *fe_call_func(Lower *cx, FeValue *f, const FeCall *call,
                      const char *verb); /* lower_func.c */
FeValue *fe_call_module(Lower *cx, FeValue *m,
                        const FeCall *call); /* lower_module.c */
/* value as the type says it is, its constants at that dtype.  A variable stays
 * one.  POISON with a message that names name. */
FeValue *fe_check_type(Lower *cx, const char *name, const AstNode *type,
                       FeValue *value, Loc loc);
/* A member of an instance; NULL when there is none of that name. */
FeBinding *fe_instance_member(const FeInstance *instance, const char *name);
/* Goes one call deeper and back; false at the limit.  verb: "called", "run". */
bool fe_call_push(Lower *cx, const FeCall *call, const char *verb,
                  const AstNode *callee, const FeScope *scope);
void fe_call_pop(Lower *cx);

/* ---- statements --------------------------------------------------------- */

/* A loop that is being lowered: a break clears its flag. */
struct FeLoop {
    FeBinding *running;
};

/* Executes statements in cx->scope to their end, through early exits.  The
 * value of the return that ends them, or NULL when none does. */
FeValue *fe_exec(Lower *cx, const AstList *stmts); /* lower_control.c */
/* Whether n has a break of a loop around n. */
bool fe_has_break(const AstNode *n);
void fe_exec_for(Lower *cx, const AstNode *n); /* lower_for.c */
/* "0..10" of range(10), a dataset, where numbers are meant; or NULL. */
const char *fe_count_of(Lower *cx, const AstNode *iter);
void fe_exec_while(Lower *cx, const AstNode *n);
/* Any other statement. */
void fe_exec_simple(Lower *cx, const AstNode *n); /* lower_stmt.c */

/* value converted to the dtype of `before`, the mut's current value.  POISON
 * with a message. */
FeValue *fe_next_value(Lower *cx, const char *name, FeValue *before,
                       FeValue *value, Loc loc);
/* target op= value; node is the value as written. */
void fe_assign(Lower *cx, const AstNode *target, AstOp op, FeValue *value,
               const AstNode *node);
/* x[i] = e and x[i] += e of a mut or variable, m[v] = e of a slot. */
void fe_assign_index(Lower *cx, const AstNode *target, AstOp op, FeValue *value,
                     const AstNode *node); /* index_assign.c */

/* The muts around that body assigns to, as far as one can see before lowering
 * it. */
typedef VEC(FeBinding *) FeBindings;
void fe_assigned(Lower *cx, const AstNode *body,
                 FeBindings *out); /* assigned.c */

/* ---- conditions --------------------------------------------------------- */

/* A condition: its truth if it is a constant, else a bool operand. */
typedef struct FeCond {
    bool known, truth;
    IrValue *value; /* NULL when known or after an error */
} FeCond;
FeCond fe_cond(Lower *cx, FeValue *v, Loc loc); /* branch.c */

/* One branch; returns its value, or NULL. */
typedef FeValue *FeBranch(Lower *cx, const void *data);
/* if (cond) then() else other(), in the IR: muts that they assign get joint
 * values.  NULL when neither branch has a value. */
FeValue *fe_branch(Lower *cx, IrValue *cond, Loc loc, FeBranch *then,
                   FeBranch *other, const void *data); /* branch.c */

#endif
