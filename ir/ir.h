/*
 * ir.h - modules, functions, operations, values
 *
 * SSA with regions: an operation has operands, results, attributes and up to
 * two regions of one block each; a block ends in yield (return in a function).
 * A region sees the values around it.  Everything is in the module's arena.
 *
 * Contexts are structure: main is cross-replica; a run region, and a device
 * program after replicate, is replica context; a merge region is cross-replica
 * context executed for the replicas around it; an update region is update
 * context.
 *
 * docs/ir.md shows the text form.  ops.def defines the operations.
 */
#ifndef TFD_IR_IR_H
#define TFD_IR_IR_H

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/str.h"
#include "ir/base/vec.h"
#include "ir/device/strategy.h"
#include "ir/ops/op.h"
#include "ir/type.h"

typedef struct IrModule IrModule;
typedef struct IrFunc IrFunc;
typedef struct IrBlock IrBlock;
typedef struct IrOp IrOp;
typedef struct IrValue IrValue;

enum { IR_MAX_PACKS = 1 << 20 }; /* of a cross-device operation */
/* How long a collective may be told to wait: about 30 years. */
#define IR_MAX_TIMEOUT_MS ((int64_t)1000 * 1000 * 1000 * 1000)

/* Why a pass inserted an operation: never without all three. */
typedef struct IrCall IrCall;

typedef struct IrReason {
    const char *rule;    /* "communicate.aggregate": pass and rule */
    const char *cause;   /* the operand or statement, in words */
    Loc loc;             /* the source line that caused it, */
    const IrCall *calls; /* and that is inlined for them; NULL: for none, or it
                            is not known */
} IrReason;

/* Where allocate put a value's bytes. */
typedef enum IrSpace {
    SPACE_NONE,  /* not allocated (yet) */
    SPACE_FRAME, /* main's frame, on the host: offset */
    SPACE_ARENA, /* the device's arena: offset, equal on all devices */
    SPACE_IN,    /* input pointer number `offset` of the function */
    SPACE_OUT,   /* output pointer number `offset` of the function */
    SPACE_ROW    /* host side of a per-replica value of main: a place in the
                    device arena, at offset, that launches write and read */
} IrSpace;

typedef struct IrPlace {
    IrSpace space;
    int64_t offset;
} IrPlace;

struct IrValue {
    IrType type;
    IrOp *def;        /* the operation it is a result of, or NULL */
    IrBlock *block;   /* the block it is an argument of, or NULL */
    int index;        /* which result or argument */
    const char *name; /* a hint from the source ("loss"), or NULL */
    IrPlace place;
    int num_uses;     /* valid after ir_count_uses */
    IrValue *forward; /* replacement noted by ir_forward, or NULL */
    int number;       /* its own in the module: of side tables (table.h) */
    int id;           /* scratch of the verifier */
};

typedef VEC(IrValue *) IrValues;

typedef struct IrAttrValue {
    bool present;
    union {
        int64_t i;        /* INT, BOOL, DTYPE_, ENUM */
        const char *text; /* SYMBOL (interned, without @), STRING */
        struct {
            const void *items; /* INTS int64_t, DIMS Dim, SYMBOLS const char* */
            int count;
        } list;
        struct {
            const void *bytes; /* DATA: elements of the result's dtype */
            int64_t size;      /* in bytes */
        } data;
    };
} IrAttrValue;

/* One call that an operation is inlined for. */
struct IrCall {
    const IrCall *caller; /* around it, or NULL */
    const char *note;     /* "train_step is run from here" */
    const char *function; /* that is called: "train_step", "Dense.call" */
    const char *layer;    /* of whose instance it is: "gpt.blocks.0.att", or
                             NULL */
    Loc loc;
};

