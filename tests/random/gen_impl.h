/*
 * gen_impl.h - private to the generator of programs
 *
 *   gen.c          numbers, scopes, lines
 *   gen_ops.c      values computed from values
 *   gen_conv.c     convolutions
 *   gen_move.c     those made of the elements of others
 *   gen_want.c     new values, and those that are asked for
 *   gen_nest.c     functions, nests, parts of muts, sparse values, optimizers
 *   gen_vars.c     variables: declarations, reads and writes
 *   gen_dist.c     what replicas do together
 *   gen_grad.c     losses whose gradients are compared with differences
 *   gen_control.c  if, for, while; blocks of statements
 *   gen_main.c     datasets, steps, main
 */
#ifndef TFD_TESTS_RANDOM_GEN_IMPL_H
#define TFD_TESTS_RANDOM_GEN_IMPL_H

#include <stdbool.h>
#include "ir/base/number/dtype.h"
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "tests/random/gen.h"

enum { GEN_RANK = 3, GEN_NAME = 24 };

/* What a value is on different replicas. */
typedef enum Who {
    SAME, /* equal on all, or one of main */
    OWN,  /* may differ */
    ROWS, /* its row i is a function of row i of the batch and of SAMEs; OWN
             where results may depend on the number of replicas */
    PART, /* the sum over the replicas is that of the whole batch */
} Who;

/* The leading dimension is the replica's share of a batch where rows is set;
 * dims[0] is nothing then. */
typedef struct GenType {
    DType dtype;
    int rank, dims[GEN_RANK];
    bool rows;
} GenType;

typedef struct GenValue {
    char name[GEN_NAME];
    GenType type;
    Who who;
    double size;     /* no element is greater, about; 0 for integers */
    bool fuzzy;      /* rounded in other ways on other numbers of replicas */
    bool collective; /* a gradient of it is a replica's own part */
    bool constant;   /* the compiler may know it: no gradient is taken by it */
    bool in_control; /* made by an if or loop, or assigned in one */
    int frame;       /* > 0: a mut, which this frame may assign */
} GenValue;

typedef struct GenVar {
    char name[GEN_NAME], beside[GEN_NAME]; /* colocated with */
    GenType type;
    bool on_read;
    bool rowless; /* no scatter writes it */
    enum { NO_AGG, AGG_SUMS, AGG_MEANS, AGG_FIRSTS } agg;
} GenVar;

typedef enum GenContext {
    IN_MAIN,
    IN_STEP,
    IN_MERGE,
    IN_UPDATE,
    IN_ELEMENT /* a function of a dataset */
} GenContext;

/* A function that steps call. */
typedef struct GenFn {
    char name[GEN_NAME];
    bool together; /* calls collectives or writes mirrored variables */
    int num_args, num_results;
    GenValue args[2], results[2];
} GenFn;

/* What a block of another context or function hides. */
typedef struct GenScope {
    GenContext context;
    int frame;
    bool has_rows;
    int len;
    GenValue *values;
} GenScope;

typedef struct Gen {
    Arena *arena;
    uint64_t state;
    Str out;
    int indent, num_names;
    bool central;   /* sync-on-read variables are like others */
    bool invariant; /* results must not depend on the number of replicas */
    GenContext context;
    bool divergent; /* not all replicas may come here */
    bool has_rows;  /* there is a batch, and len(rows_name) is no constant */
    char rows_name[GEN_NAME]; /* its first component, of f32; "": none */
    const GenVar *updated;    /* in an update */
    int frame;                /* of the current function or block of a merge */
    int num_frames, depth, budget;
    VEC(GenValue) scope;
    VEC(GenVar) vars;
    VEC(GenFn) fns;
    const char *counter;   /* a variable that is no slot; NULL: none */
    const char *optimizer; /* its name; NULL: none */
    bool smooth; /* all that is computed has a derivative everywhere */
    const char *loss_check; /* compares the gradient of a loss; NULL: none */
    GenType loss_x, loss_w;
} Gen;

/* ---- gen.c -------------------------------------------------------------- */

