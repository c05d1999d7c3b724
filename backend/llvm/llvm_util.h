/*
 * llvm_util.h - short wrappers of LLVM-C for code generation
 *
 * A BeUnit is one module in a context of its own, so that units are made by
 * different threads at once and their bytes do not depend on each other (D15).
 * Everything here belongs to the unit and is released with it.
 */
#ifndef TFD_BACKEND_LLVM_LLVM_UTIL_H
#define TFD_BACKEND_LLVM_LLVM_UTIL_H

#include <stdbool.h>
#include <stdint.h>
#include <llvm-c/Core.h>

typedef LLVMValueRef Val;
typedef LLVMTypeRef Type;
typedef LLVMBasicBlockRef Block;

enum { BE_MAX_CARRIED = 72 };

typedef struct BeUnit {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    Val func;    /* the function being built */
    Block entry; /* its first block: be_alloca adds to it */
    Type i1, i8, i16, i32, i64, f32, f64, ptr, nothing;
    bool named; /* values keep their given names: for readers of dumps */
} BeUnit;

/* name is the module's, for dumps. */
void be_unit_open(BeUnit *u, const char *name, bool named);
void be_unit_close(BeUnit *u);
/* NULL, or the message of LLVM's verifier; in memory for LLVMDisposeMessage. */
char *be_unit_verify(BeUnit *u);
/* The module's text, for LLVMDisposeMessage. */
char *be_unit_text(BeUnit *u);

/* Begins a function: its entry block is open, and code goes into a second
 * block, to which be_func_end makes the entry branch. */
Val be_func_begin(BeUnit *u, const char *name, Type result, const Type *params,
                  int num_params, bool exported);
void be_func_end(BeUnit *u);
/* A call of a function of TFD_ABI_CALLS without a result. */
void be_call_outside(BeUnit *u, const char *name, Val *args, int num);
/* Adds an attribute to the function or (index from 0) one of its parameters. */
void be_func_attr(BeUnit *u, const char *name);
void be_param_attr(BeUnit *u, int index, const char *name);
/* A pointer parameter is to a value that the caller passes by value. */
void be_param_by_value(BeUnit *u, int index, Type type, unsigned align);
void be_func_text_attr(BeUnit *u, const char *name, const char *value);

