/*
 * dispatch.h - functions that evaluation calls in the folders above lower/
 *
 * Declared here and implemented in the folder that the line above each group
 * names, so that folders include each other in one direction only.
 */
#ifndef TFD_FRONTEND_CONTEXT_DISPATCH_H
#define TFD_FRONTEND_CONTEXT_DISPATCH_H

#include "frontend/context/lower.h"

typedef struct FeCall FeCall; /* lower/call.h */

/* ---- builtins/ ---------------------------------------------------------- */

/* The builtin function of that name, or NULL; scope.c falls back to it. */
const FeBuiltin *fe_builtin_find(const char *name);
const char *fe_builtin_name(const FeBuiltin *b);
/* "x, axis = none"; "..." of any arguments. */
const char *fe_builtin_params(const FeBuiltin *b);
/* The arguments without a default after the first, as ", shape". */
const char *fe_builtin_needs(Arena *a, const FeBuiltin *b);
/* All names, for suggestions. */
const char *const *fe_builtin_names(int *n);
/* Whether the argument of that name, or at that index where it is NULL, is a
 * word: an operation (sum, mean, ...), a way to divide; see fe_call_args. */
bool fe_builtin_takes_enum_name(const FeBuiltin *b, const char *name,
                                int index);
/* Whether b makes a value of a shape and dtype: zeros, ones.  Such a name
 * alone may stand as an initial value. */
bool fe_builtin_fills(const FeBuiltin *b);
FeValue *fe_builtin_call(Lower *cx, const FeBuiltin *b, const FeCall *call);
/* The argument that is v of the builtin which is called at loc, as written;
 * NULL if none is. */
const AstNode *fe_written_argument(const Lower *cx, const FeValue *v, Loc loc);
/* The first argument of the builtin which is called at loc that differs among
 * the replicas; NULL if none does. */
const AstNode *fe_differing_argument(Lower *cx, Loc loc);
/* num_replicas, replica_id: builtin names that are values, not functions, in
 * this place; NULL if name is none. */
FeValue *fe_builtin_value(Lower *cx, const char *name, Loc loc);
/* x @ y. */
FeValue *fe_matmul(Lower *cx, FeValue *x, FeValue *y, Loc loc);

/* A STRING with its holes evaluated: FE_STRING. */
FeValue *fe_eval_string(Lower *cx, const AstNode *string);

/* ---- grad/ -------------------------------------------------------------- */

/* grad(loss, wrt), both as they are written at their places. */
FeValue *fe_grad(Lower *cx, FeValue *loss, FeValue *wrt, Loc loc, Loc written,
                 Loc wrt_written);
/* Warns of gradients in main, which is lowered, that count parts of a loss more
 * than once. */
void fe_grad_warn_of_sums(Lower *cx, IrBlock *main);
/* The result of body for fn, called with the parameters in scope, with the
 * gradient that fn states. */
FeValue *fe_custom_gradient(Lower *cx, const AstNode *fn, FeScope *scope,
                            FeValue *(*body)(Lower *cx, FeScope *scope,
                                             const AstNode *fn));
/* f(), a function without parameters; what it makes on its way is computed
 * again for a gradient. */
FeValue *fe_recompute(Lower *cx, FeValue *f, Loc loc);

/* ---- vars/ -------------------------------------------------------------- */

/* m[v] of a slot. */
FeValue *fe_slot_index(Lower *cx, FeSlot *slot, FeValue *v, Loc loc);
/* Where its type is written; NO_LOC where that is not in the program. */
Loc fe_var_type_loc(Lower *cx, const char *var);
/* Where the program's author wrote the length of an axis of a variable: the 10
 * of f32[10, 2], or of Embedding(10, 8), which made it; around is that type or
 * call.  False: the library chose it. */
bool fe_var_length(Lower *cx, const char *var, int axis, Loc *length,
                   Loc *around);
/* The value now; NULL with a message where it cannot be read. */
IrValue *fe_var_read(Lower *cx, IrVar *v, Loc loc);
/* The type and locality such a read has here. */
IrType fe_var_type(const Lower *cx, const IrVar *v);
/* v op= value; op NONE sets.  node is the value as written, for the repair. */
void fe_var_write(Lower *cx, IrVar *v, AstOp op, FeValue *value,
                  const AstNode *node, Loc loc);
/* The hidden variable of that name, an i64 that counts from 0; made when it is
 * not there.  Its sync and aggregation are the caller's to set. */
IrVar *fe_var_counter(Lower *cx, const char *name, Loc loc);

/* ---- dist/ and data/ ---------------------------------------------------- */

FeValue *fe_run(Lower *cx, const AstNode *run);           /* RUN */
FeValue *fe_schedule(Lower *cx, const AstNode *schedule); /* SCHEDULE */
FeValue *fe_merge(Lower *cx, const AstNode *merge);       /* MERGE */
FeValue *fe_update(Lower *cx, const AstNode *update);     /* UPDATE */
/* for x in distribute(d): the iterator, opened here; then, wherever the loop
 * wants them, has_next (a bool tensor) and the next element. */
FeValue *fe_iter_open(Lower *cx, FeValue *dist, Loc loc);
FeValue *fe_iter_has_next(Lower *cx, FeValue *iter, Loc loc);
FeValue *fe_iter_next(Lower *cx, FeValue *iter, Loc loc);
/* ds.name(args) */
FeValue *fe_dataset_method(Lower *cx, FeValue *ds, const char *name,
                           const FeCall *call);
/* Whether that is a method of datasets. */
bool fe_dataset_has_method(const char *name);

/* ---- toplevel/ ---------------------------------------------------------- */

/* Binds the declarations of a file or module; evaluates them in their order. */
void fe_declare(Lower *cx, FeScope *scope, const AstList *decls);
void fe_evaluate(Lower *cx, FeScope *scope);
/* The value of a binding, its declaration evaluated if need be. */
FeValue *fe_binding_value(Lower *cx, FeBinding *b);
/* loc, or the place in the user's own files from which the library code at loc
 * is called. */
Loc fe_user_loc(const Lower *cx, Loc loc);

#endif