int gen_pick(Gen *g, int n); /* from 0 to n - 1 */
bool gen_chance(Gen *g, int percent);
const char *gen_text(Gen *g, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gen_line(Gen *g, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gen_open(Gen *g, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gen_close(Gen *g, const char *text);
/* A name that is new: prefix and a number. */
const char *gen_name(Gen *g, const char *prefix);
/* Prints let NAME = TEXT and puts the value in scope: v says all but the name.
 * The value, until another is added. */
GenValue *gen_let(Gen *g, GenValue v, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
GenValue *gen_add(Gen *g, GenValue v, const char *name);

typedef bool (*GenFits)(Gen *g, const GenValue *v, const void *like);
/* A value in scope, later ones rather than earlier ones; false: none. */
bool gen_find(Gen *g, GenFits fits, const void *like, GenValue *out);

GenType gen_scalar(DType t);
GenType gen_random_type(Gen *g, DType t);
/* A parameter of a step or function, which may differ among the replicas in so
 * many of a hundred cases: then there is something to reduce. */
GenValue gen_parameter(Gen *g, int own_percent);
bool gen_same_type(const GenType *x, const GenType *y);
int gen_count(const GenType *t); /* elements, of a share 4 rows */
/* "f32[2, 3]"; "(2, 3)", with len(...) for rows. */
const char *gen_type_text(Gen *g, const GenType *t);
const char *gen_shape_text(Gen *g, const GenType *t);
DType gen_dtype(Gen *g);
bool gen_is_float(DType t);
bool gen_is_int(DType t);
bool gen_is_own(const GenValue *v); /* per_replica */
/* The greater of both; what joins of PART are is the caller's care. */
Who gen_join(Who x, Who y);
const char *gen_number(Gen *g, DType t); /* a literal */

/* ---- gen_ops.c ---------------------------------------------------------- */

/* Computes something; false where nothing fits. */
bool gen_compute(Gen *g);
/* Whether one can compute with v here; and if it is of a kind. */
bool gen_computable(const Gen *g, const GenValue *v);
bool gen_fits_any(Gen *g, const GenValue *v, const void *unused);
/* What a function may give back: a variable is none. */
bool gen_fits_result(Gen *g, const GenValue *v, const void *unused);
bool gen_fits_float(Gen *g, const GenValue *v, const void *unused);
bool gen_fits_int(Gen *g, const GenValue *v, const void *unused);
bool gen_fits_tensor(Gen *g, const GenValue *v, const void *unused);
/* The value computed from x and y, except for its size. */
GenValue gen_joined(const GenValue *x, const GenValue *y);
/* t without the axes from first to end, or with 1 for each. */
GenType gen_without_axes(const GenType *t, int first, int end, bool keep);

/* ---- gen_conv.c --------------------------------------------------------- */

bool gen_op_conv(Gen *g);

/* ---- gen_move.c --------------------------------------------------------- */

bool gen_op_argument(Gen *g);
bool gen_op_along(Gen *g);
bool gen_op_index(Gen *g);
bool gen_op_expand(Gen *g);
bool gen_op_transpose(Gen *g);
bool gen_op_reshape(Gen *g);
bool gen_op_concat(Gen *g);
bool gen_op_pad(Gen *g);
bool gen_op_take(Gen *g);
bool gen_op_along_axis(Gen *g);
bool gen_op_one_hot(Gen *g);
bool gen_op_matmul(Gen *g);

/* ---- gen_want.c --------------------------------------------------------- */

bool gen_op_new(Gen *g);
bool gen_op_random(Gen *g);
bool gen_op_own(Gen *g);
/* A value of that type that is SAME, or (own) is not. */
GenValue gen_like(Gen *g, GenType type, bool own);
/* A scalar of it, of that dtype. */
GenValue gen_scalar_of(Gen *g, DType t, bool own);
GenValue gen_condition(Gen *g, bool own);
/* A value whose numbers are small. */
GenValue gen_tame(Gen *g, GenValue v, double limit);

/* ---- gen_nest.c --------------------------------------------------------- */

/* Optimizers, and functions that steps call. */
void gen_declare_helpers(Gen *g);
/* Statements of steps with these, and with nests. */
bool gen_nested(Gen *g);
bool gen_call(Gen *g);
bool gen_sparse(Gen *g);
bool gen_optimize(Gen *g);
bool gen_set_part(Gen *g);

/* ---- gen_vars.c --------------------------------------------------------- */

void gen_declare_vars(Gen *g);
bool gen_write(Gen *g);
bool gen_read(Gen *g);
bool gen_update(Gen *g);
void gen_print_vars(Gen *g);
/* Into a block in another context, with the same values in scope, and back. */
GenScope gen_enter(Gen *g, GenContext context);
void gen_leave(Gen *g, GenScope outer);
/* Takes all that may differ among replicas out of scope. */
void gen_keep_same(Gen *g);

/* ---- gen_dist.c --------------------------------------------------------- */

bool gen_together(Gen *g); /* in a step */
bool gen_combine(Gen *g);  /* in main or a merge */
bool gen_gradient(Gen *g);

/* ---- gen_grad.c --------------------------------------------------------- */

/* A loss, and what compares its gradient; that in main. */
void gen_declare_loss(Gen *g);
void gen_check_loss(Gen *g);

/* ---- gen_control.c ------------------------------------------------------ */

void gen_block(Gen *g, int statements);

#endif