/* Names a value, if the unit's values have names. */
void be_name(const BeUnit *u, Val v, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Stack memory, allocated once a call, in the entry block.  Zero-sized requests
 * are allowed. */
Val be_alloca(BeUnit *u, Type type, uint64_t count, unsigned align,
              const char *name);

/* ---- types and constants ------------------------------------------------ */

/* lanes of 0 mean a scalar. */
Type be_vector(Type element, int lanes);
int be_lanes(Type type); /* 0 for a scalar */
Type be_element(Type type);
/* type with another element, same lanes. */
Type be_retype(Type type, Type element);

/* Constants of type, in every lane of a vector. */
Val be_int(Type type, int64_t x);
Val be_float(Type type, double x);
Val be_zero(Type type);
static inline Val
be_word(BeUnit *u, int64_t x)
{
    return LLVMConstInt(u->i64, (uint64_t)x, 1);
}
bool be_is_const(Val v, int64_t *x); /* a scalar integer constant */
/* 0, 1, 2, ... in the lanes of an integer vector type. */
Val be_lane_numbers(Type type);

/* ---- values ------------------------------------------------------------- */

/* 0 + y is y, and 1 * y is y: no later pass cleans up. */
Val be_add(BeUnit *u, Val x, Val y);
Val be_mul(BeUnit *u, Val x, Val y);
static inline Val
be_sub(BeUnit *u, Val x, Val y)
{
    return LLVMBuildSub(u->builder, x, y, "");
}
/* Whether x is a constant i1, or a vector with the same one in all lanes. */
bool be_is_const_bool(Val x, bool *value);
/* A constant i1 is folded: no later pass does so. */
static inline Val
be_and(BeUnit *u, Val x, Val y)
{
    bool known;
    if (be_is_const_bool(x, &known))
        return known ? y : x;
    if (be_is_const_bool(y, &known))
        return known ? x : y;
    return LLVMBuildAnd(u->builder, x, y, "");
}
static inline Val
be_or(BeUnit *u, Val x, Val y)
{
    return LLVMBuildOr(u->builder, x, y, "");
}
static inline Val
be_select(BeUnit *u, Val c, Val x, Val y)
{
    bool known;
    if (be_is_const_bool(c, &known))
        return known ? x : y;
    return LLVMBuildSelect(u->builder, c, x, y, "");
}
/* Whether all lanes of a condition are true; itself, of a scalar. */
Val be_all_lanes(BeUnit *u, Val condition);
static inline Val
be_icmp(BeUnit *u, LLVMIntPredicate p, Val x, Val y)
{
    return LLVMBuildICmp(u->builder, p, x, y, "");
}
static inline Val
be_fcmp(BeUnit *u, LLVMRealPredicate p, Val x, Val y)
{
    return LLVMBuildFCmp(u->builder, p, x, y, "");
}

/* The lesser of two signed words. */
Val be_min(BeUnit *u, Val x, Val y);
Val be_max(BeUnit *u, Val x, Val y);

/* x in every lane. */
Val be_splat(BeUnit *u, Val x, int lanes);
/* lanes first .. first + count of v. */
Val be_extract(BeUnit *u, Val v, int first, int count);
/* The elements of v of those numbers, up to 64. */
Val be_permute(BeUnit *u, Val v, const int *from, int num);

/* num vectors of the same length, a power of two of them, one after the other.
 */
Val be_concatenate(BeUnit *u, const Val *x, int num);
/* Transposes the squares of num rows, a power of two up to 64, with num
 * elements that stand side by side in rows; those of more than 16 bytes stand
 * alone. */
void be_transpose(BeUnit *u, Val *rows, int num);

/* A call of the intrinsic of this name, overloaded on the given types. */
Val be_intrinsic(BeUnit *u, const char *name, const Type *overloads,
                 int num_overloads, const Val *args, int num_args);
/* ... on the type of its arguments. */
/* Prefetches the cache line at p, which need not be valid, for reading (or, if
 * requested, writing). */
void be_prefetch(BeUnit *u, Val p, bool to_write);
Val be_intrinsic1(BeUnit *u, const char *name, Val x);
Val be_intrinsic2(BeUnit *u, const char *name, Val x, Val y);
Val be_intrinsic3(BeUnit *u, const char *name, Val x, Val y, Val z);

/* ---- memory ------------------------------------------------------------- */

Val be_offset(BeUnit *u, Val p, Val bytes);
Val be_offset_const(BeUnit *u, Val p, int64_t bytes);
Val be_load(BeUnit *u, Type type, Val p, unsigned align);
void be_store(BeUnit *u, Val v, Val p, unsigned align);
/* A load and a store of only the lanes where mask holds; other lanes of a load
 * are 0. */
Val be_load_masked(BeUnit *u, Type type, Val p, unsigned align, Val mask);
void be_store_masked(BeUnit *u, Val v, Val p, unsigned align, Val mask);

/* ---- control ------------------------------------------------------------ */

Block be_block(BeUnit *u, const char *name);
void be_br(BeUnit *u, Block to);
void be_cond_br(BeUnit *u, Val condition, Block yes, Block no);
/* The code of the rare block is placed out of line. */
void be_cond_br_likely(BeUnit *u, Val condition, Block likely, Block rare);
static inline void
be_position_at_end(BeUnit *u, Block b)
{
    LLVMPositionBuilderAtEnd(u->builder, b);
}
static inline Block
be_insert_block(BeUnit *u)
{
    return LLVMGetInsertBlock(u->builder);
}

/* for (index = begin; index < end; index += step), with values carried from
 * one round to the next in registers:
 *
 *   BeLoop l;
 *   be_loop_begin(u, &l, begin, end, step, "i");
 *   Val sum = be_loop_carry(u, &l, zero);       (before anything else)
 *   be_loop_body(u, &l);
 *   ... l.index ...
 *   be_loop_next(&l, 0, be_add(u, sum, x));
 *   be_loop_end(u, &l);
 *   ... be_loop_result(&l, 0) ...
 *
 * The round is not entered when begin >= end (signed). */
typedef struct BeLoop {
    Val index, end, step;
    Block head, exit;
    int num_carried;
    Val carried[BE_MAX_CARRIED]; /* as the round sees them; after the end, too
                                  */
    Val next[BE_MAX_CARRIED];
} BeLoop;

void be_loop_begin(BeUnit *u, BeLoop *l, Val begin, Val end, Val step,
                   const char *name);
Val be_loop_carry(BeUnit *u, BeLoop *l, Val init);
void be_loop_body(BeUnit *u, BeLoop *l);
void be_loop_next(BeLoop *l, int carried, Val value);
void be_loop_end(BeUnit *u, BeLoop *l);
static inline Val
be_loop_result(const BeLoop *l, int carried)
{
    return l->carried[carried];
}

#endif
