/*
 * llvm_util.c - short wrappers of LLVM-C for code generation
 *
 * The only file that depends on the version of LLVM.  No fast-math flag is set
 * anywhere (D3), and no `nsw` on the program's integers: they wrap.
 */
#include "backend/llvm/llvm_util.h"

#include <assert.h>
#include <llvm-c/Analysis.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "ir/base/status.h"

/* ---- units and functions ------------------------------------------------ */

void
be_unit_open(BeUnit *u, const char *name, bool named)
{
    memset(u, 0, sizeof *u);
    LLVMContextRef cx = LLVMContextCreate();
    LLVMContextSetDiscardValueNames(cx, !named);
    u->context = cx;
    u->named = named;
    u->module = LLVMModuleCreateWithNameInContext(name, cx);
    u->builder = LLVMCreateBuilderInContext(cx);
    u->i1 = LLVMInt1TypeInContext(cx);
    u->i8 = LLVMInt8TypeInContext(cx);
    u->i16 = LLVMInt16TypeInContext(cx);
    u->i32 = LLVMInt32TypeInContext(cx);
    u->i64 = LLVMInt64TypeInContext(cx);
    u->f32 = LLVMFloatTypeInContext(cx);
    u->f64 = LLVMDoubleTypeInContext(cx);
    u->ptr = LLVMPointerTypeInContext(cx, 0);
    u->nothing = LLVMVoidTypeInContext(cx);
}

void
be_unit_close(BeUnit *u)
{
    LLVMDisposeBuilder(u->builder);
    LLVMDisposeModule(u->module);
    LLVMContextDispose(u->context);
}

char *
be_unit_verify(BeUnit *u)
{
    char *message = NULL;
    if (LLVMVerifyModule(u->module, LLVMReturnStatusAction, &message))
        return message;
    LLVMDisposeMessage(message);
    return NULL;
}

char *
be_unit_text(BeUnit *u)
{
    return LLVMPrintModuleToString(u->module);
}

Val
be_func_begin(BeUnit *u, const char *name, Type result, const Type *params,
              int num_params, bool exported)
{
    Type type = LLVMFunctionType(result, (Type *)(uintptr_t)params,
                                 (unsigned)num_params, 0);
    u->func = LLVMAddFunction(u->module, name, type);
    if (!exported)
        LLVMSetLinkage(u->func, LLVMInternalLinkage);
    be_func_attr(u, "nounwind");
    u->entry = be_block(u, "entry");
    be_position_at_end(u, be_block(u, "body"));
    return u->func;
}

void
be_func_end(BeUnit *u)
{
    Block body = LLVMGetNextBasicBlock(u->entry);
    be_position_at_end(u, u->entry);
    be_br(u, body);
}

void
be_call_outside(BeUnit *u, const char *name, Val *args, int num)
{
    enum { MOST = 8 };
    Type params[MOST];
    assert(num <= MOST);
    for (int i = 0; i < num; i++)
        params[i] = LLVMTypeOf(args[i]);
    Type type = LLVMFunctionType(u->nothing, params, (unsigned)num, 0);
    Val fn = LLVMGetNamedFunction(u->module, name);
    if (!fn)
        fn = LLVMAddFunction(u->module, name, type);
    LLVMBuildCall2(u->builder, type, fn, args, (unsigned)num, "");
}

/* Kind 0 would be a valid call that adds no attribute. */
static unsigned
attribute_kind(const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    if (!kind)
        UNREACHABLE("this LLVM has no attribute %s", name);
    return kind;
}

static LLVMAttributeRef
attribute(BeUnit *u, const char *name)
{
    return LLVMCreateEnumAttribute(u->context, attribute_kind(name), 0);
}

