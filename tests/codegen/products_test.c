/*
 * products_test.c - GEMMs and convolutions, in tiles
 *
 *   products_test [TEST]       (only that one, as "products of bf16")
 *
 * Kernels whose operands are packed in every possible way, against the
 * evaluator, bit for bit: full and partial tiles, one and several blocks of k,
 * columns in several pieces, accumulators that are the result and accumulators
 * with an epilogue.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_kernel.h"
#include "ir/base/thread.h"
#include "tests/codegen/cases.h"

static const CodegenCase cases[] = {
    /* n rows, whole and broken columns; the sums are the result */
    {"T[n, 64]",
     {"T[n, 40]", "T[40, 64]"},
     "%r: T[n, 64] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}"},
    {"T[n, 50]",
     {"T[n, 41]", "T[41, 50]"},
     "%r: T[n, 50] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}"},
    {"T[28, 7]",
     {"T[28, 100]", "T[100, 7]"},
     "%r: T[28, 7] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}"},
    /* memory the other way round */
    {"T[n, 70]",
     {"T[n, 33]", "T[70, 33]"},
     "%r: T[n, 70] per_replica = dot %a, %b {contract_x=[1] contract_y=[1]}"},
    {"T[130, 40]",
     {"T[n, 130]", "T[n, 40]"},
     "%r: T[130, 40] per_replica = dot %a, %b {contract_x=[0] contract_y=[0]}"},
    {"T[29, 48]",
     {"T[n, 29]", "T[48, n]"},
     "%r: T[29, 48] per_replica = dot %a, %b {contract_x=[0] contract_y=[1]}"},
    /* more than a block of products, and more columns than are packed at once
     */
    {"T[17, 20]",
     {"T[17, 1030]", "T[1030, 20]"},
     "%r: T[17, 20] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}"},
    {"T[9, 270]",
     {"T[520, 9]", "T[270, 520]"},
     "%r: T[9, 270] per_replica = dot %a, %b {contract_x=[0] contract_y=[1]}"},
    {"T[9, 270]",
     {"T[520, 9]", "T[520, 270]", "T[270]"},
     "%d: T[9, 270] per_replica = dot %a, %b {contract_x=[0] contract_y=[0]}\n"
     "%r: T[9, 270] per_replica = add %d, %c"},
    /* A packed once for several blocks of columns: in several blocks of
     * products, with an epilogue, along k */
    {"T[9, 560]",
     {"T[520, 9]", "T[520, 560]"},
     "%r: T[9, 560] per_replica = dot %a, %b {contract_x=[0] contract_y=[0]}"},
    {"T[n, 130]",
     {"T[400, n]", "T[400, 130]", "T[130]"},
     "%d: T[n, 130] per_replica = dot %a, %b {contract_x=[0] contract_y=[0]}\n"
     "%r: T[n, 130] per_replica = add %d, %c"},
    {"T[7, 560]",
     {"T[7, 1024]", "T[1024, 560]"},
     "%r: T[7, 560] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}"},
    /* several indices of products, rows and the grid */
    {"T[n, 3, 36]",
     {"T[n, 3, 6, 7]", "T[6, 7, 36]"},
     "%r: T[n, 3, 36] per_replica = dot %a, %b {contract_x=[2, 3] "
     "contract_y=[0, 1]}"},
    {"T[5, n, 3, 20]",
     {"T[n, 5, 3, 17]", "T[5, 17, 20]"},
     "%r: T[5, n, 3, 20] per_replica = dot %a, %b {contract_x=[3] "
     "contract_y=[1] batch_x=[1] batch_y=[0]}"},
    {"T[5, 18, 20]",
     {"T[5, 18, 30]", "T[5, 20, 30]"},
     "%r: T[5, 18, 20] per_replica = dot %a, %b {contract_x=[2] contract_y=[2] "
     "batch_x=[0] batch_y=[0]}"},
    {"T[n, 6, 24]",
     {"T[6, 2, n, 5]", "T[5, 24, 2]"},
     "%d: T[6, n, 24] per_replica = dot %a, %b {contract_x=[1, 3] "
     "contract_y=[2, 0]}\n"
     "%r: T[n, 6, 24] per_replica = transpose %d {perm=[1, 0, 2]}"},
    {"T[n, 5, 20]",
     {"T[17, n, 9]", "T[17, 20]"},
     "%s: T[17, n, 5] per_replica = slice %a {start=[0, 0, 0] "
     "dims=[17, n, 5] step=[1, 1, 2]}\n"
     "%r: T[n, 5, 20] per_replica = dot %s, %b {contract_x=[0] "
     "contract_y=[0]}"},
    {"T[n, 24]",
     {"T[40, n]", "T[40, 24]"},
     "%m: T[1, n] per_replica = reduce_max %a {axes=[0] keepdims=true}\n"
     "%x: T[40, n] per_replica = sub %a, %m\n"
     "%r: T[n, 24] per_replica = dot %x, %b {contract_x=[0] contract_y=[0]}"},
    /* something is done before and after */
    {"T[n, 33]",
     {"T[n, 20]", "T[33, 20]", "T[33]", "T[n, 1]", "T[n, 33]"},
     "%t: T[20, 33] per_replica = transpose %b {perm=[1, 0]}\n"
     "%x: T[n, 20] per_replica = neg %a\n"
     "%s: T[n, 20] per_replica = mul %x, %d\n"
     "%p: T[n, 33] per_replica = dot %s, %t {contract_x=[1] contract_y=[0]}\n"
     "%q: T[n, 33] per_replica = add %p, %c\n"
     "%u: T[n, 33] per_replica = maximum %q, %e\n"
     "%v: T[n, 33] per_replica = mul %u, %d\n"
     "%r: T[n, 33] per_replica = add %v, %e"},
    {"T[n, 40]",
     {"T[n, 24]", "T[24, 40]"},
     "%m: T[n, 1] per_replica = reduce_max %a {axes=[1] keepdims=true}\n"
     "%x: T[n, 24] per_replica = sub %a, %m\n"
     "%p: T[n, 40] per_replica = dot %x, %b {contract_x=[1] contract_y=[0]}\n"
     "%r: T[n, 40] per_replica = mul %p, %m"},
    {"T[30, 40]",
     {"T[20, 31]", "T[44, 20]"},
     "%x: T[20, 30] per_replica = slice %a {start=[0, 1] dims=[20, 30] "
     "step=[1, 1]}\n"
     "%y: T[40, 20] per_replica = slice %b {start=[43, 0] dims=[40, 20] "
     "step=[-1, 1]}\n"
     "%r: T[30, 40] per_replica = dot %x, %y {contract_x=[0] contract_y=[1]}"},
    {"T[3, 2, 18, 33]",
     {"T[3, 18, 30]", "T[3, 33, 2, 5]"},
     "%s: T[3, 18, 10] per_replica = slice %a {start=[0, 0, 10] "
     "dims=[3, 18, 10] step=[1, 1, 1]}\n"
     "%t: T[3, 18, 2, 5] per_replica = reshape %s {dims=[3, 18, 2, 5]}\n"
     "%x: T[3, 2, 18, 5] per_replica = transpose %t {perm=[0, 2, 1, 3]}\n"
     "%y: T[3, 2, 5, 33] per_replica = transpose %b {perm=[0, 2, 3, 1]}\n"
     "%r: T[3, 2, 18, 33] per_replica = dot %x, %y {contract_x=[3] "
     "contract_y=[2] batch_x=[0, 1] batch_y=[0, 1]}"},
    {"T[n, 128]",
     {"T[16, n, 34]", "T[16, 128, 34]"},
     "%r: T[n, 128] per_replica = dot %a, %b {contract_x=[0, 2] "
     "contract_y=[0, 2]}"},
    /* a matrix times a vector: strips of rows, and rows that conflict in a
     * cache
     */
    {"T[n]",
     {"T[n, 77]", "T[77]"},
     "%r: T[n] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}"},
    {"T[n]",
     {"T[n, 1024]", "T[1024]"},
     "%r: T[n] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}"},
    {"T[50]",
     {"T[50, 2048]", "T[2048]", "T[50]"},
     "%d: T[50] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}\n"
     "%r: T[50] per_replica = add %d, %c"},
    /* windows: with zeros around and without, further apart, of one channel */
    {"T[n, 6, 5, 20]",
     {"T[n, 6, 5, 16]", "T[3, 3, 16, 20]"},
     "%r: T[n, 6, 5, 20] per_replica = conv %a, %b {low=[1, 1] dims=[6, 5] "
     "step=[1, 1]}"},
    {"T[n, 4, 4, 33]",
     {"T[n, 9, 10, 5]", "T[2, 3, 5, 33]"},
     "%x: T[n, 4, 4, 33] per_replica = conv %a, %b {low=[0, 0] dims=[4, 4] "
     "step=[2, 2]}\n"
     "%r: T[n, 4, 4, 33] per_replica = abs %x"},
    {"T[n, 8, 8, 16]",
     {"T[n, 8, 8, 1]", "T[3, 3, 1, 16]"},
     "%r: T[n, 8, 8, 16] per_replica = conv %a, %b {low=[1, 1] dims=[8, 8] "
     "step=[1, 1]}"},
    {"T[4, 3, 3, 20]",
     {"T[4, 7, 8, n]", "T[7, 8, n, 20]"},
     "%r: T[4, 3, 3, 20] per_replica = conv %a, %b {low=[1, 1] dims=[3, 3] "
     "step=[1, 1]}"},
    {"T[n, 5, 19, 16]",
     {"T[n, 5, 19, 1]", "T[3, 3, 1, 16]", "T[16]"},
     "%x: T[n, 5, 19, 16] per_replica = conv %a, %b {low=[1, 1] dims=[5, 19] "
     "step=[1, 1]}\n"
     "%r: T[n, 5, 19, 16] per_replica = add %x, %c"},
    /* overlapping ones along lines: of few channels, every other place, lines
     * that are cut, nothing around */
    {"T[2, 2, 21, 20]",
     {"T[2, 2, 21, 3]", "T[3, 3, 3, 20]"},
     "%r: T[2, 2, 21, 20] per_replica = conv %a, %b {low=[1, 1] dims=[2, 21] "
     "step=[1, 1]}"},
    {"T[2, 3, 9, 18]",
     {"T[2, 6, 18, 3]", "T[5, 3, 3, 18]", "T[18]"},
     "%x: T[2, 3, 9, 18] per_replica = conv %a, %b {low=[2, 1] dims=[3, 9] "
     "step=[2, 2]}\n"
     "%r: T[2, 3, 9, 18] per_replica = add %x, %c"},
    {"T[1, 1, 120, 9]",
     {"T[1, 1, 120, 15]", "T[3, 3, 15, 9]"},
     "%r: T[1, 1, 120, 9] per_replica = conv %a, %b {low=[1, 1] "
     "dims=[1, 120] step=[1, 1]}"},
    {"T[1, 2, 121, 12]",
     {"T[1, 4, 123, 1]", "T[3, 3, 1, 12]"},
     "%x: T[1, 2, 121, 12] per_replica = conv %a, %b {low=[0, 0] "
     "dims=[2, 121] step=[1, 1]}\n"
     "%r: T[1, 2, 121, 12] per_replica = abs %x"},
    /* ... of several blocks of products, which end within a line: the result
     * itself, and what is computed from it */
    {"T[2, 2, 19, 20]",
     {"T[2, 2, 19, 40]", "T[5, 3, 40, 20]"},
     "%r: T[2, 2, 19, 20] per_replica = conv %a, %b {low=[2, 1] dims=[2, 19] "
     "step=[1, 1]}"},
    {"T[n, 3, 12, 33]",
     {"T[n, 6, 24, 49]", "T[5, 5, 49, 33]", "T[33]"},
     "%x: T[n, 3, 12, 33] per_replica = conv %a, %b {low=[2, 2] dims=[3, 12] "
     "step=[2, 2]}\n"
     "%r: T[n, 3, 12, 33] per_replica = add %x, %c"},
    {"T[1, 1, 16, 8]",
     {"T[1, 1, 18, 172]", "T[1, 3, 172, 8]"},
     "%x: T[1, 1, 16, 8] per_replica = conv %a, %b {low=[0, 0] dims=[1, 16] "
     "step=[1, 1]}\n"
     "%r: T[1, 1, 16, 8] per_replica = abs %x"},
    /* summed over windows: runs of rows, whole and in parts of a run */
    {"T[2, 2, 18, 20]",
     {"T[n, 6, 6, 18]", "T[n, 6, 6, 20]"},
     "%r: T[2, 2, 18, 20] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[2, 2] step=[1, 1]}"},
    {"T[2, 1, 24, 17]",
     {"T[n, 9, 8, 24]", "T[n, 5, 4, 17]"},
     "%x: T[2, 1, 24, 17] per_replica = conv_weights %a, %b {low=[1, 0] "
     "dims=[2, 1] step=[2, 2]}\n"
     "%r: T[2, 1, 24, 17] per_replica = abs %x"},
    {"T[3, 3, 1, 20]",
     {"T[n, 9, 10, 1]", "T[n, 9, 10, 20]"},
     "%r: T[3, 3, 1, 20] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[3, 3] step=[1, 1]}"},
    /* strips of windows that overlap: of parts of a tile, several to a tile,
     * several tiles; blocks end within them */
    {"T[3, 3, 3, 10]",
     {"T[9, 3, 21, 3]", "T[9, 3, 21, 10]"},
     "%r: T[3, 3, 3, 10] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[3, 3] step=[1, 1]}"},
    {"T[4, 3, 1, 17]",
     {"T[25, 6, 19, 1]", "T[25, 3, 9, 17]"},
     "%x: T[4, 3, 1, 17] per_replica = conv_weights %a, %b {low=[1, 2] "
     "dims=[4, 3] step=[2, 2]}\n"
     "%r: T[4, 3, 1, 17] per_replica = abs %x"},
    {"T[2, 3, 16, 16]",
     {"T[2, 3, 18, 16]", "T[2, 3, 18, 16]"},
     "%r: T[2, 3, 16, 16] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[2, 3] step=[1, 1]}"},
    /* each channel alone: windows side by side and those that are left, in one
     * and two axes, bands of an image, further apart, without zeros around */
    {"T[n, 6, 9, 20]",
     {"T[n, 6, 9, 20]", "T[3, 3, 1, 20]", "T[20]"},
     "%x: T[n, 6, 9, 20] per_replica = conv %a, %b {low=[1, 1] "
     "dims=[6, 9] step=[1, 1] groups=20}\n"
     "%r: T[n, 6, 9, 20] per_replica = add %x, %c"},
    {"T[n, 5, 6, 33]",
     {"T[n, 9, 11, 33]", "T[5, 5, 1, 33]"},
     "%r: T[n, 5, 6, 33] per_replica = conv %a, %b {low=[2, 2] "
     "dims=[5, 6] step=[2, 2] groups=33}"},
    {"T[1, 6, 130, 16]",
     {"T[1, 6, 130, 16]", "T[3, 3, 1, 16]"},
     "%x: T[1, 6, 130, 16] per_replica = conv %a, %b {low=[1, 1] "
     "dims=[6, 130] step=[1, 1] groups=16}\n"
     "%r: T[1, 6, 130, 16] per_replica = abs %x"},
    {"T[n, 40, 17]",
     {"T[n, 42, 17]", "T[3, 1, 17]"},
     "%r: T[n, 40, 17] per_replica = conv %a, %b {low=[0] "
     "dims=[40] step=[1] groups=17}"},
    {"T[n, 7, 7, 16]",
     {"T[n, 7, 7, 16]", "T[3, 1, 1, 16]"},
     "%r: T[n, 7, 7, 16] per_replica = conv %a, %b {low=[1, 0] "
     "dims=[7, 7] step=[1, 1] groups=16}"},
    /* the sums of all places: blocks end within rows, several bands, places
     * that do not fit the registers */
    {"T[3, 3, 1, 20]",
     {"T[n, 9, 10, 20]", "T[n, 9, 10, 20]"},
     "%r: T[3, 3, 1, 20] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[3, 3] step=[1, 1] groups=20}"},
    {"T[5, 5, 1, 18]",
     {"T[n, 9, 11, 18]", "T[n, 5, 6, 18]", "T[18]"},
     "%x: T[5, 5, 1, 18] per_replica = conv_weights %a, %b {low=[2, 2] "
     "dims=[5, 5] step=[2, 2] groups=18}\n"
     "%r: T[5, 5, 1, 18] per_replica = mul %x, %c"},
    {"T[3, 3, 1, 16]",
     {"T[1, 6, 130, 16]", "T[1, 6, 130, 16]"},
     "%r: T[3, 3, 1, 16] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[3, 3] step=[1, 1] groups=16}"},
    {"T[7, 7, 1, 9]",
     {"T[9, 8, 8, 9]", "T[9, 8, 8, 9]"},
     "%r: T[7, 7, 1, 9] per_replica = conv_weights %a, %b {low=[3, 3] "
     "dims=[7, 7] step=[1, 1] groups=9}"},
    /* a product for each group */
    {"T[n, 5, 6, 32]",
     {"T[n, 5, 6, 24]", "T[3, 3, 6, 32]", "T[32]"},
     "%x: T[n, 5, 6, 32] per_replica = conv %a, %b {low=[1, 1] "
     "dims=[5, 6] step=[1, 1] groups=4}\n"
     "%r: T[n, 5, 6, 32] per_replica = add %x, %c"},
    {"T[3, 3, 6, 32]",
     {"T[n, 5, 6, 24]", "T[n, 5, 6, 32]"},
     "%r: T[3, 3, 6, 32] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[3, 3] step=[1, 1] groups=4}"},
    {"T[n, 5, 6, 32]",
     {"T[n, 5, 6, 24]", "T[3, 3, 6, 32]", "T[n, 5, 6, 32]"},
     "%x: T[n, 5, 6, 32] per_replica = conv %a, %b {low=[1, 1] "
     "dims=[5, 6] step=[1, 1] groups=4}\n"
     "%r: T[n, 5, 6, 32] per_replica = sub %c, %x"},
    {"T[3, 3, 16, 32]",
     {"T[n, 5, 6, 32]", "T[n, 5, 6, 32]", "T[3, 3, 16, 32]"},
     "%x: T[3, 3, 16, 32] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[3, 3] step=[1, 1] groups=2}\n"
     "%r: T[3, 3, 16, 32] per_replica = sub %c, %x"},
    /* ... along lines, whose places are apart: narrower than a register, wider
     * and no multiple of it, with several blocks; a single axis */
    {"T[2, 3, 18, 20]",
     {"T[2, 3, 18, 20]", "T[3, 3, 5, 20]"},
     "%r: T[2, 3, 18, 20] per_replica = conv %a, %b {low=[1, 1] "
     "dims=[3, 18] step=[1, 1] groups=4}"},
    {"T[n, 2, 17, 10]",
     {"T[n, 4, 34, 42]", "T[5, 5, 21, 10]", "T[10]"},
     "%x: T[n, 2, 17, 10] per_replica = conv %a, %b {low=[2, 2] "
     "dims=[2, 17] step=[2, 2] groups=2}\n"
     "%r: T[n, 2, 17, 10] per_replica = add %x, %c"},
    {"T[3, 3, 5, 20]",
     {"T[2, 3, 18, 20]", "T[2, 3, 18, 20]"},
     "%r: T[3, 3, 5, 20] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[3, 3] step=[1, 1] groups=4}"},
    {"T[5, 3, 21, 10]",
     {"T[n, 4, 34, 42]", "T[n, 2, 17, 10]"},
     "%x: T[5, 3, 21, 10] per_replica = conv_weights %a, %b {low=[2, 1] "
     "dims=[5, 3] step=[2, 2] groups=2}\n"
     "%r: T[5, 3, 21, 10] per_replica = abs %x"},
    {"T[n, 40, 12]",
     {"T[n, 40, 36]", "T[3, 18, 12]"},
     "%r: T[n, 40, 12] per_replica = conv %a, %b {low=[1] dims=[40] "
     "step=[1] groups=2}"},
    /* few rows, so that columns are read in place */
    {"T[9, 64]",
     {"T[9, 700]", "T[700, 64]"},
     "%r: T[9, 64] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}"},
    /* ... and larger than the second cache, so that all rows share a tile's */
    {"T[9, 160]",
     {"T[9, 700]", "T[700, 160]"},
     "%r: T[9, 160] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}"},
    /* zeros at the first and last k of a tile, along k and along rows, in one
     * and several blocks, with an epilogue, in a batch */
    {"T[45, 70]",
     {"T[45, 700]", "T[700, 70]"},
     "%r: T[45, 70] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}"},
    {"T[45, 70]",
     {"T[700, 45]", "T[700, 70]"},
     "%x: T[45, 70] per_replica = dot %a, %b {contract_x=[0] contract_y=[0]}\n"
     "%r: T[45, 70] per_replica = neg %x"},
    {"T[n, 45, 33]",
     {"T[n, 45, 261]", "T[n, 261, 33]"},
     "%r: T[n, 45, 33] per_replica = dot %a, %b {contract_x=[2] "
     "contract_y=[1] batch_x=[0] batch_y=[0]}"},
    /* elements that do not depend on the products: after or before the
     * diagonal, in tiles that end within the rows and columns; where a row of a
     * matrix is not positive, in blocks of products; where all are, and none */
    {"T[n, 45, 70]",
     {"T[n, 45, 36]", "T[n, 36, 70]"},
     "%i: i64[45, 70] mirrored = iota {dims=[45, 70] dtype=i64 axis=1}\n"
     "%j: i64[45, 70] mirrored = iota {dims=[45, 70] dtype=i64 axis=0}\n"
     "%m: bool[45, 70] mirrored = le %i, %j\n"
     "%x: T[n, 45, 70] per_replica = dot %a, %b {contract_x=[2] contract_y=[1] "
     "batch_x=[0] batch_y=[0]}\n"
     "%h: T mirrored = constant {dims=[] dtype=T data=[-7.0]}\n"
     "%y: T[n, 45, 70] per_replica = where %m, %x, %h\n"
     "%r: T[n, 45, 70] per_replica = neg %y"},
    {"T[n, 64]",
     {"T[n, 24]", "T[24, 64]"},
     "%i: i64[n, 64] per_replica = iota {dims=[n, 64] dtype=i64 axis=1}\n"
     "%j: i64[n, 64] per_replica = iota {dims=[n, 64] dtype=i64 axis=0}\n"
     "%m: bool[n, 64] per_replica = lt %i, %j\n"
     "%x: T[n, 64] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}\n"
     "%h: T mirrored = constant {dims=[] dtype=T data=[0.5]}\n"
     "%r: T[n, 64] per_replica = where %m, %h, %x"},
    {"T[45, 70]",
     {"T[45, 700]", "T[700, 70]", "T[45, 1]"},
     "%x: T[45, 70] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}\n"
     "%h: T mirrored = constant {dims=[] dtype=T data=[0.0]}\n"
     "%m: bool[45, 1] per_replica = gt %c, %h\n"
     "%y: T[45, 70] per_replica = mul %x, %x\n"
     "%r: T[45, 70] per_replica = where %m, %y, %h"},
    /* both the sums and something that a choice of them gives */
    {"T[45, 70]",
     {"T[45, 30]", "T[30, 70]", "bool[45, 70]"},
     "%x: T[45, 70] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}\n"
     "%h: T mirrored = constant {dims=[] dtype=T data=[0.0]}\n"
     "%y: T[45, 70] per_replica = where %c, %x, %h\n"
     "%r: T[45, 70] per_replica = add %y, %x"},
    /* cells of columns, of packed panels that are packed together; a mask that
     * ends within a tile */
    {"T[28, 512]",
     {"T[28, 40]", "T[40, 512]"},
     "%y: T[40, 512] per_replica = neg %b\n"
     "%r: T[28, 512] per_replica = dot %a, %y {contract_x=[1] "
     "contract_y=[0]}"},
    {"T[45, 80]",
     {"T[45, 64]", "T[64, 80]", "T[45, 80]"},
     "%x: T[45, 80] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}\n"
     "%h: T mirrored = constant {dims=[] dtype=T data=[1000.0]}\n"
     "%m: bool[45, 80] per_replica = gt %c, %h\n"
     "%r: T[45, 80] per_replica = where %m, %x, %h"},
    /* a matrix times a vector, in squares: whole ones and a rest, blocks that
     * end within a square, something done before, several indices, two rows */
    {"T[n, 1]",
     {"T[n, 64]", "T[64, 1]", "T[1]"},
     "%x: T[n, 1] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}\n"
     "%r: T[n, 1] per_replica = add %x, %c"},
    /* ... of each of a batch, with strips of products that are left */
    {"T[20, 45]",
     {"T[20, 45, 39]", "T[20, 39]"},
     "%r: T[20, 45] per_replica = dot %a, %b {contract_x=[2] "
     "contract_y=[1] batch_x=[0] batch_y=[0]}"},
    {"T[n, 33]",
     {"T[n, 33, 520]", "T[n, 520]", "T[33]"},
     "%x: T[n, 33] per_replica = dot %a, %b {contract_x=[2] "
     "contract_y=[1] batch_x=[0] batch_y=[0]}\n"
     "%r: T[n, 33] per_replica = add %x, %c"},
    {"T[45]",
     {"T[45, 1043]", "T[1043]"},
     "%r: T[45] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}"},
    {"T[n]",
     {"T[n, 39]", "T[n, 39]", "T[39]"},
     "%x: T[n, 39] per_replica = mul %a, %b\n"
     "%r: T[n] per_replica = dot %x, %c {contract_x=[1] contract_y=[0]}"},
    {"T[21]",
     {"T[21, 7, 101]", "T[7, 101]"},
     "%r: T[21] per_replica = dot %a, %b {contract_x=[1, 2] "
     "contract_y=[0, 1]}"},
    {"T[2, 70]",
     {"T[2, 600]", "T[70, 600]"},
     "%r: T[2, 70] per_replica = dot %a, %b {contract_x=[1] contract_y=[1]}"},
    /* ... of an operand whose indices are quotients and remainders of the
     * contracted ones, of all or of one, of bytes */
    {"T[45]",
     {"T[45, 4, 3, 40]", "T[480]"},
     "%t: T[45, 3, 4, 40] per_replica = transpose %a {perm=[0, 2, 1, 3]}\n"
     "%x: T[45, 480] per_replica = reshape %t {dims=[45, 480]}\n"
     "%r: T[45] per_replica = dot %x, %b {contract_x=[1] contract_y=[0]}"},
    {"T[45]",
     {"T[45, 4, 3, 40]", "T[12, 40]"},
     "%t: T[45, 3, 4, 40] per_replica = transpose %a {perm=[0, 2, 1, 3]}\n"
     "%x: T[45, 12, 40] per_replica = reshape %t {dims=[45, 12, 40]}\n"
     "%r: T[45] per_replica = dot %x, %b {contract_x=[1, 2] "
     "contract_y=[0, 1]}"},
    {"T[45]",
     {"u8[45, 99]", "T[99]"},
     "%x: T[45, 99] per_replica = cast %a {dtype=T }\n"
     "%r: T[45] per_replica = dot %x, %b {contract_x=[1] contract_y=[0]}"},
    {"T[45]",
     {"T[45, 40, 64]", "T[64]", "T[45, 40]"},
     "%x: T[45, 40] per_replica = dot %a, %b {contract_x=[2] contract_y=[0]}\n"
     "%r: T[45] per_replica = dot %x, %c {contract_x=[1] contract_y=[1] "
     "batch_x=[0] batch_y=[0]}"},
    /* of a matrix in panels, as passes/fusion/prepack.c makes them: in one and
     * several blocks, with an epilogue */
    {"T[20, 4, 16]",
     {"T[20, 70]", "T[4, 70, 16]"},
     "%r: T[20, 4, 16] per_replica = dot %a, %b {contract_x=[1] "
     "contract_y=[1]}"},
    {"T[n, 3, 8]",
     {"T[n, 600]", "T[3, 600, 8]"},
     "%r: T[n, 3, 8] per_replica = dot %a, %b {contract_x=[1] "
     "contract_y=[1]}"},
    {"T[9, 4, 16]",
     {"T[9, 70]", "T[4, 70, 16]", "T[9, 4, 16]"},
     "%x: T[9, 4, 16] per_replica = dot %a, %b {contract_x=[1] "
     "contract_y=[1]}\n"
     "%r: T[9, 4, 16] per_replica = add %x, %c"},
    /* A in place, of several blocks, with an epilogue, in rows that tiles do
     * not divide */
    {"T[45, 33]",
     {"T[45, 1043]", "T[1043, 33]", "T[33]"},
     "%x: T[45, 33] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}\n"
     "%r: T[45, 33] per_replica = add %x, %c"},
    {"T[3, 46, 33]",
     {"T[3, 46, 600]", "T[3, 600, 33]", "T[33]"},
     "%x: T[3, 46, 33] per_replica = dot %a, %b {contract_x=[2] "
     "contract_y=[1] batch_x=[0] batch_y=[0]}\n"
     "%r: T[3, 46, 33] per_replica = add %x, %c"},
    /* beside sums of columns, of which some vectors are computed together */
    {"T[71]",
     {"T[64, 71]", "T[71, 64]", "T[64]"},
     "%s: T[71] per_replica = sum %a {axes=[0]}\n"
     "%d: T[71] per_replica = dot %b, %c {contract_x=[1] contract_y=[0]}\n"
     "%r: T[71] per_replica = add %s, %d"},
    /* B of values that are the same for all columns */
    {"T[40, 51]",
     {"T[n, 40]", "T[n, 51]", "T[1]"},
     "%h: T mirrored = constant {dims=[] dtype=T data=[0.5]}\n"
     "%s: T[1] per_replica = mul %c, %h\n"
     "%y: T[n, 51] per_replica = mul %b, %s\n"
     "%r: T[40, 51] per_replica = dot %a, %y {contract_x=[0] "
     "contract_y=[0]}"},
    /* each channel alone, and a reduction of all of them */
    {"T[5, 5, 20]",
     {"T[5, 17, 20]", "T[4, 1, 20]"},
     "%x: T[5, 5, 20] per_replica = conv %a, %b {low=[1] dims=[5] step=[3] "
     "groups=20}\n"
     "%m: T[5, 5, 1] per_replica = reduce_max %x {axes=[2] keepdims=true}\n"
     "%r: T[5, 5, 20] per_replica = sub %x, %m"},
    /* no product, but squares that are transposed */
    {"T[40, n]",
     {"T[n, 40]"},
     "%r: T[40, n] per_replica = transpose %a {perm=[1, 0]}"},
    {"T[3, 21, 35]",
     {"T[35, 3, 21]", "T[3, 21, 35]"},
     "%x: T[3, 21, 35] per_replica = transpose %a {perm=[1, 2, 0]}\n"
     "%r: T[3, 21, 35] per_replica = sub %x, %b"},
    {"T[37, n, 32]",
     {"T[32, n, 37]"},
     "%r: T[37, n, 32] per_replica = transpose %a {perm=[2, 1, 0]}"},
};

