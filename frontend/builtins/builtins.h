/*
 * builtins.h - shared by the files with builtin functions
 *
 * A row of builtins.def names a function fe_builtin_<how>(), or
 * fe_method_<name>() for a stage of a dataset, in builtins/, vars/, dist/ or
 * data/.  It is called when the arguments are checked as far as the row says:
 * they have values, each is given once, none that is needed is missing, none
 * has an error, and the context is right.
 */
#ifndef TFD_FRONTEND_BUILTINS_BUILTINS_H
#define TFD_FRONTEND_BUILTINS_BUILTINS_H

#include "frontend/context/messages.h"
#include "frontend/emit/shape_ops.h"
#include "frontend/lower/call.h"

enum { FE_MAX_PARAMS = 7 };

typedef struct FeArgs {
    const FeBuiltin *builtin;   /* NULL for a method */
    const char *name;           /* of the function */
    FeValue *self;              /* the dataset of a method */
    FeArg *args[FE_MAX_PARAMS]; /* by parameter; NULL where left out */
    const FeCall *call;
    Loc loc; /* of the call */
} FeArgs;

typedef FeValue *FeBuiltinFn(Lower *cx, const FeArgs *in);

#define OPERATION(name, params, how, op, doc) FeBuiltinFn fe_builtin_##how;
#define BUILTIN(name, params, where, instead, how, doc)                        \
    FeBuiltinFn fe_builtin_##how;
#define METHOD(name, params, doc) FeBuiltinFn fe_method_##name;
#include "frontend/builtins/builtins.def"

/* Whether the strategy has a coordinator; else an error that "what" needs one.
 */
bool fe_check_coordinator(Lower *cx, const char *what, Loc loc);

/* The error that "what" stands in main, elsewhere; note may be NULL. */
void fe_refuse_outside_main(Lower *cx, const char *what, const char *note,
                            Loc loc);

/* The operation of an OPERATION row. */
IrOpKind fe_builtin_op(const FeBuiltin *b);

/* Assigns call's arguments to the parameters of a row, as described above;
 * false with a message. */
bool fe_bind_args(Lower *cx, const FeCall *call, const char *params,
                  FeArgs *out);

/* ---- arguments; i is the number of the parameter ------------------------ */

/* Its value; NULL when it was left out or is none. */
static inline FeValue *
fe_arg(const FeArgs *in, int i)
{
    FeArg *arg = in->args[i];
    return arg && arg->value->kind != FE_NONE ? arg->value : NULL;
}

static inline Loc
fe_arg_loc(const FeArgs *in, int i)
{
    return in->args[i] ? in->args[i]->loc : in->loc;
}

/* As it was written, for a repair; its name if it was not written. */
const char *fe_arg_text(Lower *cx, const FeArgs *in, int i);
/* What a message about it is about (fe_own). */
FeOwn fe_arg_own(Lower *cx, const FeArgs *in, int i);

/* A bool, an integer, a dtype; *out stays as it is when it was left out. */
bool fe_arg_bool(Lower *cx, const FeArgs *in, int i, const char *what,
                 bool *out);
bool fe_arg_int(Lower *cx, const FeArgs *in, int i, const char *what,
                int64_t *out);
bool fe_arg_dtype(Lower *cx, const FeArgs *in, int i, DType *out);
/* Whether it is a number known when compiling: that. */
bool fe_arg_is_known(const FeArgs *in, int i, double *out);
/* Refuses arguments 1 and 2, low and high, that are known to bound no number;
 * where they are left out they are 0 and 1. */
bool fe_check_bounds(Lower *cx, const FeArgs *in);

/* Axes of a value of that rank, ascending: all when it was left out. */
bool fe_arg_axes(Lower *cx, const FeArgs *in, int i, int rank, FeAxes *out);

/* ---- shapes (builtins_shape.c) ------------------------------------------ */

typedef struct FeShape {
    int rank;
    Dim dims[IR_MAX_RANK];
} FeShape;

/* NULL with a message. */
IrValue *fe_arg_operand(Lower *cx, const FeArgs *in, int i);
bool fe_arg_shape(Lower *cx, const FeArgs *in, int i, FeShape *out);
/* Of a value of that rank; 0 without the argument. */
bool fe_arg_axis(Lower *cx, const FeArgs *in, int i, int rank, int64_t *axis);
FeValue *fe_iota(Lower *cx, DType t, const FeShape *s, int64_t axis, Loc loc);

/* ---- along an axis (builtins_sort.c) ------------------------------------ */

/* The first operand, to go along an axis, which is parameter i; the last when
 * left out.  NULL with a message. */
IrValue *fe_arg_line(Lower *cx, const FeArgs *in, int i, int64_t *axis);

/* ---- strings (format_string.c) ------------------------------------------ */

/* A new operation with n operands, those of the text's holes, and the text as
 * its format; to be emitted. */
IrOp *fe_text_op(Lower *cx, IrOpKind kind, int n, IrValue *const *first,
                 const FeText *text, Loc loc);

/* ---- over axes (builtins_reduce.c) --------------------------------------- */

/* The parameters "axis = none, keepdims = false". */
typedef struct FeOver {
    FeAxes axes;
    bool keepdims;
} FeOver;

/* The first operand and the axes to reduce, of which axis is the parameter's
 * number; NULL with a message. */
IrValue *fe_arg_over(Lower *cx, const FeArgs *in, int axis, FeOver *out);
/* Refuses to reduce over no elements; note is the repair, or NULL. */
bool fe_check_some(Lower *cx, const IrValue *x, const FeAxes *axes,
                   const char *name, const char *note, Loc loc);
/* How many elements axes have; false: the product of two lengths of batches. */
bool fe_count_over(const IrType *t, const FeAxes *axes, Dim *out);
/* Asks for a cast of what is not of floats; what is x as written. */
bool fe_check_floats(Lower *cx, const IrValue *x, const char *name,
                     const char *what, Loc loc);

/* What gives the mean over axes of x, a share of the batch, for n rows in all
 * shares. */
const char *fe_mean_of_rows(Lower *cx, const IrValue *x, const FeAxes *axes,
                            bool keepdims, const char *what);
/* The mean of x over axes; NULL axes: all.  what is x as written. */
FeValue *fe_mean(Lower *cx, IrValue *x, const FeAxes *axes, bool keepdims,
                 const char *what, Loc loc);

#endif
