/*
 * shape_test.c - the result or the message of every rule of the table
 *
 * Each row is an operation on parameters of a device program, and the type of
 * its result or its message.  The result is written with a type that no
 * operation has, so that the reader's message names the right one.
 */
#include "tests/unit/unit.h"

#include "ir/ir.h"
#include "ir/text/text.h"

typedef struct Row {
    const char *params, *op, *want;
} Row;

/* clang-format off */
static const Row rows[] = {
    /* same */
    {"%x: f32[0, 7] mirrored", "neg %x", "f32[0, 7] mirrored"},
    {"%x: f32[n, 1] per_replica", "neg %x", "f32[n, 1] per_replica"},
    {"%x: f32[7, 2*n+1] per_replica", "reverse %x {axes=[1]}", "f32[7, 2*n+1] per_replica"},
    {"%x: f32[7] mirrored", "reverse %x {axes=[1]}", "axis 1 is out of range for a value of rank 1"},
    {"%x: f32 mirrored", "reverse %x {axes=[]}", "f32 mirrored"},
    /* broadcast */
    {"%x: f32 mirrored, %y: f32 per_replica", "add %x, %y", "f32 per_replica"},
    {"%x: f32[0] mirrored, %y: f32[1] mirrored", "add %x, %y", "f32[0] mirrored"},
    {"%x: f32[1] mirrored, %y: f32[n] per_replica", "add %x, %y", "f32[n] per_replica"},
    {"%x: f32[7, 1] mirrored, %y: f32[1, n] per_replica", "mul %x, %y", "f32[7, n] per_replica"},
    {"%x: f32[7] mirrored, %y: f32[1, 1, 1] mirrored", "sub %x, %y", "f32[1, 1, 7] mirrored"},
    {"%x: f32[n] per_replica, %y: f32[N] mirrored", "add %x, %y", "shapes [n] and [N] do not broadcast"},
    {"%x: f32[n] per_replica, %y: f32[7] mirrored", "add %x, %y", "shapes [n] and [7] do not broadcast"},
    {"%x: f32[0] mirrored, %y: f32[7] mirrored", "add %x, %y", "shapes [0] and [7] do not broadcast"},
    {"%c: bool[7, 1] mirrored, %x: i8[3] mirrored, %y: i8 mirrored", "where %c, %x, %y", "i8[7, 3] mirrored"},
    {"%x: f16[2, 1, 1] mirrored, %y: f16[3, 1] mirrored, %z: f16[4] mirrored", "fma %x, %y, %z", "f16[2, 3, 4] mirrored"},
    /* expand */
    {"%x: f32 mirrored", "broadcast %x {dims=[]}", "f32 mirrored"},
    {"%x: f32 mirrored", "broadcast %x {dims=[0, n]}", "f32[0, n] per_replica"},
    {"%x: f32[1, 7] mirrored", "broadcast %x {dims=[3, 5, 7]}", "f32[3, 5, 7] mirrored"},
    {"%x: f32[7] mirrored", "broadcast %x {dims=[1]}", "a value of shape [7] does not broadcast to [1]"},
    {"%x: f32[1, 7] mirrored", "broadcast %x {dims=[7]}", "a value of shape [1, 7] does not broadcast to [7]"},
    /* reduce */
    {"%x: f32 mirrored", "sum %x {axes=[]}", "f32 mirrored"},
    {"%x: f32[0] mirrored", "sum %x {axes=[0]}", "f32 mirrored"},
    {"%x: f32[n, 7, 1] per_replica", "sum %x {axes=[0, 2]}", "f32[7] per_replica"},
    {"%x: f32[n, 7, 1] per_replica", "sum %x {axes=[0, 1] keepdims=true}", "f32[1, 1, 1] per_replica"},
    {"%x: f32[7] mirrored", "sum %x {axes=[-1]}", "axis -1 is out of range for a value of rank 1"},
    {"%x: f32 mirrored", "sum %x {axes=[0]}", "axis 0 is out of range for a value of rank 0"},
    {"%x: u8[n, 7] per_replica", "argmax %x {axes=[0]}", "i64[7] per_replica"},
    {"%x: u8[n, 7] per_replica", "argmin %x {axes=[]}", "argmin takes one axis, not 0"},
    {"%x: bool[0, 7] mirrored", "any %x {axes=[0]}", "bool[7] mirrored"},
    /* dot */
    {"%x: f32[7] mirrored, %y: f32[7] mirrored", "dot %x, %y {contract_x=[0] contract_y=[0]}", "f32 mirrored"},
    {"%x: bf16[7] mirrored, %y: bf16[7] mirrored", "dot %x, %y {contract_x=[0] contract_y=[0] dtype=f32}", "f32 mirrored"},
    {"%x: f64[7] mirrored, %y: f64[7] mirrored", "dot %x, %y {contract_x=[0] contract_y=[0] dtype=f32}", "products of f64 are not added as f32"},
    {"%x: f32[n, 0] per_replica, %y: f32[0, 7] mirrored", "dot %x, %y {contract_x=[1] contract_y=[0]}", "f32[n, 7] per_replica"},
    {"%x: f32[n, 7] per_replica, %y: f32[n, 1] per_replica", "dot %x, %y {contract_x=[0] contract_y=[0]}", "f32[7, 1] per_replica"},
    {"%x: f32[n, 7] per_replica, %y: f32[n, 7] per_replica", "dot %x, %y {contract_x=[1] contract_y=[1] batch_x=[0] batch_y=[0]}", "f32[n] per_replica"},
    {"%x: f32[3, 7] mirrored, %y: f32[7, 3] mirrored", "dot %x, %y {contract_x=[0, 1] contract_y=[1]}", "contract_x and contract_y of dot have 2 and 1 axes"},
    {"%x: f32[3, 7] mirrored, %y: f32[3, 7] mirrored", "dot %x, %y {contract_x=[0] contract_y=[0] batch_x=[0] batch_y=[1]}", "do not multiply"},
    {"%x: f32[3, 3] mirrored, %y: f32[3, 3] mirrored", "dot %x, %y {contract_x=[0] contract_y=[0] batch_x=[0] batch_y=[1]}", "an axis of dot is in contract and in batch"},
    {"%x: f32[1, 1, 1, 1, 1] mirrored, %y: f32[1, 1, 1, 1] mirrored", "dot %x, %y {contract_x=[] contract_y=[]}", "a value has at most 8 axes"},
    {"%x: f32[7] mirrored, %y: f16[7] mirrored", "dot %x, %y {contract_x=[0] contract_y=[0]}", "cannot multiply f32 and f16"},
    /* reshape, transpose */
    {"%x: f32[1] mirrored", "reshape %x {dims=[]}", "f32 mirrored"},
    {"%x: f32[0, 7] mirrored", "reshape %x {dims=[3, 0]}", "f32[3, 0] mirrored"},
    {"%x: f32[n, 6] per_replica", "reshape %x {dims=[3, 2*n]}", "f32[3, 2*n] per_replica"},
    {"%x: f32[n+1, 2] per_replica", "reshape %x {dims=[2*n+2]}", "f32[2*n+2] per_replica"},
    {"%x: f32[n, n] per_replica", "reshape %x {dims=[n, n]}", "f32[n, n] per_replica"},
    {"%x: f32[n, N] per_replica", "reshape %x {dims=[N, n]}", "another number of elements"},
    {"%x: f32[7] mirrored", "reshape %x {dims=[7, 0]}", "cannot reshape [7] to [7, 0]"},
    {"%x: f32[n, 0, 7] per_replica", "transpose %x {perm=[2, 0, 1]}", "f32[7, n, 0] per_replica"},
    {"%x: f32 mirrored", "transpose %x {perm=[]}", "f32 mirrored"},
    {"%x: f32[2, 3] mirrored", "transpose %x {perm=[0]}", "transpose of a value of rank 2 names 1 axes"},
    {"%x: f32[2, 3] mirrored", "transpose %x {perm=[1, 1]}", "axis 1 is given twice"},
    /* slice */
    {"%x: f32[7] mirrored", "slice %x {start=[6] dims=[1] step=[1]}", "f32[1] mirrored"},
    {"%x: f32[7] mirrored", "slice %x {start=[7] dims=[1] step=[1]}", "leaves axis 0 of [7]"},
    {"%x: f32[7] mirrored", "slice %x {start=[7] dims=[0] step=[1]}", "f32[0] mirrored"},
    {"%x: f32[0] mirrored", "slice %x {start=[0] dims=[0] step=[1]}", "f32[0] mirrored"},
    {"%x: f32[0] mirrored", "slice %x {start=[0] dims=[1] step=[1]}", "leaves axis 0 of [0]"},
    {"%x: f32[7] mirrored", "slice %x {start=[6] dims=[4] step=[-2]}", "f32[4] mirrored"},
    {"%x: f32[7] mirrored", "slice %x {start=[5] dims=[4] step=[-2]}", "leaves axis 0 of [7]"},
    {"%x: f32[7] mirrored", "slice %x {start=[0] dims=[1] step=[0]}", "a slice has a step of 0"},
    {"%x: f32[7] mirrored", "slice %x {start=[0] dims=[2] step=[9223372036854775807]}", "leaves axis 0 of [7]"},
    {"%x: f32[n] per_replica", "slice %x {start=[0] dims=[n] step=[1]}", "f32[n] per_replica"},
    {"%x: f32[n+1] per_replica", "slice %x {start=[1] dims=[n] step=[1]}", "f32[n] per_replica"},
    {"%x: f32[2*n] per_replica", "slice %x {start=[1] dims=[n] step=[2]}", "f32[n] per_replica"},
    {"%x: f32[2*n] per_replica", "slice %x {start=[2] dims=[n] step=[2]}", "leaves axis 0 of [2*n]"},
    {"%x: f32[n] per_replica", "slice %x {start=[0] dims=[1] step=[1]}", "leaves axis 0 of [n]"},
    {"%x: f32[n+2] per_replica", "slice %x {start=[0] dims=[2] step=[1]}", "f32[2] per_replica"},
    {"%x: f32[7] mirrored", "slice %x {start=[0] dims=[n] step=[1]}", "f32[n] per_replica"},
    {"%x: f32[3] mirrored", "slice %x {start=[0] dims=[n] step=[1]}", "leaves axis 0 of [3]"},
    {"%x: f32[n] per_replica", "slice %x {start=[0] dims=[N] step=[1]}", "leaves axis 0 of [n]"},
    {"%x: f32[2, 3] mirrored", "slice %x {start=[0] dims=[2] step=[1]}", "slice of a value of rank 2 names 1 axes"},
    /* pad */
    {"%x: f32[0] mirrored", "pad %x {low=[3] dims=[7] step=[1]}", "f32[7] mirrored"},
    {"%x: f32[3] mirrored", "pad %x {low=[1] dims=[6] step=[2]}", "f32[6] mirrored"},
    {"%x: f32[3] mirrored", "pad %x {low=[1] dims=[5] step=[2]}", "with padding does not fit axis 0 of [5]"},
    {"%x: f32[n] per_replica", "pad %x {low=[0] dims=[2*n] step=[2]}", "f32[2*n] per_replica"},
    {"%x: f32[n] per_replica", "pad %x {low=[1] dims=[n] step=[1]}", "with padding does not fit axis 0 of [n]"},
    {"%x: f32[1] mirrored", "pad %x {low=[-1] dims=[3] step=[1]}", "pad has low from 0 and steps from 1"},
    {"%x: f32[1] mirrored", "pad %x {low=[0] dims=[3] step=[0]}", "pad has low from 0 and steps from 1"},
    /* concat */
    {"%x: f32[7] mirrored", "concat %x {axis=0}", "f32[7] mirrored"},
    {"%x: f32[0, 1] mirrored, %y: f32[7, 1] mirrored", "concat %x, %y {axis=0}", "f32[7, 1] mirrored"},
    {"%x: f32[n] per_replica, %y: f32[7] mirrored", "concat %x, %y, %x {axis=0}", "f32[2*n+7] per_replica"},
    {"%x: f32[n] per_replica, %y: f32[N] mirrored", "concat %x, %y {axis=0}", "do not go together on axis 0"},
    {"%x: f32[7] mirrored, %y: f32[7, 1] mirrored", "concat %x, %y {axis=0}", "do not go together on axis 0"},
    {"%x: f32 mirrored", "concat %x {axis=0}", "axis 0 is out of range for a value of rank 0"},
    {"%x: f32[1] mirrored, %y: i32[1] mirrored", "concat %x, %y {axis=0}", "cannot concatenate f32 and i32"},
    {"", "concat {axis=0}", "concat needs an operand"},
    /* attr_dims, scalar */
    {"", "iota {dims=[0, n] dtype=i8 axis=1}", "i8[0, n] per_replica"},
    {"", "iota {dims=[7] dtype=i8 axis=1}", "axis 1 is out of range for a value of rank 1"},
    {"", "constant {dims=[1, 1] dtype=bool data=[true]}", "bool[1, 1] mirrored"},
    {"", "constant {dims=[n] dtype=f32 data=[]}", "a constant of shape [n] has no number of elements"},
    {"", "dim_size {dims=[2*n]}", "i64 per_replica"},
    {"", "dim_size {dims=[N]}", "i64 mirrored"},
    {"", "dim_size {dims=[7, 7]}", "dim_size takes one dimension"},
    {"", "row_start {dims=[]}", "row_start takes one dimension"},
    {"", "replica_id", "i32 per_replica"},
    /* collectives */
    {"%x: f32[0, 7] per_replica", "all_reduce %x {op=sum}", "f32[0, 7] mirrored"},
    {"%x: bool per_replica", "all_reduce %x {op=max}", "replicas do not max bools: cast them"},
    {"%x: bool per_replica", "all_reduce %x {op=first}", "bool mirrored"},
    {"", "all_reduce {op=sum}", "all_reduce has 0 results, not 1"},
    {"%x: f32[n, 7] per_replica", "all_gather %x {axis=0}", "f32[N, 7] mirrored"},
    {"%x: f32[2*n+1] per_replica", "all_gather %x {axis=0}", "f32[2*N+3] mirrored"},
    {"%x: f32[0, 7] per_replica", "all_gather %x {axis=1}", "f32[0, 21] mirrored"},
    {"%x: f32[N] mirrored", "all_gather %x {axis=0}", "f32[3*N] mirrored"},
    {"%x: f32[b] per_replica", "all_gather %x {axis=0}", "a value of shape [b] cannot be gathered"},
    {"%x: f32 per_replica", "all_gather %x {axis=0}", "axis 0 is out of range for a value of rank 0"},
    {"%x: f32[n, 7] per_replica", "global_mean %x", "f32 mirrored"},
    {"%x: i32[n, 7] per_replica", "global_mean %x", "global_mean is for floats: cast the i32"},
    /* dtypes */
    {"%x: bf16 mirrored", "cast %x {dtype=bool}", "bool mirrored"},
    {"%x: bf16[7] mirrored", "isnan %x", "bool[7] mirrored"},
    {"%x: i32 mirrored", "isnan %x", "isnan is for floats: cast the i32"},
    {"%x: bool mirrored", "neg %x", "neg of bool asks for a cast"},
    {"%x: bool mirrored, %y: bool mirrored", "eq %x, %y", "bool mirrored"},
    {"%x: i64 mirrored, %y: i32 mirrored", "lt %x, %y", "cannot compare i64 and i32"},
    {"%x: i64 mirrored, %y: i32 mirrored", "pow %x, %y", "cannot apply pow to i64 and i32"},
    {"%c: bool mirrored, %x: i64 mirrored, %y: i32 mirrored", "where %c, %x, %y", "cannot choose between i64 and i32"},
    {"%x: i64 mirrored, %y: i64 mirrored", "and %x, %y", "and is for bool, not i64"},
    {"%x: f64[7, 7] mirrored", "copy %x", "f64[7, 7] mirrored"},
    {"%x: i32 mirrored", "random %x, %x, %x", "random is for i64: cast the i32"},
    /* rows */
    {"%x: f32[7] mirrored, %y: f32[2] mirrored", "take %x, %y {axis=0}", "the index of take is an integer, not f32"},
    {"%x: f32[0, 7] mirrored, %y: i32[2] mirrored", "take %x, %y {axis=0}", "axis 0 of [0, 7] has nothing to take"},
    {"%x: f32[7] mirrored, %y: f32[2] mirrored, %z: f32[2] mirrored", "scatter %x, %y, %z {mode=add}", "a row is named by an integer, not f32"},
    {"%x: f32[7] mirrored, %y: i32[2] mirrored, %z: f64[2] mirrored", "scatter %x, %y, %z {mode=add}", "values of f64 where rows are f32: cast them"},
    {"%x: bool[7] mirrored, %y: i32[2] mirrored, %z: bool[2] mirrored", "scatter %x, %y, %z {mode=add}", "rows of bool are only set"},
    {"%x: f32 mirrored, %y: i32[2] mirrored, %z: f32[2] mirrored", "scatter %x, %y, %z {mode=add}", "a scalar has no rows"},
    {"%x: f32[7, 3] mirrored, %y: i32[2] mirrored, %z: f32[2] mirrored", "scatter %x, %y, %z {mode=add}", "values of shape [2] where rows need [2, 3]"},
    {"%x: f32 mirrored", "argsort %x", "a scalar has no rows for argsort"},
    {"%x: f32[2, 7] mirrored", "argsort %x {first=8}", "rows of [2, 7] have no first 8 elements"},
    {"%x: f32[2, 7] mirrored", "argsort %x {first=0}", "rows of [2, 7] have no first 0 elements"},
    {"%x: f32[2, 7] mirrored", "argsort %x {first=1}", "i64[2, 1] mirrored"},
    {"%x: f32[7] mirrored, %y: i64[8] mirrored", "reorder %x, %y", "shapes [7] and [8] are no values and their order"},
    {"%x: f32[7, 2] mirrored, %y: i64[6, 1] mirrored", "reorder %x, %y", "shapes [7, 2] and [6, 1] are no values and their order"},
    {"%x: f32[7, 2] mirrored, %y: i64[7, 1] mirrored", "reorder %x, %y", "f32[7, 1] mirrored"},
    /* images */
    {"%x: f32[1, 4, 4] mirrored, %y: f32[3, 3, 1, 1] mirrored", "conv %x, %y {low=[0, 0] dims=[2, 2] step=[1, 1]}", "conv is of values of rank 3 to 5, not 3 and 4"},
    {"%x: f32[1, 4, 4, 1] mirrored, %y: f32[3, 3, 1, 1] mirrored", "conv %x, %y {low=[0] dims=[2, 2] step=[1, 1]}", "conv has at most 2^48 zeros, and steps and dilations from 1 to 2^31 - 1, for each of its 2 axes"},
    {"%x: f32[1, 4, 4, 1] mirrored, %y: f32[3, 3, 1, 1] mirrored", "conv %x, %y {low=[0, 0] dims=[2, 2] step=[0, 1]}", "conv has at most 2^48 zeros, and steps and dilations from 1 to 2^31 - 1, for each of its 2 axes"},
    {"%x: f32[1, 4, 4, 1] mirrored, %y: f32[3, 3, 1, 1] mirrored", "conv %x, %y {low=[0, 0] dims=[2, n] step=[1, 1]}", "conv has constant sizes along its windows"},
    {"%x: f32[1, 4, 4, 1] mirrored, %y: f32[3, 3, 1, 1] mirrored", "conv %x, %y {low=[0, 0] dims=[2, 2] step=[1, 1] dilation=[1, 0]}", "conv has at most 2^48 zeros, and steps and dilations from 1 to 2^31 - 1, for each of its 2 axes"},
    {"%x: f32[1, 4, 4, 1] mirrored, %y: f32[3, 3, 1, 1] mirrored", "conv %x, %y {low=[0, 0] dims=[2, 2] step=[1, 1] dilation=[1, 2147483647]}", "conv has windows of less than 2^31 elements along each axis"},
    {"%x: f32[1, 4, 4, 6] mirrored, %y: f32[3, 3, 2, 6] mirrored", "conv %x, %y {low=[0, 0] dims=[2, 2] step=[1, 1] groups=0}", "conv has groups from 1"},
    {"%x: f32[1, 4, 4, 6] mirrored, %y: f32[3, 3, 2, 6] mirrored", "conv %x, %y {low=[0, 0] dims=[2, 2] step=[1, 1] groups=4}", "4 groups do not divide the channels of conv"},
    {"%x: f32[1, 4, 4, 6] mirrored, %y: f32[3, 3, 2, 6] mirrored", "conv %x, %y {low=[0, 0] dims=[2, 2] step=[1, 1] groups=2}", "shapes [1, 4, 4, 6] and [3, 3, 2, 6] have other channels"},
    {"%x: f32[1, 4, 4, 1] mirrored, %y: f32[2, 2, 2, 1] mirrored", "conv_weights %x, %y {low=[0, 0] dims=[3, 3] step=[1, 1]}", "shapes [1, 4, 4, 1] and [2, 2, 2, 1] have other rows"},
    /* the text that is read first */
    {"", "constant {dims=[] data=[1.0] dtype=f32}", "dtype stands before data"},
    {"%x: f32 mirrored", "neg %x, 3", "expected a %value after the comma"},
};
/* clang-format on */