enum { NUM_CASES = sizeof cases / sizeof cases[0] };

/* Sums of bf16 that are the result, beyond what is packed at once, with tiles
 * that are not full. */
static const CodegenCase wide_sums[] = {
    {"f32[29, 70]",
     {"T[29, 2100]", "T[2100, 70]"},
     "%r: f32[29, 70] per_replica = dot %a, %b {contract_x=[1] contract_y=[0] "
     "dtype=f32}"},
    {"f32[25, 20]",
     {"T[4701, 25]", "T[4701, 20]"},
     "%r: f32[25, 20] per_replica = dot %a, %b {contract_x=[0] contract_y=[0] "
     "dtype=f32}"},
    {"T[14, 560]",
     {"T[14, 1100]", "T[1100, 560]"},
     "%r: T[14, 560] per_replica = dot %a, %b {contract_x=[1] "
     "contract_y=[0]}"},
    {"f32[14, 560]",
     {"T[1100, 14]", "T[1100, 560]"},
     "%r: f32[14, 560] per_replica = dot %a, %b {contract_x=[0] "
     "contract_y=[0] dtype=f32}"},
};

static void
wide_sums_have_the_bits_of_the_interpreter(void **state)
{
    cases_run(wide_sums, (int)(sizeof wide_sums / sizeof wide_sums[0]), *state);
}