void
be_func_attr(BeUnit *u, const char *name)
{
    LLVMAddAttributeAtIndex(u->func,
                            (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            attribute(u, name));
}

void
be_param_attr(BeUnit *u, int index, const char *name)
{
    LLVMAddAttributeAtIndex(u->func, (LLVMAttributeIndex)(index + 1),
                            attribute(u, name));
}

void
be_param_by_value(BeUnit *u, int index, Type type, unsigned align)
{
    unsigned at = (unsigned)index + 1;
    unsigned kind = attribute_kind("byval");
    LLVMAddAttributeAtIndex(u->func, at,
                            LLVMCreateTypeAttribute(u->context, kind, type));
    kind = attribute_kind("align");
    LLVMAddAttributeAtIndex(u->func, at,
                            LLVMCreateEnumAttribute(u->context, kind, align));
}

void
be_func_text_attr(BeUnit *u, const char *name, const char *value)
{
    LLVMAttributeRef a =
        LLVMCreateStringAttribute(u->context, name, (unsigned)strlen(name),
                                  value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(u->func,
                            (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

void
be_name(const BeUnit *u, Val v, const char *format, ...)
{
    char name[128];
    if (!u->named)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    LLVMSetValueName2(v, name, strlen(name));
}

bool
be_is_const_bool(Val x, bool *value)
{
    Type type = LLVMTypeOf(x);
    Type element = be_element(type);
    if (LLVMGetTypeKind(element) != LLVMIntegerTypeKind ||
        LLVMGetIntTypeWidth(element) != 1 || !LLVMIsConstant(x))
        return false;
    *value = x == LLVMConstAllOnes(type);
    return *value || LLVMIsNull(x);
}

Val
be_alloca(BeUnit *u, Type type, uint64_t count, unsigned align,
          const char *name)
{
    Block here = be_insert_block(u);
    be_position_at_end(u, u->entry);
    Val p = LLVMBuildArrayAlloca(
        u->builder, type, be_word(u, (int64_t)(count ? count : 1)), name);
    LLVMSetAlignment(p, align);
    be_position_at_end(u, here);
    return p;
}

/* ---- types and constants ------------------------------------------------ */

Type
be_vector(Type element, int lanes)
{
    return lanes ? LLVMVectorType(element, (unsigned)lanes) : element;
}

int
be_lanes(Type type)
{
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind)
        return 0;
    return (int)LLVMGetVectorSize(type);
}

Type
be_element(Type type)
{
    return be_lanes(type) ? LLVMGetElementType(type) : type;
}

Type
be_retype(Type type, Type element)
{
    return be_vector(element, be_lanes(type));
}

static Val
const_splat(Type type, Val x)
{
    int lanes = be_lanes(type);
    if (!lanes)
        return x;
    Val all[256];
    for (int i = 0; i < lanes; i++)
        all[i] = x;
    return LLVMConstVector(all, (unsigned)lanes);
}

Val
be_int(Type type, int64_t x)
{
    return const_splat(type, LLVMConstInt(be_element(type), (uint64_t)x, 1));
}

Val
be_float(Type type, double x)
{
    return const_splat(type, LLVMConstReal(be_element(type), x));
}

Val
be_zero(Type type)
{
    return LLVMConstNull(type);
}

bool
be_is_const(Val v, int64_t *x)
{
    if (!LLVMIsAConstantInt(v))
        return false;
    *x = LLVMConstIntGetSExtValue(v);
    return true;
}

Val
be_lane_numbers(Type type)
{
    int lanes = be_lanes(type);
    if (!lanes)
        return be_zero(type);
    Val all[256];
    for (int i = 0; i < lanes; i++)
        all[i] = LLVMConstInt(be_element(type), (uint64_t)i, 0);
    return LLVMConstVector(all, (unsigned)lanes);
}

/* ---- values ------------------------------------------------------------- */

static Val
shuffle(BeUnit *u, Val x, Val y, int first, int count)
{
    Val mask[256];
    for (int i = 0; i < count; i++)
        mask[i] = LLVMConstInt(u->i32, (uint64_t)(first + i), 0);
    return LLVMBuildShuffleVector(u->builder, x, y,
                                  LLVMConstVector(mask, (unsigned)count), "");
}

static bool
is_word(Val v, int64_t wanted)
{
    int64_t known;
    return be_is_const(v, &known) && known == wanted;
}

Val
be_add(BeUnit *u, Val x, Val y)
{
    if (is_word(x, 0))
        return y;
    return is_word(y, 0) ? x : LLVMBuildAdd(u->builder, x, y, "");
}

Val
be_mul(BeUnit *u, Val x, Val y)
{
    if (is_word(x, 1))
        return y;
    return is_word(y, 1) ? x : LLVMBuildMul(u->builder, x, y, "");
}

Val
be_min(BeUnit *u, Val x, Val y)
{
    return be_select(u, be_icmp(u, LLVMIntSLT, x, y), x, y);
}

Val
be_max(BeUnit *u, Val x, Val y)
{
    return be_select(u, be_icmp(u, LLVMIntSGT, x, y), x, y);
}

Val
be_splat(BeUnit *u, Val x, int lanes)
{
    if (!lanes)
        return x;
    Type type = be_vector(LLVMTypeOf(x), lanes);
    if (LLVMIsConstant(x))
        return const_splat(type, x);
    Val one = LLVMBuildInsertElement(u->builder, LLVMGetUndef(type), x,
                                     LLVMConstInt(u->i32, 0, 0), "");
    Val mask = LLVMConstNull(be_vector(u->i32, lanes));
    return LLVMBuildShuffleVector(u->builder, one, LLVMGetUndef(type), mask,
                                  "");
}

Val
be_extract(BeUnit *u, Val v, int first, int count)
{
    if (!count)
        return LLVMBuildExtractElement(
            u->builder, v, LLVMConstInt(u->i32, (uint64_t)first, 0), "");
    return shuffle(u, v, LLVMGetUndef(LLVMTypeOf(v)), first, count);
}

Val
be_all_lanes(BeUnit *u, Val condition)
{
    int lanes = be_lanes(LLVMTypeOf(condition));
    if (!lanes)
        return condition;
    Type bits = LLVMIntTypeInContext(u->context, (unsigned)lanes);
    Val word = LLVMBuildBitCast(u->builder, condition, bits, "");
    return be_icmp(u, LLVMIntEQ, word, LLVMConstAllOnes(bits));
}

/* ---- transposition ------------------------------------------------------
 *
 * Machines shuffle two vectors by one instruction, without a table, where
 * elements stay in their part of 128 bits, or whole parts move.  So squares are
 * transposed within parts first, and then, where they are larger, by parts.
 */

enum { MAX_LANES = 64, PART_BYTES = 16 };

static int
bytes_of(const BeUnit *u, Type t)
{
    return t == u->f64 || t == u->i64   ? 8
           : t == u->f32 || t == u->i32 ? 4
           : t == u->i8                 ? 1
                                        : 2;
}

static Val
shuffled(BeUnit *u, Val x, Val y, const int *from, int num)
{
    Val mask[MAX_LANES];
    for (int i = 0; i < num; i++)
        mask[i] = LLVMConstInt(u->i32, (uint64_t)from[i], 0);
    return LLVMBuildShuffleVector(u->builder, x, y,
                                  LLVMConstVector(mask, (unsigned)num), "");
}

Val
be_permute(BeUnit *u, Val v, const int *from, int num)
{
    return shuffled(u, v, LLVMGetUndef(LLVMTypeOf(v)), from, num);
}

Val
be_concatenate(BeUnit *u, const Val *x, int num)
{
    int all[MAX_LANES];
    if (num == 1)
        return x[0];
    Val low = be_concatenate(u, x, num / 2);
    Val high = be_concatenate(u, x + num / 2, num / 2);
    int lanes = 2 * be_lanes(LLVMTypeOf(low));
    for (int i = 0; i < lanes; i++)
        all[i] = i;
    return shuffled(u, low, high, all, lanes);
}

/* The elements of x and y in turns, of the first (high: second) halves of their
 * parts of num elements. */
static Val
interleaved(BeUnit *u, Val x, Val y, int num, int high)
{
    int from[MAX_LANES], lanes = be_lanes(LLVMTypeOf(x));
    for (int i = 0; i < lanes; i++)
        from[i] = i / num * num + high * num / 2 + i % num / 2 + i % 2 * lanes;
    return shuffled(u, x, y, from, lanes);
}

/* Transposes the squares of num elements that stand side by side in num rows:
 * each step is a perfect shuffle of the rows. */
static void
transpose_in_parts(BeUnit *u, Val *rows, int num)
{
    Val next[MAX_LANES];
    for (int done = 1; done < num; done *= 2) {
        for (int i = 0; i < num; i++)
            next[i] =
                interleaved(u, rows[i / 2], rows[i / 2 + num / 2], num, i % 2);
        memcpy(rows, next, (size_t)num * sizeof *rows);
    }
}

/* Parts first, first + step, ... of x, and as many of y: half of each. */
static Val
halves(BeUnit *u, Val x, Val y, int part, int first, int step)
{
    int from[MAX_LANES], lanes = be_lanes(LLVMTypeOf(x));
    for (int i = 0; i < lanes / 2; i++) {
        from[i] = (first + i / part * step) * part + i % part;
        from[lanes / 2 + i] = lanes + from[i];
    }
    return shuffled(u, x, y, from, lanes);
}

/* The parts of x and y that a step of a transposition by parts puts into the
 * first (high: second) of two rows. */
static Val
exchanged(BeUnit *u, Val x, Val y, int distance, int high)
{
    int from[MAX_LANES], lanes = be_lanes(LLVMTypeOf(x));
    for (int i = 0; i < lanes; i++)
        from[i] = (i & distance ? lanes - distance : 0) + i + high * distance;
    return shuffled(u, x, y, from, lanes);
}

/* Transposes num rows of as many parts. */
static void
transpose_parts(BeUnit *u, Val *rows, int num, int part)
{
    for (int distance = num / 2; distance; distance /= 2) {
        for (int i = 0; i < num; i++) {
            if (i & distance)
                continue;
            Val x = rows[i], y = rows[i + distance];
            rows[i] = exchanged(u, x, y, distance * part, 0);
            rows[i + distance] = exchanged(u, x, y, distance * part, 1);
        }
    }
}

/* Four of them: a machine takes two parts of one row, then two of another. */
static void
transpose_four_parts(BeUnit *u, Val *rows, int part)
{
    Val low[2], high[2];
    for (int i = 0; i < 2; i++) {
        low[i] = halves(u, rows[2 * i], rows[2 * i + 1], part, 0, 1);
        high[i] = halves(u, rows[2 * i], rows[2 * i + 1], part, 2, 1);
    }
    for (int i = 0; i < 2; i++) {
        rows[i] = halves(u, low[0], low[1], part, i, 2);
        rows[2 + i] = halves(u, high[0], high[1], part, i, 2);
    }
}

void
be_transpose(BeUnit *u, Val *rows, int num)
{
    Type type = LLVMTypeOf(rows[0]);
    int part = PART_BYTES / bytes_of(u, be_element(type));
    if (num <= part) {
        transpose_in_parts(u, rows, num);
        return;
    }
    assert(num == be_lanes(type) && (num & (num - 1)) == 0);
    int parts = num / part;
    for (int i = 0; i < num; i += part)
        transpose_in_parts(u, rows + i, part);
    for (int i = 0; i < part; i++) {
        Val same[MAX_LANES];
        for (int j = 0; j < parts; j++)
            same[j] = rows[j * part + i];
        if (parts == 4)
            transpose_four_parts(u, same, part);
        else
            transpose_parts(u, same, parts, part);
        for (int j = 0; j < parts; j++)
            rows[j * part + i] = same[j];
    }
}

Val
be_intrinsic(BeUnit *u, const char *name, const Type *overloads,
             int num_overloads, const Val *args, int num_args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id)
        UNREACHABLE("this LLVM has no %s", name);
    Type *over = (Type *)(uintptr_t)overloads;
    Val fn =
        LLVMGetIntrinsicDeclaration(u->module, id, over, (size_t)num_overloads);
    Type type =
        LLVMIntrinsicGetType(u->context, id, over, (size_t)num_overloads);
    return LLVMBuildCall2(u->builder, type, fn, (Val *)(uintptr_t)args,
                          (unsigned)num_args, "");
}

void
be_prefetch(BeUnit *u, Val p, bool to_write)
{
    enum { KEEP = 3, DATA = 1 };
    Val args[] = {p, LLVMConstInt(u->i32, to_write, 0),
                  LLVMConstInt(u->i32, KEEP, 0), LLVMConstInt(u->i32, DATA, 0)};
    be_intrinsic(u, "llvm.prefetch", &u->ptr, 1, args, 4);
}

Val
be_intrinsic1(BeUnit *u, const char *name, Val x)
{
    Type type = LLVMTypeOf(x);
    return be_intrinsic(u, name, &type, 1, &x, 1);
}

Val
be_intrinsic2(BeUnit *u, const char *name, Val x, Val y)
{
    Type type = LLVMTypeOf(x);
    Val args[] = {x, y};
    return be_intrinsic(u, name, &type, 1, args, 2);
}

Val
be_intrinsic3(BeUnit *u, const char *name, Val x, Val y, Val z)
{
    Type type = LLVMTypeOf(x);
    Val args[] = {x, y, z};
    return be_intrinsic(u, name, &type, 1, args, 3);
}

/* ---- memory ------------------------------------------------------------- */

Val
be_offset(BeUnit *u, Val p, Val bytes)
{
    return LLVMBuildInBoundsGEP2(u->builder, u->i8, p, &bytes, 1, "");
}

Val
be_offset_const(BeUnit *u, Val p, int64_t bytes)
{
    return bytes ? be_offset(u, p, be_word(u, bytes)) : p;
}

Val
be_load(BeUnit *u, Type type, Val p, unsigned align)
{
    Val v = LLVMBuildLoad2(u->builder, type, p, "");
    LLVMSetAlignment(v, align);
    return v;
}

void
be_store(BeUnit *u, Val v, Val p, unsigned align)
{
    LLVMSetAlignment(LLVMBuildStore(u->builder, v, p), align);
}

Val
be_load_masked(BeUnit *u, Type type, Val p, unsigned align, Val mask)
{
    Type over[] = {type, u->ptr};
    Val args[] = {p, LLVMConstInt(u->i32, align, 0), mask, be_zero(type)};
    return be_intrinsic(u, "llvm.masked.load", over, 2, args, 4);
}

void
be_store_masked(BeUnit *u, Val v, Val p, unsigned align, Val mask)
{
    Type over[] = {LLVMTypeOf(v), u->ptr};
    Val args[] = {v, p, LLVMConstInt(u->i32, align, 0), mask};
    be_intrinsic(u, "llvm.masked.store", over, 2, args, 4);
}

/* ---- control ------------------------------------------------------------ */

Block
be_block(BeUnit *u, const char *name)
{
    return LLVMAppendBasicBlockInContext(u->context, u->func, name);
}

void
be_br(BeUnit *u, Block to)
{
    LLVMBuildBr(u->builder, to);
}

void
be_cond_br(BeUnit *u, Val condition, Block yes, Block no)
{
    LLVMBuildCondBr(u->builder, condition, yes, no);
}

void
be_cond_br_likely(BeUnit *u, Val condition, Block likely, Block rare)
{
    Val branch = LLVMBuildCondBr(u->builder, condition, likely, rare);
    Val weights[] = {LLVMMDStringInContext(u->context, "branch_weights", 14),
                     LLVMConstInt(u->i32, 2000, false),
                     LLVMConstInt(u->i32, 1, false)};
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(u->context, "prof", 4),
                    LLVMMDNodeInContext(u->context, weights, 3));
}

static Val
phi(BeUnit *u, Val init, Block from, const char *name)
{
    Val v = LLVMBuildPhi(u->builder, LLVMTypeOf(init), name);
    LLVMAddIncoming(v, &init, &from, 1);
    return v;
}

void
be_loop_begin(BeUnit *u, BeLoop *l, Val begin, Val end, Val step,
              const char *name)
{
    Block before = be_insert_block(u);
    *l = (BeLoop){.end = end, .step = step};
    l->head = be_block(u, "loop");
    be_br(u, l->head);
    be_position_at_end(u, l->head);
    l->index = phi(u, begin, before, name);
}

Val
be_loop_carry(BeUnit *u, BeLoop *l, Val init)
{
    assert(l->num_carried < BE_MAX_CARRIED);
    Block before = LLVMGetIncomingBlock(l->index, 0);
    return l->carried[l->num_carried++] = phi(u, init, before, "");
}

void
be_loop_body(BeUnit *u, BeLoop *l)
{
    Block body = be_block(u, "round");
    l->exit = be_block(u, "done");
    be_cond_br(u, be_icmp(u, LLVMIntSLT, l->index, l->end), body, l->exit);
    be_position_at_end(u, body);
}

void
be_loop_next(BeLoop *l, int carried, Val value)
{
    assert(carried >= 0 && carried < l->num_carried && value);
    l->next[carried] = value;
}

void
be_loop_end(BeUnit *u, BeLoop *l)
{
    assert(l->step);
    Block last = be_insert_block(u);
    Val next = be_add(u, l->index, l->step);
    LLVMAddIncoming(l->index, &next, &last, 1);
    for (int i = 0; i < l->num_carried; i++)
        LLVMAddIncoming(l->carried[i], &l->next[i], &last, 1);
    be_br(u, l->head);
    be_position_at_end(u, l->exit);
}