struct IrOp {
    IrOpKind kind;
    IrModule *module; /* whose arena has it */
    IrOp *prev, *next;
    IrBlock *block; /* the block it stands in */
    IrValue **operands;
    int num_operands;
    IrValue **results;
    int num_results;
    IrAttrValue *attrs; /* as the op's ATTR rows, in their order */
    IrBlock *regions[2];
    int num_regions;
    Loc loc;
    const IrReason *reason; /* NULL unless a pass inserted it */
    const IrCall *calls;    /* innermost; NULL for none, or not known */
    int number;             /* its own in the module: of side tables */
    int id;                 /* scratch */
};

struct IrBlock {
    IrValues args;
    IrOp *first, *last;
    IrOp *op;     /* the operation whose region it is, or NULL */
    IrFunc *func; /* the function it is in */
};

typedef enum IrFuncKind {
    FUNC_MAIN,   /* cross-replica program, on the host */
    FUNC_HOST,   /* of a dataset stage: host values in and out */
    FUNC_INIT,   /* initial value of a variable */
    FUNC_PROGRAM /* device program: what each device of a group runs */
} IrFuncKind;

struct IrFunc {
    IrModule *module;
    const char *name;
    IrFuncKind kind;
    IrBlock *body; /* ends in return */
    Loc loc;
    const char *variant_of; /* full-batch copy of that program, or NULL */
    const char *worker_of;  /* copy of that program for workers, or NULL */
    /* An update of a part of that variable, or NULL: it reads and writes as
     * many rows as the largest part has, numbered from the part's first. */
    const char *part_of;
    int row_ids;         /* of it: the parameter that names rows; else -1 */
    bool rows_only;      /* it needs no others: it reads and writes no more rows
                            than may be named */
    int64_t arena_bytes; /* high-water mark of ARENA or FRAME places */
    IrFunc *next;
};

/* A batch dimension: n, the rows of the replica that asks, with its partner N,
 * the rows of all replicas; n_2, the rows of replica 2, which all replicas
 * know; b, a batch of a dataset before it is distributed. */
typedef struct IrSymbol {
    const char *name; /* "n", "N", "n1", ... */
    int64_t bound;    /* never more rows than this */
    int32_t partner;  /* n -> its N, N -> its n; -1: none */
    bool global;      /* an N */
    int32_t of;       /* n_2 -> its n; -1: none */
    int32_t replica;  /* whose rows n_2 is */
} IrSymbol;

/* Servers of a job are numbered below it. */
#define IR_MOST_SERVERS 4096

typedef enum VarSync {
    SYNC_AUTO,
    SYNC_NONE,
    SYNC_ON_WRITE,
    SYNC_ON_READ
} VarSync;

typedef struct IrVar {
    const char *name; /* path: "fc.w" */
    IrType type;      /* static; locality as placed */
    VarSync sync;
    IrAgg agg; /* none, sum, mean or first */
    bool trainable;
    bool non_slot;
    const char *colocate; /* name of another variable, or NULL */
    int64_t parts;        /* that servers hold it in, cut along its first axis
                           * by ir_var_part_rows; 0 and 1: it is whole */
    int64_t server;       /* that has all of it, counted from 1; 0: any */
    const char *init;     /* function @name.init */
    IrPlace place;        /* after allocate: offset in every device's arena */
    Loc loc;
} IrVar;

typedef struct IrParam {
    const char *name;
    DType dtype;
    Scalar value;     /* default */
    const char *text; /* the default of a string, whose dtype is u8 and which
                         stands in formats and paths; NULL: a scalar */
    Loc loc;
} IrParam;

typedef VEC(const char *) IrNames;

#define IR_PATH_FORMAT "{$}"

/* One stage of an input pipeline; stages.def lists the kinds. */
typedef struct IrStage {
    int kind;          /* StageKind */
    int64_t ints[4];   /* as the stage's row says */
    IrNames paths;     /* of its files; *, ? and [...] are wildcards; what
                          begins with IR_PATH_FORMAT is a format */
    IrNames names;     /* of its components in the files */
    const char *func;  /* function name, or NULL */
    const char *other; /* second dataset (zip, concat), or NULL */
    const void *data;  /* tensors: the elements of all components in order;
                        * csv, tfrecord: one element of each, or NULL */
    int64_t data_size;
    VEC(IrType) types; /* of one element after this stage, flattened */
    Loc loc;
} IrStage;