static void
products_have_the_bits_of_the_interpreter(void **state)
{
    cases_run(cases, NUM_CASES, *state);
}

/* Products over a batch of more than a block. */
static void
batches_are_products_too(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "products");
    BeKernels all = cases_kernels(a, cases, NUM_CASES, "f32", 600),
              kernels = {0};
    for (int i = 4; i < 6; i++)
        VEC_PUSH(a, kernels, all.data[i]);
    RtCode *code = run_compile(&kernels, "native", 2);
    cases_check(a, &kernels, &code, 1, 513);
    rt_code_close(code);
    arena_release(a);
}

/* Rows of one tile, of which half are half of the columns of all. */
static void
few_rows_are_divided_by_columns(void **state)
{
    (void)state;
    enum { ROWS = 6, COLUMNS = 640, PRODUCTS = 300 };
    static const CodegenCase wide = {
        "T[6, 640]",
        {"T[6, 300]", "T[300, 640]"},
        "%r: T[6, 640] per_replica = dot %a, %b {contract_x=[1] "
        "contract_y=[0]}"};
    static float x[ROWS * PRODUCTS], y[PRODUCTS * COLUMNS];
    static float r[ROWS][COLUMNS];
    Arena *a = arena_new(NULL, "products");
    BeKernels kernels = cases_kernels(a, &wide, 1, "f32", 600);
    assert_int_equal(be_cpu_kernel_grain(kernels.data[0]), 1);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        r[i / COLUMNS][i % COLUMNS] = -1;
    RtCode *code = run_compile(&kernels, "native", 2);
    void *ptrs[] = {x, y, r};
    run_find_kernel(code, kernels.data[0]->name)(ptrs, NULL, 0, ROWS / 2);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLUMNS; j++)
            assert_true(r[i][j] == (j < COLUMNS / 2 ? 0 : -1));
    }
    rt_code_close(code);
    arena_release(a);
}

