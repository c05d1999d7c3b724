/*
 * value.h - values of expressions
 *
 * Lowering is partial evaluation: most values are known when the program is
 * compiled (numbers, shapes, functions, instances, nests of values), the rest
 * are values of the IR.  An FeValue is either.  It is made once and not changed
 * (an assignment binds a name to another value), and lives in the arena of the
 * Lower.
 *
 *   - A number in the source is an untyped CONST; it takes the dtype it is used
 *     at.  f32(3) is a typed one.  Constants fold.
 *   - A DIM is the length of a batch: an integer that is not known before the
 *     step runs, but may stand in shapes.
 *   - A VAR is the variable, not its value: it is read where a tensor is
 * needed. A PARAM likewise.
 *   - POISON is what an expression with an error is worth.  Whoever meets it
 *     gives POISON and reports nothing, so that one run finds many errors.
 */
#ifndef TFD_FRONTEND_VALUE_VALUE_H
#define TFD_FRONTEND_VALUE_VALUE_H

#include <stdbool.h>
#include <stdint.h>
#include "frontend/syntax/ast.h"
#include "ir/ir.h"

typedef enum FeKind {
#define FE_VALUE(KIND, what) FE_##KIND,
#include "frontend/value/values.def"
#undef FE_VALUE
    NUM_FE_KINDS
} FeKind;

typedef struct FeValue FeValue;
typedef struct FeScope FeScope;       /* names; lower.h */
typedef struct FeInstance FeInstance; /* of a module; lower.h */
typedef struct FeSlot FeSlot;         /* a slot family; vars.c */
typedef struct FeDataset FeDataset;   /* a pipeline as far as known; data.c */
typedef struct FeDistDataset FeDistDataset; /* a distributed dataset; dist.c */
typedef struct FeBuiltin FeBuiltin;         /* a row of builtins.def */

typedef VEC(FeValue *) FeValues;

typedef enum FeNestKind {
    NEST_TUPLE,
    NEST_NAMED,
    NEST_LIST,
    NEST_SLICES /* slices.h */
} FeNestKind;

typedef struct FeNest {
    FeNestKind kind;
    int len;
    int depth;      /* 1 without nests in it */
    int64_t leaves; /* at all depths; INT32_MAX stands for more too */
    FeValue **items;
    const char **names; /* of NEST_NAMED and SLICES: interned; else NULL */
} FeNest;

/* format is the text with {} or {:.3f} where a value goes and {{ and }} for
 * braces, as operations print and assert want it; text is it without holes, its
 * braces plain, and NULL when there are holes, or params of str: {$path} in the
 * format. */
typedef struct FeText {
    const char *text;
    const char *format;
    int64_t len; /* of format */
    FeValue **holes;
    int num_holes;
} FeText;

/* Whether it has params of str, and nothing else that is not known yet. */
static inline bool
fe_text_is_late(const FeText *t)
{
    return !t->text && !t->num_holes;
}

struct FeValue {
    FeKind kind;
    union {
        struct {
            Scalar scalar; /* untyped: i64 or f64; bool is never untyped */
            bool untyped;
        } constant;
        struct {
            Dim dim;      /* never a constant one */
            bool untyped; /* a name of a dimension; len(x) is an i64 */
        } length;
        IrValue *tensor;
        IrParam *param;
        IrVar *var;
        FeText text;
        const IrType *type; /* f32, u8[28, 28]; its locality says nothing */
        FeNest nest;
        struct {
            const AstNode *fn; /* FN */
            FeScope *scope;    /* the names around it */
        } func;
        struct {
            const AstNode *module; /* MODULE */
            FeScope *scope;        /* the names around it */
        } module;
        FeInstance *instance;
        FeSlot *slot;
        FeDataset *dataset;
        FeDistDataset *dist;
        IrIter *iter;
        FeValue *remote; /* what the closure gives: fetch waits for it */
        const FeBuiltin *builtin;
        FeScope *space; /* its names are the fields */
    };
};