typedef struct IrDataset {
    const char *name;
    VEC(IrStage) stages; /* source first */
    Loc loc;
} IrDataset;

typedef enum ShardPolicy {
    SHARD_AUTO,
    SHARD_FILE,
    SHARD_DATA,
    SHARD_OFF
} ShardPolicy;

/* What each of a coordinator's workers has of a dataset of its own. */
typedef enum WorkerShard {
    WORKER_SHARD_OFF,    /* all of it */
    WORKER_SHARD_DATA,   /* every so many elements of its sources, */
    WORKER_SHARD_FILE,   /* or of their files, as many as there are workers */
    WORKER_SHARD_DYNAMIC /* the files that the coordinator deals to it */
} WorkerShard;

/* The iterator of a distributed dataset; each place in the program that opens
 * one has its own.  Either the batches of one dataset are divided among the
 * replicas (ir/dataset/sharding.h), or each replica takes whole elements of a
 * dataset that a function made for its pipeline. */
typedef struct IrIter {
    const char *name;
    IrNames datasets; /* divided: one; whole: one a pipeline, which are the
                         workers, or one worker's replicas */
    bool whole;
    bool per_worker; /* each worker has one of its own, and takes its elements
                        for closures; else main takes them */
    WorkerShard workers; /* per_worker: what of it each has */
    ShardPolicy shard;   /* of the elements before they are divided */
    int64_t buffer; /* elements of each replica that are ready, 1 unless it is
                       said: on its device, or with on_host there */
    bool on_host;
    int32_t rows; /* a symbol n of its elements' rows, or -1: static shapes;
                     an iter_next may have another of the same bounds */
    Loc loc;
} IrIter;

/* How many symbols were searched for the numbers after a stem, and the first
 * number that no symbol has. */
typedef struct IrStem {
    int num_symbols, next;
} IrStem;

struct IrModule {
    Arena *arena;
    Intern *names;
    Diag *diag;            /* its table of sources gives Loc.file its meaning */
    VEC(uint16_t) sources; /* of the diag's table, those that the text lists */
    bool lists_sources;    /* false: all of the diag's are listed */
    int num_replicas;
    int num_workers; /* input workers, each with equally many neighbouring
                        replicas and an input pipeline of its own */
    IrStrategy strategy;
    const char *devices;   /* of a worker: "cpu:0-3" normalised */
    IrAlgorithm algorithm; /* of collectives; auto: the strategy's own */
    int packs;             /* that it makes; 0: one for each value */
    int root; /* of reduction_to_one: the replica whose device combines */
    int home; /* of central storage: the replica on whose device variables are
               */
    int64_t
        bytes_per_pack; /* a pack of all_reduces is closed when it is
                           larger; 0: never; below 0: as a cost model says */
    int64_t timeout_ms; /* of a collective; 0: the run's */
    VEC(IrSymbol) symbols;
    IrStem counted[3];       /* of symbols named n, N and b */
    int num_values, num_ops; /* made so far, also those that are gone */
    VEC(IrParam *) params;
    VEC(IrVar *) vars; /* by ir_var_add */
    Map *vars_by_name, *funcs_by_name;
    VEC(IrDataset *) datasets;
    VEC(IrIter *) iters;
    IrFunc *first, *last; /* functions, in order */
    int phase;            /* IrPhase */
    const char *after;   /* the pass of the pipeline it last went through; NULL:
                            none, or it is not known which */
    Loc text;            /* the first line of what it was read from, or none */
    const IrCall *calls; /* the call that new operations are inlined for */
};

/* How far a module has come; the verifier checks more in later phases. */
typedef enum IrPhase {
    PHASE_IR,         /* checked front end */
    PHASE_REPLICATED, /* run regions are device programs, main launches them */
    PHASE_PLACED      /* everything has a place */
} IrPhase;