/* Elements of A before this k are zeros; one of B is infinite, for such a k. */
enum { FIRST_K = 100, INFINITE_K = 5, INFINITE_COLUMN = 60, LAST_K = 700 };

/* A product of so many rows and columns; A is stored along its rows or k. */
static void
check_infinity(const CodegenCase *c, int rows, int columns, bool along_k)
{
    static float x[64 * LAST_K], y[LAST_K * 160], r[64 * 160];
    Arena *a = arena_new(NULL, "products");
    BeKernels kernels = cases_kernels(a, c, 1, "f32", 600);
    for (int k = 0; k < LAST_K; k++) {
        for (int i = 0; i < rows; i++)
            x[along_k ? i * LAST_K + k : k * rows + i] = k >= FIRST_K;
        for (int j = 0; j < columns; j++)
            y[k * columns + j] = (float)(j - k % 2);
    }
    y[INFINITE_K * columns + INFINITE_COLUMN] = INFINITY;
    RtCode *code = run_compile(&kernels, "native", 2);
    void *ptrs[] = {x, y, r};
    run_find_kernel(code, kernels.data[0]->name)(ptrs, NULL, 0, rows);
    for (int i = 0; i < rows * columns; i++) {
        int j = i % columns;
        if (j == INFINITE_COLUMN)
            assert_true(isnan(r[i]));
        else
            assert_true(r[i] == (LAST_K - FIRST_K) * ((float)j - 0.5F));
    }
    rt_code_close(code);
    arena_release(a);
}

