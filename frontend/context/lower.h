/*
 * lower.h - from the tree to the IR: what the files of this layer share
 *
 * Lowering is one walk over the tree as a partial evaluator.  An expression is
 * worth an FeValue (value.h); what is not known when compiling is emitted as
 * operations at the end of cx->block.  Functions are inlined where they are
 * called.  Where an operation stands is always known: cx->context.
 *
 * Errors go through fe_error, which adds the chain of calls, and are worth
 * POISON (an IrValue: NULL).  Every function here takes poisoned values and
 * NULLs and then gives POISON, NULL or false without another message.
 *
 * What is done may be undone: a loop is first tried as a loop of the IR, and
 * unrolled when its index turns out to be needed as a constant.  Whatever
 * lowering adds to the module is therefore either emitted to a block, or
 * appended to iters, symbols, datasets or the functions (all cut back), or made
 * once for a key and found again (slots, counters of random numbers).
 *
 * Files: lower.c (driver, messages), scope.c (names), eval.c (dispatch),
 * lower_expr.c lower_index.c lower_nest.c (expressions), operand.c (values as
 * operands of the IR), known.c fold.c (constants), lower_call.c lower_func.c
 * lower_module.c (calls), lower_stmt.c lower_control.c branch.c lower_for.c
 * lower_loop.c (statements), region.c, grad.c own_grad.c, declare.c define.c
 * use.c strategy.c (the top level);
 * and by name builtins_*.c, vars.c, dist.c, data.c, text.c.
 */
#ifndef TFD_FRONTEND_CONTEXT_LOWER_H
#define TFD_FRONTEND_CONTEXT_LOWER_H

#include "frontend/frontend.h"
#include "frontend/value/value.h"
#include "ir/base/limit.h"
#include "ir/ir.h"

typedef struct Lower Lower;

/* Where the code being lowered is executed. */
typedef enum FeContext {
    FE_TOP,     /* nowhere: declarations; only constants are possible */
    FE_CROSS,   /* main */
    FE_REPLICA, /* run */
    FE_MERGE,   /* merge: cross-replica for a moment */
    FE_UPDATE,  /* update v { } */
    FE_DATA,    /* a function of a dataset, on the host */
    FE_INIT     /* the initial value of a variable */
} FeContext;

/* Control flow whose condition may differ among the replicas, around the code
 * being lowered in this replica context. */
typedef struct FeDivergence FeDivergence;
struct FeDivergence {
    FeDivergence *outer;
    const char *what; /* "if", "while", "for" */
    Loc loc;          /* the condition */
};

/* ---- names (scope.c) ---------------------------------------------------- */

typedef enum FeScopeKind {
    SCOPE_BUILTINS,
    SCOPE_FILE,
    SCOPE_INSTANCE, /* members of an instance of a module */
    SCOPE_FUNC,     /* parameters of a function, the block of an update: muts
                       around are not assigned */
    SCOPE_MERGE,    /* as that; per-replica values around are not seen */
    SCOPE_BLOCK,
    SCOPE_SPACE /* fields of a namespace; has no parent */
} FeScopeKind;

typedef struct FeBinding {
    const char *name;
    FeValue *value;          /* NULL: a declaration not looked at yet */
    const AstNode *decl;     /* then: CONST, LET, VAR, ... */
    const AstNode *colocate; /* target of the block around decl, or NULL */
    FeScope *scope;
    int64_t serial; /* bindings made before have lower ones */
    bool is_mut;
    bool being_made; /* decl is being evaluated */
    Loc loc;
} FeBinding;

struct FeScope {
    FeScope *parent;
    FeScopeKind kind;
    VEC(FeBinding *) names;
    Map *index; /* of names, the last of each; NULL while they are few */
    VEC(FeScope *) used;  /* SCOPE_FILE: what it uses */
    const char *prefix;   /* of variables declared here: "", "fc." */
    FeInstance *instance; /* SCOPE_INSTANCE */
};

struct FeInstance {
    const AstNode *module;
    const char *path; /* "blocks.0.fc" */
    FeScope *scope;   /* its members; the parent holds its parameters */
    Loc loc;
};