/* ---- building ---------------------------------------------------------- */

IrModule *ir_module_new(Arena *a, Intern *names, Diag *diag);
/* Names of functions are unique (the verifier reports duplicates; before, the
 * first one is found). */
IrFunc *ir_func_new(IrModule *m, const char *name, IrFuncKind kind, Loc loc);
IrFunc *ir_func_find(const IrModule *m, const char *name);
void ir_func_remove(IrFunc *fn);
/* The function main, or NULL. */
IrFunc *ir_main(const IrModule *m);
/* v has its name; of two with one name, find returns the first. */
void ir_var_add(IrModule *m, IrVar *v);
IrVar *ir_var_find(const IrModule *m, const char *name);
/* Its number among m->vars. */
int ir_var_number(const IrModule *m, const IrVar *v);
/* The block that has v: as an argument, or the operation that makes it. */
static inline IrBlock *
ir_value_block(const IrValue *v)
{
    return v->def ? v->def->block : v->block;
}

/* Whether v is an argument of a region of op, or made in one of them. */
bool ir_is_inside(const IrValue *v, const IrOp *op);

static inline bool
ir_place_equal(IrPlace a, IrPlace b)
{
    return a.space == b.space && a.offset == b.offset;
}

/* Whether a replica reads and writes v alone, so that its value is not shared:
 * a component of a sync-on-read variable, or a variable on one device. */
bool ir_var_is_own(const IrVar *v);
/* The rows of part i of v, which has parts: the first ones have one more where
 * they do not divide its rows (TensorFlow's "div"). */
int64_t ir_var_part_rows(const IrVar *v, int64_t i);
/* The variable that v, directly or not, is colocated with, or v. */
const IrVar *ir_var_home(const IrModule *m, const IrVar *v);
/* The parts in which servers hold v: its own, or as many as its home has where
 * it has the same number of rows; 1: it is whole. */
int64_t ir_var_parts(const IrModule *m, const IrVar *v);
/* The rows of home that fn, an update of a part of it, reads and writes. */
int64_t ir_update_rows(const IrFunc *fn, const IrVar *home);
/* What fn reads and writes of v: all, or its part. */
IrType ir_var_type_in(const IrFunc *fn, const IrVar *v);
IrParam *ir_param_find(const IrModule *m, const char *name);
IrDataset *ir_dataset_find(const IrModule *m, const char *name);
IrIter *ir_iter_find(const IrModule *m, const char *name);
/* A new pair n <= bound, N <= total; gives n's index (N's is n's partner). */
int32_t ir_symbol_pair(IrModule *m, int64_t bound, int64_t total);
/* Removes all but the first n. */
void ir_symbols_cut(IrModule *m, int n);
/* The symbol of the rows of n that a replica has; the first call makes them for
 * all replicas. */
int32_t ir_symbol_of_replica(IrModule *m, int32_t n, int replica);
/* The same, or -1 if the module has none. */
int32_t ir_symbol_find_replica(const IrModule *m, int32_t n, int64_t replica);

/* Whether it is an n: a number that differs between replicas. */
static inline bool
ir_symbol_is_share(const IrSymbol *s)
{
    return s->partner >= 0 && !s->global;
}

/* A batch of a dataset, before it is distributed. */
static inline bool
ir_symbol_is_alone(const IrSymbol *s)
{
    return s->partner < 0 && s->of < 0;
}

/* The symbol n whose rows an iter_next gives, or -1: static shapes. */
int32_t ir_next_rows(const IrOp *op);
/* A symbol without partner: the batch of a dataset before distribution. */
int32_t ir_symbol_alone(IrModule *m, int64_t bound);

IrBlock *ir_block_new(IrFunc *fn);
IrValue *ir_block_arg(IrBlock *b, IrType type, const char *name);