/* Zeros of A are left out only where B is finite: in all its panels. */
static void
zeros_are_multiplied_with_infinities(void **state)
{
    (void)state;
    static const CodegenCase cases_of_zeros[] = {
        {"T[9, 160]",
         {"T[9, 700]", "T[700, 160]"},
         "%r: T[9, 160] per_replica = dot %a, %b {contract_x=[1] "
         "contract_y=[0]}"},
        {"T[64, 70]",
         {"T[64, 700]", "T[700, 70]"},
         "%r: T[64, 70] per_replica = dot %a, %b {contract_x=[1] "
         "contract_y=[0]}"},
        {"T[64, 70]",
         {"T[700, 64]", "T[700, 70]"},
         "%r: T[64, 70] per_replica = dot %a, %b {contract_x=[0] "
         "contract_y=[0]}"}};
    check_infinity(&cases_of_zeros[0], 9, 160, true);
    check_infinity(&cases_of_zeros[1], 64, 70, true);
    check_infinity(&cases_of_zeros[2], 64, 70, false);
}

/* What the functions of kernels have on the stack, by their text: %p = alloca
 * i8, i64 64, or <16 x float>, or anything else of a few bytes. */
static int64_t
stack_bytes(const char *llvm)
{
    int64_t all = 0;
    for (const char *p = llvm; (p = strstr(p, " = alloca ")); p++) {
        int lanes = 1, read = 0;
        const char *type = p + strlen(" = alloca ");
        if (sscanf(type, "<%d x %n", &lanes, &read) == 1)
            type += read;
        int64_t bytes = strncmp(type, "i8,", 3) ? 8 : 1;
        if (!strncmp(type, "float", 5))
            bytes = 4;
        const char *count = strstr(type, ", i64 ");
        assert_non_null(count);
        all += bytes * lanes * strtoll(count + strlen(", i64 "), NULL, 10);
    }
    return all;
}