FeScope *fe_scope_new(Lower *cx, FeScope *parent, FeScopeKind kind);
/* Adds a name, hiding that of outer scopes ("_" is no name).  A second one in
 * the same scope is an error in SCOPE_FILE and SCOPE_INSTANCE and hides the
 * first elsewhere.  A nest beyond the limits becomes POISON with a message. */
FeBinding *fe_bind(Lower *cx, FeScope *scope, const char *name, FeValue *value,
                   Loc loc);
/* The last binding of a name in this scope alone, or NULL. */
FeBinding *fe_scope_find(const FeScope *scope, const char *name);
/* A mut that the program cannot name. */
FeBinding *fe_hidden_mut(Lower *cx, const char *name, FeValue *value, Loc loc);
/* What a name means in cx->scope, builtins aside. */
typedef struct FeFound {
    FeBinding *binding; /* or NULL */
    FeBinding *other;   /* the same name in another used module, or NULL */
    bool leaves_func;   /* it is outside the function, */
    bool leaves_merge;  /* or the merge, that it is used in */
} FeFound;
FeFound fe_find(Lower *cx, const char *name);
/* The value of a name, also of a builtin; a name that is not there is an error
 * with the nearest one. */
FeValue *fe_lookup(Lower *cx, const char *name, Loc loc);
/* The same of what is assigned to. */
FeValue *fe_lookup_target(Lower *cx, const char *name, Loc loc);
/* The name in scope that name may be a slip of, or NULL. */
const char *fe_nearest_member(Lower *cx, const FeScope *scope,
                              const char *name);
/* The value of a binding, its declaration evaluated if need be. */
FeValue *fe_binding_value(Lower *cx, FeBinding *b);
/* v, or POISON with a message when it is a nest or a string that is too large.
 * A nest doubles with every `t = (t, t)`, which is one value in memory and is
 * walked as many.  What any expression is worth, and what is bound to a name,
 * goes through here; therefore all that walks nests may recurse. */
FeValue *fe_limit_size(Lower *cx, FeValue *v, Loc loc);
/* Changes the value of a mut so that it can be undone: back to where
 * cx->writes.len was mark. */
void fe_write(Lower *cx, FeBinding *b, FeValue *value);
void fe_undo_writes(Lower *cx, int mark);
/* That of a field of a namespace; what says of what ("strategy"). */
FeValue *fe_space_field(Lower *cx, const FeScope *space, const char *what,
                        const char *name, Loc loc);

/* Hints the name of a binding to the IR values it is bound to. */
void fe_name_value(FeValue *v, const char *name);

/* ---- state -------------------------------------------------------------- */

/* An assignment that may have to be undone. */
typedef struct FeWrite {
    FeBinding *binding;
    FeValue *before;
} FeWrite;

/* A source file that is used. */
typedef struct FeFile {
    const char *path;
    FeScope *scope;
} FeFile;

/* An index that names something of an axis, from its block on. */
typedef struct FeChecked {
    const IrValue *index;
    Dim size;
    const IrBlock *block;
} FeChecked;

struct Lower {
    Arena *arena; /* of the module: everything lives there */
    IrModule *module;
    Intern *names;
    Diag *diag;
    const FeOptions *options;

    IrBlock *block;  /* where operations are appended; NULL in FE_TOP */
    IrFunc *nowhere; /* of no module: has the operations of FE_TOP */
    FeContext context;
    FeScope *scope;
    struct FeLoop *loop;      /* innermost of this function, or NULL */
    struct FeExits *exits;    /* that ways out are noted in, or NULL */
    FeDivergence *divergence; /* innermost, or NULL; use fe_divergence */
    IrVar *updated;           /* FE_UPDATE: its variable, NULL for non_slot */
    const IrType *init_type;  /* FE_INIT: of the variable */

    bool strategy_is_implied; /* the number of devices chose it */
    FeScope *builtins, *file; /* outermost names; those of the main file */
    VEC(FeWrite) writes;      /* assignments to muts, oldest first */
    VEC(FeChecked) checked;   /* oldest first */
    Map *instances;           /* their paths: see fe_number_name */
    VEC(FeFile) files;        /* that are used */