/* ---- making ------------------------------------------------------------- */

extern FeValue fe_poison, fe_none;
/* The value of a mut without an assignment: where branches join, the value of
 * the other branch is taken. */
extern FeValue fe_absent;

FeValue *fe_value_int(Arena *a, int64_t x);  /* untyped */
FeValue *fe_value_float(Arena *a, double x); /* untyped */
FeValue *fe_value_bool(Arena *a, bool x);
FeValue *fe_value_scalar(Arena *a, Scalar s); /* typed */
/* The value of the name of a dimension: untyped; a CONST or a DIM. */
FeValue *fe_value_dim(Arena *a, Dim d);
/* The value of len(x): an i64; a CONST or a DIM. */
FeValue *fe_value_length(Arena *a, Dim d);
FeValue *fe_value_tensor(Arena *a, IrValue *v); /* POISON of NULL */
FeValue *fe_value_param(Arena *a, IrParam *p);
/* A param of str. */
FeValue *fe_value_late_text(Arena *a, const char *param);
FeValue *fe_value_var(Arena *a, IrVar *v);
FeValue *fe_value_text(Arena *a, const char *text); /* without holes */
FeValue *fe_value_type(Arena *a, IrType t);         /* copies t */
FeValue *fe_value_tuple(Arena *a, int n, FeValue *const *items);
FeValue *fe_value_list(Arena *a, int n, FeValue *const *items);
/* A nest of the kind, length and names of like. */
FeValue *fe_value_with_items(Arena *a, const FeValue *like,
                             FeValue *const *items);
FeValue *fe_value_named(Arena *a, int n, const char *const *names,
                        FeValue *const *items);
/* One of any kind, zeroed but for it; to be filled at once. */
FeValue *fe_value_new(Arena *a, FeKind kind);

/* ---- asking ------------------------------------------------------------- */

static inline bool
fe_is_poison(const FeValue *v)
{
    return v->kind == FE_POISON;
}

/* Whether v or a leaf of it is POISON. */
bool fe_value_has_poison(const FeValue *v);

/* "a tuple", "an f32[3]", "the variable "w"": for messages, in a. */
const char *fe_value_describe(Arena *a, const IrModule *m, const FeValue *v);
/* An integer known when compiling, typed or not. */
bool fe_value_is_int(const FeValue *v, int64_t *x);
/* A bool known when compiling. */
bool fe_value_is_bool(const FeValue *v, bool *x);
/* Whether a and b are the same thing known when compiling (or the same IR
 * value). */
bool fe_value_same(const FeValue *a, const FeValue *b);

/* ---- nests -------------------------------------------------------------- */

/* A value that is no nest is a leaf.  Calls visit on the leaves in order and
 * makes a nest of the same kind and names of its results. */
FeValue *fe_value_map(Arena *a, FeValue *v,
                      FeValue *(*visit)(FeValue *leaf, void *data), void *data);
/* The items of a nest. */
void fe_value_items(Arena *a, const FeValue *nest, FeValues *out);
/* The leaves, in order. */
void fe_value_leaves(Arena *a, FeValue *v, FeValues *out);
/* v with its leaves replaced by those at *leaves, which is moved on. */
FeValue *fe_value_rebuild(Arena *a, FeValue *v, FeValue *const **leaves);
/* The same three for functions that treat slices as one: leaves, and slices. */
FeValue *fe_value_map_parts(Arena *a, FeValue *v,
                            FeValue *(*visit)(FeValue *part, void *data),
                            void *data);
void fe_value_parts(Arena *a, FeValue *v, FeValues *out);
FeValue *fe_value_rebuild_parts(Arena *a, FeValue *v, FeValue *const **parts);
/* Whether the nests are alike: kinds, lengths and names, not leaves. */
bool fe_value_alike(const FeValue *a, const FeValue *b);
/* The item of a named tuple, or NULL. */
FeValue *fe_nest_field(const FeNest *nest, const char *name);

#endif