/* Columns of a vocabulary and few rows, B in place or packed, few products of
 * rows side by side; a line of an image that is long. */
static void
threads_have_enough_stack(void **state)
{
    (void)state;
    static const CodegenCase large[] = {
        {"T[12, 131072]",
         {"T[12, 64]", "T[64, 131072]", "T[131072]"},
         "%x: T[12, 131072] per_replica = dot %a, %b {contract_x=[1] "
         "contract_y=[0]}\n"
         "%r: T[12, 131072] per_replica = add %x, %c"},
        {"T[300, 40000]",
         {"T[8, 300]", "T[8, 40000]", "T[40000]"},
         "%n: T[8, 300] per_replica = neg %a\n"
         "%x: T[300, 40000] per_replica = dot %n, %b {contract_x=[0] "
         "contract_y=[0]}\n"
         "%r: T[300, 40000] per_replica = add %x, %c"},
        {"T[1, 200000, 16]",
         {"T[1, 200000, 16]", "T[3, 1, 16]"},
         "%r: T[1, 200000, 16] per_replica = conv %a, %b {low=[1] "
         "dims=[200000] step=[1] groups=16}"},
        {"T[3, 1, 16]",
         {"T[1, 200000, 16]", "T[1, 200000, 16]"},
         "%r: T[3, 1, 16] per_replica = conv_weights %a, %b {low=[1] "
         "dims=[3] step=[1] groups=16}"},
        {"T[1, 2, 2730, 16]",
         {"T[1, 4, 2732, 16]", "T[3, 3, 8, 16]"},
         "%r: T[1, 2, 2730, 16] per_replica = conv %a, %b {low=[0, 0] "
         "dims=[2, 2730] step=[1, 1] groups=2}"},
        {"T[4, 4, 8, 1024]",
         {"T[n, 6, 1368, 1024]", "T[n, 3, 1365, 1024]"},
         "%r: T[4, 4, 8, 1024] per_replica = conv_weights %a, %b {low=[0, 0] "
         "dims=[4, 4] step=[1, 1] groups=128}"},
    };
    enum { NUM_LARGE = sizeof large / sizeof large[0] };
    static const char *const dtypes[] = {"f32", "f64", "bf16", CASES_ONE_CHAIN};
    static const char *const targets[] = {"x86-64-v3", "x86-64-v4",
                                          "x86-64-v4+bf16", "x86-64-v4+amx"};
    for (int i = 0; i < 4; i++) {
        for (int t = 0; t < 4; t++) {
            Arena *a = arena_new(NULL, "stack");
            BeKernels all = cases_kernels(a, large, NUM_LARGE, dtypes[i], 600);
            BeOptions options = {.targets = targets[t], .level = 2};
            for (int k = 0; k < all.len; k++) {
                BeKernels one = {0};
                VEC_PUSH(a, one, all.data[k]);
                Str text = str_new(a);
                assert_null(be_print_llvm(&text, NULL, &one, &options));
                assert_true(stack_bytes(str_text(&text)) <
                            THREAD_STACK_BYTES - (1 << 20));
            }
            arena_release(a);
        }
    }
}