    /* What an instance made by the expression being evaluated is called; NULL
     * where none can be made. */
    const char *path;

    int64_t num_values, num_steps, num_errors, num_bindings;
    int num_calls, depth;
    int64_t num_sites;   /* calls that make random numbers */
    bool needs_constant; /* an error was that a value is no constant */
    int num_unrollable;  /* loops around that are unrolled if need be */
    bool stopped;        /* a limit is exceeded: evaluate nothing more */
    size_t first_bytes;  /* of the arena, when lowering began */
    size_t source_bytes; /* of all files */

    void *vars, *data, *dist, *text; /* state of vars.c, data.c, ... */
};

/* ---- messages (lower.c) ------------------------------------------------- */

/* An error at loc with the chain of calls as notes; gives POISON. */
FeValue *fe_error(Lower *cx, Loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An error whose note (the repair) comes before the chain of calls. */
FeValue *fe_error_note(Lower *cx, Loc loc, const char *note, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));
/* A limit is exceeded: says so, with the option that raises it. */
FeValue *fe_limit(Lower *cx, Loc loc, LimitId id);
/* The same, and nothing more is evaluated. */
FeValue *fe_stop(Lower *cx, Loc loc, LimitId id);
/* Whether more suggestions would be shown; making one costs a walk over all
 * names. */