/* An operation that is in no block yet, without results.  Attributes are set
 * with ir_set_*; then ir_op_infer gives it its results. */
IrOp *ir_op_new(IrFunc *fn, IrOpKind kind, int num_operands,
                IrValue *const *operands, Loc loc);
/* Makes num results of the given types (for ops whose results the table does
 * not infer: control flow, iter_next, launch, grad). */
void ir_op_results(IrOp *op, int num, const IrType *types);
void ir_append(IrBlock *b, IrOp *op);
void ir_insert_before(IrOp *where, IrOp *op);
/* Unlinks op; its results must be unused (or forwarded). */
void ir_remove(IrOp *op);
void ir_set_region(IrOp *op, int index, IrBlock *b);

/* attributes; the getters assert that the op has such a row.  A getter of an
 * absent optional attribute gives 0, false or NULL. */
bool ir_has(const IrOp *op, IrAttrName a);
int64_t ir_int(const IrOp *op, IrAttrName a);
/* The enumerator of an enum name, and the name. */
int ir_enum(const IrOp *op, IrAttrName a);
const char *ir_enum_word(const IrOp *op, IrAttrName a);
const char *ir_text(const IrOp *op, IrAttrName a);
const int64_t *ir_ints(const IrOp *op, IrAttrName a, int *count);
const Dim *ir_dims(const IrOp *op, IrAttrName a, int *count);
const char *const *ir_names(const IrOp *op, IrAttrName a, int *count);
const void *ir_data(const IrOp *op, IrAttrName a, int64_t *size);
/* Whether operand 1 of op names parts or rows of operand 0 that may not be
 * there, and how many there are. */
bool ir_op_names(const IrOp *op, Dim *size);
void ir_set_int(IrOp *op, IrAttrName a, int64_t x);
void ir_set_enum(IrOp *op, IrAttrName a, int x);
void ir_set_text(IrOp *op, IrAttrName a, const char *text);
void ir_set_ints(IrOp *op, IrAttrName a, const int64_t *x, int count);
void ir_set_dims(IrOp *op, IrAttrName a, const Dim *x, int count);
void ir_set_names(IrOp *op, IrAttrName a, const char *const *x, int count);
/* As if it had never been set. */
void ir_unset(IrOp *op, IrAttrName a);
void ir_set_data(IrOp *op, IrAttrName a, const void *bytes, int64_t size);

/* Whether a and b have the same attributes with the same values; a hash that is
 * equal for such operations. */
bool ir_attrs_equal(const IrOp *a, const IrOp *b);
uint64_t ir_attrs_hash(const IrOp *op);
/* A copy of from's attributes; both are of one kind. */
void ir_attrs_copy(IrOp *to, const IrOp *from);
/* Copies the attributes that `to`, of another kind, may have too. */
void ir_attrs_copy_common(IrOp *to, const IrOp *from);
/* Those among them that are options of a collective: how it is carried out. */
void ir_attrs_copy_options(IrOp *to, const IrOp *from);
/* Whether two collectives have the same options. */
bool ir_attrs_equal_options(const IrOp *a, const IrOp *b);

/* ---- services ---------------------------------------------------------- */

/* Calls visit on every op of the block and the regions below, each op before
 * its regions; visit may remove or replace the op it is given. */
void ir_walk(IrBlock *b, void (*visit)(IrOp *op, void *data), void *data);
/* The same for op and the regions below it. */
void ir_walk_op(IrOp *op, void (*visit)(IrOp *op, void *data), void *data);
/* Whether an operation of b, at any depth, does more than give results: writes
 * a variable, prints, asserts, meets other replicas, takes an element. */
bool ir_has_effects(const IrBlock *b);

/* Notes after an error or warning: the chain of calls, innermost first, but for
 * the one at `shown`, which is where the message is (NO_LOC: all); a call that
 * calls itself is one. */
void ir_note_calls(Diag *d, const IrCall *calls, Loc shown);
/* loc, or where the program's own line calls the library that loc is in: a
 * message leads with the line that its reader may change. */