/* The accumulators of all columns would not fit the stack. */
static void
columns_come_in_blocks(void **state)
{
    (void)state;
    enum { ROWS = 12, COLUMNS = 40000, PRODUCTS = 8 };
    static const CodegenCase wide = {
        "T[12, 40000]",
        {"T[12, 8]", "T[8, 40000]", "T[40000]"},
        "%x: T[12, 40000] per_replica = dot %a, %b {contract_x=[1] "
        "contract_y=[0]}\n"
        "%r: T[12, 40000] per_replica = add %x, %c"};
    static float x[ROWS * PRODUCTS], y[PRODUCTS * COLUMNS], z[COLUMNS];
    static float r[ROWS * COLUMNS];
    Arena *a = arena_new(NULL, "products");
    BeKernels kernels = cases_kernels(a, &wide, 1, "f32", 600);
    for (int i = 0; i < ROWS * PRODUCTS; i++)
        x[i] = (float)(i / PRODUCTS);
    for (int i = 0; i < PRODUCTS * COLUMNS; i++)
        y[i] = (float)(i % COLUMNS % 7);
    for (int j = 0; j < COLUMNS; j++)
        z[j] = (float)j;
    RtCode *code = run_compile(&kernels, "native", 2);
    void *ptrs[] = {x, y, z, r};
    run_find_kernel(code, kernels.data[0]->name)(ptrs, NULL, 0, ROWS);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int row = i / COLUMNS, j = i % COLUMNS;
        assert_true(r[i] == (float)(PRODUCTS * row * (j % 7) + j));
    }
    rt_code_close(code);
    arena_release(a);
}