bool fe_may_suggest(const Lower *cx);
/* Whether a value may have that rank; an error if not. */
bool fe_is_rank(Lower *cx, int rank, Loc loc);
void fe_warning(Lower *cx, Loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A formatted string in cx->arena, for notes. */
const char *fe_format(Lower *cx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* base, or base.2, base.3, ...: the first name that is not in taken, where it
 * is from now on. */
const char *fe_number_name(Lower *cx, Map *taken, const char *base);
/* fe_value_what, and a type as in the source: "f32[n, 3]". */
const char *fe_what(Lower *cx, const FeValue *v);
const char *fe_type_text(Lower *cx, const IrType *t);

/* "main", "replica context", ... */
const char *fe_context_name(FeContext c);
static inline bool
fe_is_cross(const Lower *cx)
{
    return cx->context == FE_CROSS || cx->context == FE_MERGE;
}
/* The per-replica control flow around this place, or NULL.  What replicas do
 * together asks and refuses, naming it. */
const FeDivergence *fe_divergence(const Lower *cx);
/* Asks that all replicas come here: that no condition around differs among
 * them.  what is what they do ("all_reduce"). */
bool fe_check_together(Lower *cx, const char *what, Loc loc);

/* ---- evaluation (eval.c) ------------------------------------------------ */

FeValue *fe_eval(Lower *cx, const AstNode *expr);
/* In another scope. */
FeValue *fe_eval_in(Lower *cx, FeScope *scope, const AstNode *expr);
/* What a TYPE says; dimensions that are names not yet bound are bound in
 * cx->scope when actual (or NULL) has them. */
bool fe_eval_type(Lower *cx, const AstNode *type, const IrType *actual,
                  IrType *out);
/* The dtype of a name ("f32"), widened under --widen; false if it is none. */
bool fe_dtype_by_name(const Lower *cx, const char *name, DType *out);
DType fe_default_float(const Lower *cx); /* f32; f64 under --widen */

/* ---- values as operands of the IR (operand.c) --------------------------- */

/*
 * The value to compute with: variables and params are read, constants emitted
 * (untyped ones as i32 or f32), lists of scalars made tensors.  A per-replica
 * value out of replica context is an error; so is what cannot be a tensor, and
 * any of this in FE_TOP.
 */
IrValue *fe_operand(Lower *cx, FeValue *v, Loc loc);
/* The same, with untyped constants at that dtype; another dtype is an error. */
IrValue *fe_operand_as(Lower *cx, FeValue *v, DType t, Loc loc);
/* Several at their one dtype: untyped constants take that of the others, which
 * must agree. */
bool fe_operands(Lower *cx, int n, FeValue *const *v, IrValue **out, Loc loc);
/* To be passed on and not computed with (reduce, gather, arguments of run): as
 * fe_operand, but per-replica values are welcome everywhere. */
IrValue *fe_handle(Lower *cx, FeValue *v, Loc loc);
IrValue *fe_handle_as(Lower *cx, FeValue *v, DType t, Loc loc);
/* The dtype at which fe_operands would have them. */
DType fe_common_dtype(Lower *cx, int n, FeValue *const *v);
/* The type fe_handle would give, without emitting; false if it is no tensor. */
bool fe_type_of(Lower *cx, FeValue *v, IrType *out);
/* The least locality that a value has here: host or mirrored. */
Locality fe_floor(const Lower *cx);
/* The locality the value has where it stands: CONST mirrored or host, ... */
Locality fe_locality_of(Lower *cx, FeValue *v);

/* A new operation, never NULL; its attributes are to be set, then fe_emit
 * appends it.  Operands may be NULL (errors). */
IrOp *fe_op(Lower *cx, IrOpKind kind, int n, IrValue *const *operands, Loc loc);
/* Infers and appends; POISON with a message when it does not infer, when an
 * operand is NULL, or in FE_TOP.  The value of its one result; NONE without. */
FeValue *fe_emit(Lower *cx, IrOp *op);
/* For fe_emit: that the indices of op, if it has any, name something. */
bool fe_check_indices(Lower *cx, const IrOp *op);
/* The two for operations without attributes, of values at one dtype
 * (fe_operands); x of fe_op3 has its own (where). */
FeValue *fe_op1(Lower *cx, IrOpKind kind, FeValue *x, Loc loc);
FeValue *fe_op2(Lower *cx, IrOpKind kind, FeValue *x, FeValue *y, Loc loc);
FeValue *fe_op3(Lower *cx, IrOpKind kind, FeValue *x, FeValue *y, FeValue *z,
                Loc loc);
/* Whether an operation may be appended by ir_build_*: there is a block (else a
 * message), and limits are kept.  (fe_emit does this by itself.) */
bool fe_may_emit(Lower *cx, Loc loc);

/* x op y as the language has it: folds constants and lengths. */
FeValue *fe_binary(Lower *cx, AstOp op, FeValue *x, FeValue *y, Loc loc);
FeValue *fe_unary(Lower *cx, AstOp op, FeValue *x, Loc loc);
/* t(x); folds constants. */
FeValue *fe_cast(Lower *cx, FeValue *x, DType t, Loc loc);
/* What a constant is at dtype t; false with a message when it does not fit. */
bool fe_constant_as(Lower *cx, const FeValue *v, DType t, Loc loc, Scalar *out);
/* x op y of a CONST or DIM each, if it can be computed now: NULL if not. */
FeValue *fe_fold_binary(Lower *cx, AstOp op, FeValue *x, FeValue *y, Loc loc);
FeValue *fe_fold_unary(Lower *cx, AstOp op, FeValue *x, Loc loc);
/* x, an untyped constant, at the dtype of its default, i32 or f32. */
FeValue *fe_typed(Lower *cx, FeValue *x, Loc loc);

/* ---- values known when compiling (known.c) ------------------------------- */

/* what says what for: "the size of a batch".  False with a message when it is
 * not known; that may make a loop unroll. */
bool fe_int(Lower *cx, FeValue *v, const char *what, Loc loc, int64_t *out);
bool fe_bool(Lower *cx, FeValue *v, const char *what, Loc loc, bool *out);
bool fe_text(Lower *cx, FeValue *v, const char *what, Loc loc,
             const char **out);
bool fe_dtype(Lower *cx, FeValue *v, const char *what, Loc loc, DType *out);
/* A constant or a length; not negative. */
bool fe_dim(Lower *cx, FeValue *v, const char *what, Loc loc, Dim *out);
/* One dimension or a tuple or list of them; at most IR_MAX_RANK. */
bool fe_dims(Lower *cx, FeValue *v, const char *what, Loc loc, Dim *out,
             int *rank);
/* One integer or a tuple or list of them, counted from the end if negative,
 * below rank, without repetition, ascending. */
bool fe_axes(Lower *cx, FeValue *v, int rank, Loc loc, int64_t *axes,
             int *num_axes);
/* One such axis. */
bool fe_axis(Lower *cx, FeValue *v, int rank, Loc loc, int64_t *axis);

/* ---- calls (lower_call.c, lower_func.c) --------------------------------- */

typedef struct FeArg {
    const char *name; /* or NULL: by position */
    FeValue *value;
    const AstNode *node; /* as written, or NULL */
    Loc loc;
    Loc whole; /* name = value */
} FeArg;

typedef struct FeCall {
    const char *name; /* of the function, for messages */
    FeArg *args;      /* those by name last */
    int num_args;
    Loc loc;
} FeCall;

/* Evaluates the arguments of a CALL of callee, or of a method, which is NULL.
 * Where a builtin takes a word, the NAME of a builtin (sum) is that whatever it
 * is bound to, and one that is bound to nothing is text. */
FeCall fe_call_args(Lower *cx, const AstNode *call, const FeValue *callee,
                    const char *name);
/* Assigns arguments to parameters: out[i] is that of names[i], or NULL if it
 * was not given.  False with a message for too many, unknown, twice. */
bool fe_match_args(Lower *cx, const FeCall *call, int n,
                   const char *const *names, FeArg **out);
/* Calls anything that can be called; the chain of calls says that it is called
 * from call->loc.  verb is "called", "run", ... */
FeValue *fe_call(Lower *cx, FeValue *callee, const FeCall *call,
                 const char *verb);
/* Calls f with values: for map, filter, values_from, slot initialisers.  A
 * tuple fills several parameters when spread is set. */
FeValue *fe_call_with(Lower *cx, FeValue *f, int n, FeValue *const *values,
                      bool spread, const char *verb, Loc loc);
/* "train_step", "a function": for messages. */
const char *fe_callee_name(const FeValue *callee);

/* ---- regions (region.c) ------------------------------------------------- */

/* A place to come back to. */
typedef struct FeRegion {
    IrBlock *block;
    FeContext context;
    FeDivergence *divergence;
    IrVar *updated;
    FeScope *scope;
    const IrCall *calls;
    const char *path;
} FeRegion;

/* Goes to another place, and back. */
FeRegion fe_region_enter(Lower *cx, IrBlock *block, FeContext context);
void fe_region_leave(Lower *cx, const FeRegion *saved);

/* Appends operation kind (run, merge, update) to the current block and lowers
 * into its region from now on, in that context.  NULL (with a message, or in
 * FE_TOP) when it cannot stand here for a limit's sake. */
IrOp *fe_region_open(Lower *cx, IrOpKind kind, FeContext context, Loc loc,
                     FeRegion *saved);
/* Yields the leaves of result that the region computed, goes back to where it
 * was, and gives the operation its results: result with these in their places.
 * Leaves that are known when compiling, and variables, stay as they are. */
FeValue *fe_region_close(Lower *cx, IrOp *op, const FeRegion *saved,
                         FeValue *result, Loc loc);
/* A new function of the module, and back: its arguments are those of
 * cx->block.  Ends it in a return of the leaves of
 * result as tensors; false when there were errors. */
IrFunc *fe_func_open(Lower *cx, const char *name, IrFuncKind kind,
                     FeContext context, Loc loc, FeRegion *saved);
bool fe_func_close(Lower *cx, IrFunc *fn, const FeRegion *saved,
                   FeValue *result, Loc loc);
/* The statements of a block in a new scope of that kind; the value of its
 * return, NONE without one.  Names may have been bound to the scope before. */
FeValue *fe_body(Lower *cx, FeScope *scope, const AstNode *block);

/* ---- statements (lower_stmt.c) ------------------------------------------ */

/* Whether value is a nest of as many as a tuple has names; an error if not. */
bool fe_fits_names(Lower *cx, const AstNode *pattern, const FeValue *value);
/* Binds what a pattern of names says to value; muts become typed values. */
void fe_bind_pattern(Lower *cx, const AstNode *pattern, FeValue *value,
                     bool is_mut);
/* Gives a mut another value of its dtype. */
void fe_assign_mut(Lower *cx, FeBinding *b, FeValue *value, Loc loc);

/* =========================================================================
 * What the second half implements, by name.
 */

/* ---- builtins.def, builtins_*.c ----------------------------------------- */

/* The builtin function of that name, or NULL; what scope.c falls back to. */
const FeBuiltin *fe_builtin_find(const char *name);
const char *fe_builtin_name(const FeBuiltin *b);
/* All names, for suggestions. */
const char *const *fe_builtin_names(int *n);
/* Whether the argument of that name, or at that index where it is NULL, is a
 * word: an operation (sum, mean, ...), a way to divide; see fe_call_args. */
bool fe_builtin_takes_word(const FeBuiltin *b, const char *name, int index);
/* Whether b makes a value of a shape and dtype: zeros, ones.  Such a name
 * alone may stand as an initial value. */
bool fe_builtin_fills(const FeBuiltin *b);
FeValue *fe_builtin_call(Lower *cx, const FeBuiltin *b, const FeCall *call);
/* num_replicas, replica_id: builtin names that are values, not functions, in
 * this place; NULL if name is none. */
FeValue *fe_builtin_value(Lower *cx, const char *name, Loc loc);
/* x @ y. */
FeValue *fe_matmul(Lower *cx, FeValue *x, FeValue *y, Loc loc);

/* grad(loss, wrt), in grad.c, and zip(a, b, ...), in lower_nest.c: their rows
 * of builtins.def call them. */
FeValue *fe_grad(Lower *cx, FeValue *loss, FeValue *wrt, Loc loc);
FeValue *fe_zip(Lower *cx, const FeCall *call);

/* ---- vars.c ------------------------------------------------------------- */

/* The variable of a VAR in scope (top level, module), its name prefixed; with
 * its @NAME.init.  colocate is the target of a block around it, or NULL. */
FeValue *fe_var_declare(Lower *cx, FeScope *scope, const AstNode *var,
                        FeValue *colocate);
/* A SLOT of an instance; and m[v]. */
FeValue *fe_slot_declare(Lower *cx, FeScope *scope, const AstNode *slot);
FeValue *fe_slot_index(Lower *cx, FeSlot *slot, FeValue *v, Loc loc);
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
/* Once, at the end: @NAME.init of the slots that were used.  (A function made
 * while lowering may be cut back; see the top.) */
void fe_vars_finish(Lower *cx);
/* Gives every save and restore of main the values of its variables, once all
 * of these are known (checkpoint.c). */
void fe_checkpoints_finish(Lower *cx);

/* ---- dist.c ------------------------------------------------------------- */

FeValue *fe_run(Lower *cx, const AstNode *run);           /* RUN */
FeValue *fe_schedule(Lower *cx, const AstNode *schedule); /* SCHEDULE */
FeValue *fe_merge(Lower *cx, const AstNode *merge);       /* MERGE */
FeValue *fe_update(Lower *cx, const AstNode *update);     /* UPDATE */
/* for x in distribute(d): the iterator, opened here; then, wherever the loop
 * wants them, has_next (a bool tensor) and the next element. */
FeValue *fe_iter_open(Lower *cx, FeValue *dist, Loc loc);
FeValue *fe_iter_has_next(Lower *cx, FeValue *iter, Loc loc);
FeValue *fe_iter_next(Lower *cx, FeValue *iter, Loc loc);

/* ---- data.c ------------------------------------------------------------- */

/* dataset d = ...; the expression is worth a DATASET. */
FeValue *fe_dataset_declare(Lower *cx, const AstNode *dataset);
/* ds.name(args) */
FeValue *fe_dataset_method(Lower *cx, FeValue *ds, const char *name,
                           const FeCall *call);

/* ---- text.c ------------------------------------------------------------- */

/* A STRING with its holes evaluated: FE_STRING. */
FeValue *fe_string(Lower *cx, const AstNode *string);

#endif