Loc ir_own_loc(const Diag *d, Loc loc, const IrCall *calls);
/* A note that a message, which is shown at own, is about loc in the library,
 * and which layer is called there. */
void ir_note_library(Diag *d, Loc loc, const IrCall *calls, Loc own);
/* An error at the own line of loc, with these notes; repair may be NULL. */
void ir_report(Diag *d, Loc loc, const IrCall *calls, const char *repair,
               const char *text);

void ir_count_uses(IrFunc *fn);
/* Notes that old is to be replaced by new; ir_apply_forwards then rewrites all
 * operands of fn in one sweep. */
void ir_forward(IrValue *old, IrValue *replacement);
void ir_apply_forwards(IrFunc *fn);
/* The replacement of v noted so far: v itself if there is none. */
IrValue *ir_forwarded(IrValue *v);
/* Rewrites the operands of op alone, for callers that read them before the
 * sweep. */
void ir_follow_forwards(IrOp *op);

/* Copies of ops with their regions, appended to `to`; `map` (a Map-like table
 * from old to new values) gives the replacements of values from outside, and
 * receives the copies.  Values it does not know stay as they are. */
typedef struct IrCloneMap IrCloneMap;
IrCloneMap *ir_clone_map(Arena *a);
void ir_clone_set(IrCloneMap *map, const IrValue *from, IrValue *to);
IrValue *ir_clone_get(const IrCloneMap *map, IrValue *from);
IrOp *ir_clone_op(IrCloneMap *map, const IrOp *op, IrBlock *to);
void ir_clone_body(IrCloneMap *map, const IrBlock *from, IrBlock *to);
IrModule *ir_clone_module(const IrModule *m, Arena *a);

/* The kind of context in which ops of b are executed.  A device program is
 * cross-replica context until communicate has run (PHASE_IR), replica context
 * afterwards. */
typedef enum IrContext { CX_CROSS, CX_REPLICA, CX_MERGE, CX_UPDATE } IrContext;
IrContext ir_context(const IrBlock *b);
/* The function or the run, merge or update operation that makes that context.
 */
IrOp *ir_context_op(const IrBlock *b);

/* The yield or return that ends b, or NULL while it has none. */
IrOp *ir_block_yield(const IrBlock *b);
/* fn's return: its operands are the results.  NULL while it has none. */
IrOp *ir_func_return(const IrFunc *fn);

/* The collectives of fn in the order of the text, including those in regions:
 * the order in which every device executes them.  An array of *count in a. */
IrOp **ir_collectives(const IrFunc *fn, Arena *a, int *count);

/* ---- in the middle of a block ------------------------------------------ */

/* An empty block that counts as being at the position of `where`. */
IrBlock *ir_block_scratch(const IrOp *where);
/* Moves all operations of the scratch block before (after) where. */
void ir_splice_before(IrOp *where, IrBlock *scratch);
void ir_splice_after(IrOp *where, IrBlock *scratch);

/* A reason in the module's arena; cause is a format. */
const IrReason *ir_reason(IrModule *m, const char *rule, Loc loc,
                          const char *cause, ...)
    __attribute__((format(printf, 4, 5)));
/* The reason of what is inserted for op: the line is ir_op_loc(op). */
const IrReason *ir_reason_for(const IrOp *op, const char *rule,
                              const char *cause, ...)
    __attribute__((format(printf, 3, 4)));
/* The source line of op: its own, or that of the operation around it. */
Loc ir_op_loc(const IrOp *op);
/* The reason of op, which is inlined for the same calls if it knows none. */
void ir_set_reason(IrOp *op, const IrReason *reason);
/* The same for every operation of b and its regions that has no reason. */
void ir_stamp(IrBlock *b, const IrReason *reason);
/* Those of b and its regions that know no calls are inlined for those of
 * `from`, which they replace or are made for. */
void ir_inherit_calls(IrBlock *b, const IrOp *from);

#endif