/* One tile of rows that is no gemm: two threads would read %b twice. */
static void
two_rows_are_not_divided(void **state)
{
    (void)state;
    static const CodegenCase two = {
        "T[2, 640]",
        {"T[2, 300]", "T[300, 640]"},
        "%r: T[2, 640] per_replica = dot %a, %b {contract_x=[1] "
        "contract_y=[0]}"};
    Arena *a = arena_new(NULL, "products");
    BeKernels kernels = cases_kernels(a, &two, 1, "f32", 600);
    assert_int_equal(be_cpu_kernel_grain(kernels.data[0]), 0);
    arena_release(a);
}

#define OF(dtype)                                                              \
    {                                                                          \
        "products of " dtype, products_have_the_bits_of_the_interpreter, NULL, \
            NULL, dtype                                                        \
    }

#define WIDE(dtype)                                                            \
    {                                                                          \
        "wide sums of " dtype, wide_sums_have_the_bits_of_the_interpreter,     \
            NULL, NULL, dtype                                                  \
    }

int
main(int argc, char **argv)
{
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        OF("f32"),
        OF("f64"),
        OF("bf16"),
        OF(CASES_ONE_CHAIN),
        WIDE("bf16"),
        WIDE(CASES_ONE_CHAIN),
        OF("f16"),
        cmocka_unit_test(batches_are_products_too),
        cmocka_unit_test(few_rows_are_divided_by_columns),
        cmocka_unit_test(columns_come_in_blocks),
        cmocka_unit_test(threads_have_enough_stack),
        cmocka_unit_test(zeros_are_multiplied_with_infinities),
        cmocka_unit_test(two_rows_are_not_divided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