/* The reader's message about "%z: f64[1, 2, 3] = op". */
static const char *
said_about(Arena *a, const Row *row)
{
    const char *text =
        arena_printf(a,
                     "tfd-ir 1 phase replicated\n"
                     "strategy mirrored devices \"cpu:0-2\" replicas 3\n"
                     "symbols n <= 4, N <= 12, b <= 4 alone\n"
                     "func @f(%s) program {\n"
                     "  %%z: f64[1, 2, 3] = %s\n"
                     "  return\n"
                     "}\n",
                     row->params, row->op);
    Diag *d = diag_new(a);
    uint16_t source = diag_add_source(d, "test", NULL, 0);
    IrModule *m = ir_parse(a, intern_new(a), d, source, text, strlen(text));
    assert_null(m);
    return diag_text(d, a);
}

static void
rules_give_types(void **state)
{
    int num_wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Arena *a = arena_new(NULL, "test");
        const char *said = said_about(a, &rows[i]);
        const char *gives = strstr(said, " gives ");
        bool right = gives
                         ? strncmp(gives + 7, rows[i].want,
                                   strcspn(gives + 7, "\n")) == 0 &&
                               strcspn(gives + 7, "\n") == strlen(rows[i].want)
                         : strstr(said, rows[i].want) != NULL;
        if (!right)
            print_error("%s of (%s)\nwanted: %s\nsaid: %s", rows[i].op,
                        rows[i].params, rows[i].want, said);
        num_wrong += !right;
        arena_release(a);
    }
    assert_int_equal(num_wrong, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules_give_types)};
    return cmocka_run_group_tests_name("ir rules", tests, NULL, NULL);
}
