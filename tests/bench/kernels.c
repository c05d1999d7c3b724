/*
 * kernels.c - how near kernels come to the peak of the machine
 *
 *   kernels                 everything
 *   kernels matmul conv     only lines whose name has one of the words
 *   kernels nt:509x127x61   that product of matrices, m x n x k, and no others
 *                           (N and T are as below; b16tn:... is a batch of 16,
 *                           nn:...+ adds a bias)
 *   kernels --rounds N      how often each is timed (9)
 *   kernels --asm           prints the assembly of the chosen lines instead
 *
 * Kernels are compiled from step IR as those of a plan are, and called as
 * compiled functions call them, with one core and with two. A line is the time
 * of one or more kernels in a row; a gradient of a convolution includes the
 * kernels that move its elements.
 *
 * Rates are relative to a peak measured at the same moment: fused multiply-adds
 * in registers for contractions, a copy of as many bytes for the others.  The
 * column "roof" is the rate in per cent of the bound that both give together (a
 * roofline).  Times of one core are those of the thread, so that other programs
 * disturb little; all are the best of all rounds.
 */
#include <immintrin.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "backend/backend.h"
#include "backend/cpu/cpu_kernel.h"
#include "backend/codegen/emit.h"
#include "ir/plan/target.h"
#include "ir/text/text.h"
#include "runtime/load/loader.h"
#include "runtime/hal/cpu/pool.h"
#include "tests/codegen/run.h"

enum {
    MAX_ARRAYS = 8,
    MAX_KERNELS = 10,
    TAPS = 3,
    PADDING = 1,
    FEW_CHANNELS = 4,
    ALIGN = 2 << 20,
    GRAIN_BYTES = 65536,
    CORES = 2
};

static const double round_seconds = 4e-3;

/* ---- the kernels -------------------------------------------------------- */

/* A kernel as step IR: its operands are %a, %b, ... */
typedef struct Step {
    const char *result;
    const char *types[5]; /* of operands, up to a NULL */
    const char *body;     /* ends with a yield */
} Step;

typedef struct Line {
    const char *name;
    double flops; /* 0: the rate is in bytes */
    Step steps[MAX_KERNELS];
    bool is_f64;
    bool is_chain; /* operands and results with the same text of their type, in
                      one place, are one array */
} Line;

/* [batch, m, k] times [batch, k, n], or without batch; N is as in BLAS, T means
 * that the operand is transposed in memory. */
typedef struct Product {
    const char *name;
    int batch, m, n, k;
    bool x_turned, y_turned;
    const char *dtype;
} Product;

static const Product products[] = {
    {"matmul nn", 0, 64, 64, 64, 0, 0, "f32"},
    {"matmul nn", 0, 128, 128, 128, 0, 0, "f32"},
    {"matmul nn", 0, 256, 256, 256, 0, 0, "f32"},
    {"matmul nn", 0, 512, 512, 512, 0, 0, "f32"},
    {"matmul nn", 0, 1024, 1024, 1024, 0, 0, "f32"},
    {"matmul nn", 0, 2048, 2048, 2048, 0, 0, "f32"},
    {"matmul nt", 0, 64, 64, 64, 0, 1, "f32"},
    {"matmul nt", 0, 128, 128, 128, 0, 1, "f32"},
    {"matmul nt", 0, 256, 256, 256, 0, 1, "f32"},
    {"matmul nt", 0, 512, 512, 512, 0, 1, "f32"},
    {"matmul nt", 0, 1024, 1024, 1024, 0, 1, "f32"},
    {"matmul nt", 0, 2048, 2048, 2048, 0, 1, "f32"},
    {"matmul tn", 0, 64, 64, 64, 1, 0, "f32"},
    {"matmul tn", 0, 128, 128, 128, 1, 0, "f32"},
    {"matmul tn", 0, 256, 256, 256, 1, 0, "f32"},
    {"matmul tn", 0, 512, 512, 512, 1, 0, "f32"},
    {"matmul tn", 0, 1024, 1024, 1024, 1, 0, "f32"},
    {"matmul tn", 0, 2048, 2048, 2048, 1, 0, "f32"},
    {"charlm qkv", 0, 2048, 288, 96, 0, 0, "f32"},
    {"charlm qkv dx", 0, 2048, 96, 288, 0, 1, "f32"},
    {"charlm qkv dw", 0, 96, 288, 2048, 1, 0, "f32"},
    {"charlm up", 0, 2048, 384, 96, 0, 0, "f32"},
    {"charlm down", 0, 2048, 96, 384, 0, 0, "f32"},
    {"charlm down dw", 0, 384, 96, 2048, 1, 0, "f32"},
    {"charlm logits", 0, 2048, 256, 96, 0, 1, "f32"},
    {"charlm scores", 128, 64, 64, 24, 0, 1, "f32"},
    {"charlm att @ v", 128, 64, 24, 64, 0, 0, "f32"},
    {"convnet head", 0, 64, 4, 32, 0, 0, "f32"},
    {"matmul f64", 0, 512, 512, 512, 0, 0, "f64"},
    {"matmul bf16", 0, 512, 512, 512, 0, 0, "bf16"},
    {"matmul f16 nt", 0, 512, 512, 512, 0, 1, "f16"},
};

/* Windows of 3 x 3 with zeros around; stride of the windows. */
typedef struct Conv {
    const char *name;
    int rows, size, in, out, stride;
} Conv;

static const Conv convs[] = {
    {"conv 16 32", 64, 16, 32, 32, 1},
    {"conv 32 64", 32, 32, 64, 64, 1},
    {"conv stem", 64, 32, 1, 32, 1},
    {"conv stem near", 8, 32, 1, 32, 1}, /* in the second cache */
    {"conv rgb", 64, 32, 3, 32, 1},
    {"conv stride 2", 32, 32, 64, 64, 2},
};

/* Windows of taps x taps of each channel alone, with zeros around. */
typedef struct Depthwise {
    const char *name;
    int rows, size, channels, taps, stride;
} Depthwise;

static const Depthwise depthwise[] = {
    {"depthwise 3 x 3", 32, 16, 96, 3, 1},
    {"depthwise 3 x 3 of 32", 32, 32, 96, 3, 1},
    {"depthwise 3 x 3 of 4", 32, 4, 576, 3, 1},
    {"depthwise 5 x 5", 32, 16, 96, 5, 1},
    {"depthwise stride 2", 32, 16, 96, 3, 2},
};

enum {
    NUM_DEPTHWISE = sizeof depthwise / sizeof depthwise[0],
    NUM_PRODUCTS = sizeof products / sizeof products[0],
    NUM_CONVS = sizeof convs / sizeof convs[0],
};

#define ROWS "f32[4096, 256]"

static const Line others[] = {
    {"elementwise relu(x * w + b)",
     .steps = {{ROWS,
                {ROWS, "f32[256]", "f32[256]"},
                "%m: " ROWS " mirrored = mul %a, %b\n"
                "%s: " ROWS " mirrored = add %m, %c\n"
                "%z: f32 mirrored = constant {dims=[] dtype=f32 data=[0.0]}\n"
                "%r: " ROWS " mirrored = maximum %s, %z\nyield %r"}}},
    {"elementwise x + y",
     .steps = {{ROWS,
                {ROWS, ROWS},
                "%r: " ROWS " mirrored = add %a, %b\nyield %r"}}},
    {"elementwise tanh",
     .steps = {{ROWS, {ROWS}, "%r: " ROWS " mirrored = tanh %a\nyield %r"}}},
    {"softmax of rows",
     .steps = {{ROWS,
                {ROWS},
                "%m: f32[4096, 1] mirrored = reduce_max %a {axes=[1] "
                "keepdims=true}\n"
                "%d: " ROWS " mirrored = sub %a, %m\n"
                "%e: " ROWS " mirrored = exp %d\n"
                "%s: f32[4096, 1] mirrored = sum %e {axes=[1] keepdims=true}\n"
                "%r: " ROWS " mirrored = div %e, %s\nyield %r"}}},
    {"mean and variance of columns",
     .steps = {{"f32[64]",
                {"f32[16384, 64]"},
                "%n: f32 mirrored = constant {dims=[] dtype=f32 "
                "data=[16384.0]}\n"
                "%s: f32[64] mirrored = sum %a {axes=[0]}\n"
                "%m: f32[64] mirrored = div %s, %n\n"
                "%d: f32[16384, 64] mirrored = sub %a, %m\n"
                "%q: f32[16384, 64] mirrored = mul %d, %d\n"
                "%v: f32[64] mirrored = sum %q {axes=[0]}\n"
                "%r: f32[64] mirrored = add %m, %v\nyield %r"}}},
    {"products summed over columns",
     .steps = {{"f32[3072]",
                {"f32[1024, 3072]", "f32[1024, 3072]"},
                "%p: f32[1024, 3072] mirrored = mul %a, %b\n"
                "%r: f32[3072] mirrored = sum %p {axes=[0]}\nyield %r"}}},
    {"layer norm of rows",
     .steps =
         {{ROWS,
           {ROWS, "f32[256]", "f32[256]"},
           "%n: f32 mirrored = constant {dims=[] dtype=f32 data=[256.0]}\n"
           "%e: f32 mirrored = constant {dims=[] dtype=f32 data=[0.00001]}\n"
           "%s: f32[4096, 1] mirrored = sum %a {axes=[1] keepdims=true}\n"
           "%m: f32[4096, 1] mirrored = div %s, %n\n"
           "%d: " ROWS " mirrored = sub %a, %m\n"
           "%q: " ROWS " mirrored = mul %d, %d\n"
           "%t: f32[4096, 1] mirrored = sum %q {axes=[1] keepdims=true}\n"
           "%v: f32[4096, 1] mirrored = div %t, %n\n"
           "%w: f32[4096, 1] mirrored = add %v, %e\n"
           "%i: f32[4096, 1] mirrored = rsqrt %w\n"
           "%x: " ROWS " mirrored = mul %d, %i\n"
           "%y: " ROWS " mirrored = mul %x, %b\n"
           "%r: " ROWS " mirrored = add %y, %c\nyield %r"}}},
};

enum { NUM_OTHERS = sizeof others / sizeof others[0] };

static const char *
matrix(Arena *a, const Product *p, int rows, int columns)
{
    if (!p->batch)
        return arena_printf(a, "%s[%d, %d]", p->dtype, rows, columns);
    return arena_printf(a, "%s[%d, %d, %d]", p->dtype, p->batch, rows, columns);
}

/* With a bias, if requested, that is added to each row. */
static Line
line_of_product(Arena *a, const Product *p, bool bias)
{
    int first = p->batch ? 1 : 0;
    Line line = {.flops = 2.0 * p->m * p->n * p->k * (p->batch ? p->batch : 1)};
    line.name = arena_printf(a, "%s %d %d %d", p->name, p->m, p->n, p->k);
    line.is_f64 = strcmp(p->dtype, "f64") == 0;
    Step *s = &line.steps[0];
    s->result = matrix(a, p, p->m, p->n);
    s->types[0] =
        p->x_turned ? matrix(a, p, p->k, p->m) : matrix(a, p, p->m, p->k);
    s->types[1] =
        p->y_turned ? matrix(a, p, p->n, p->k) : matrix(a, p, p->k, p->n);
    s->body = arena_printf(a,
                           "%%d: %s mirrored = dot %%a, %%b {contract_x=[%d] "
                           "contract_y=[%d]%s}\n",
                           s->result, first + !p->x_turned, first + p->y_turned,
                           p->batch ? " batch_x=[0] batch_y=[0]" : "");
    if (bias) {
        s->types[2] = arena_printf(a, "%s[%d]", p->dtype, p->n);
        s->body = arena_printf(a, "%s%%r: %s mirrored = add %%d, %%c\n",
                               s->body, s->result);
    }
    s->body = arena_printf(a, "%syield %%%c", s->body, bias ? 'r' : 'd');
    return line;
}

static const char *
image(Arena *a, int rows, int height, int width, int channels)
{
    return arena_printf(a, "f32[%d, %d, %d, %d]", rows, height, width,
                        channels);
}

static Step
convolve(Arena *a, const char *kind, const char *result, const char *x,
         const char *y, const int *low, const int *size, int stride)
{
    const char *op = arena_printf(
        a,
        "%%r: %s mirrored = %s %%a, %%b {low=[%d, %d] "
        "dims=[%d, %d] step=[%d, %d]}\nyield %%r",
        result, kind, low[0], low[1], size[0], size[1], stride, stride);
    return (Step){result, {x, y}, op};
}

/* The weights of a gradient, turned round: places from first on. */
static Step
turn_weights(Arena *a, const Conv *c, const char *w, const int *first,
             const int *size)
{
    const char *some = image(a, size[0], size[1], c->in, c->out);
    const char *turned = image(a, size[0], size[1], c->out, c->in);
    const char *op = arena_printf(
        a,
        "%%s: %s mirrored = slice %%a {start=[%d, %d, 0, 0] dims=[%d, %d, %d, "
        "%d] step=[%d, %d, 1, 1]}\n%%t: %s mirrored = reverse %%s {axes=[0, "
        "1]}\n%%r: %s mirrored = transpose %%t {perm=[0, 1, 3, 2]}\nyield %%r",
        some, first[0], first[1], size[0], size[1], c->in, c->out, c->stride,
        c->stride, some, turned);
    return (Step){turned, {w}, op};
}

/* Results of convolutions, every other step from the second on, between each
 * other. */
static Step
interleave(Arena *a, const Conv *c, const Step *parts, const char *whole)
{
    Step s = {.result = whole};
    Str op = str_new(a);
    const char *sum = "";
    for (int i = 0; i < c->stride * c->stride; i++) {
        s.types[i] = parts[2 * i].result;
        str_addf(&op,
                 "%%p%d: %s mirrored = pad %%%c {low=[0, %d, %d, 0] dims=[%d, "
                 "%d, %d, %d] step=[1, %d, %d, 1]}\n",
                 i, whole, 'a' + i, i / c->stride, i % c->stride, c->rows,
                 c->size, c->size, c->in, c->stride, c->stride);
        if (i > 0)
            str_addf(&op, "%%s%d: %s mirrored = add %s, %%p%d\n", i, whole, sum,
                     i);
        sum = arena_printf(a, i ? "%%s%d" : "%%p%d", i);
    }
    str_addf(&op, "yield %s", sum);
    s.body = str_text(&op);
    return s;
}

/* The contribution of each window to one of its pixels, of all of `whole`,
 * moved to that pixel in x. */
static void
move_tap(Arena *a, Str *op, const Conv *c, const char *x, const int *tap)
{
    int first[2], size[2], place[2], number = tap[0] * TAPS + tap[1];
    for (int k = 0; k < 2; k++) {
        first[k] = tap[k] < PADDING ? PADDING - tap[k] : 0;
        place[k] = first[k] + tap[k] - PADDING;
        size[k] = c->size - first[k] - (place[k] > 0 ? place[k] : 0);
    }
    const char *flat = image(a, c->rows, size[0], size[1], c->in);
    str_addf(op,
             "%%s%d: f32[%d, %d, %d, 1, 1, %d] mirrored = slice %%a "
             "{start=[0, %d, %d, %d, %d, 0] dims=[%d, %d, %d, 1, 1, %d] "
             "step=[1, 1, 1, 1, 1, 1]}\n",
             number, c->rows, size[0], size[1], c->in, first[0], first[1],
             tap[0], tap[1], c->rows, size[0], size[1], c->in);
    str_addf(op,
             "%%t%d: %s mirrored = reshape %%s%d {dims=[%d, %d, %d, %d]}\n"
             "%%p%d: %s mirrored = pad %%t%d {low=[0, %d, %d, 0] dims=[%d, %d, "
             "%d, %d] step=[1, 1, 1, 1]}\n",
             number, flat, number, c->rows, size[0], size[1], c->in, number, x,
             number, place[0], place[1], c->rows, c->size, c->size, c->in);
}

/* The gradient of x of few channels, of windows at every place. */
static void
steps_by_taps(Arena *a, const Conv *c, const char *x, const char *y, Step *s)
{
    const char *all = arena_printf(a, "f32[%d, %d, %d, %d, %d, %d]", c->rows,
                                   c->size, c->size, TAPS, TAPS, c->in);
    const char *w = image(a, TAPS, TAPS, c->in, c->out), *sum = "%p0";
    s[0] = (Step){.result = all, .types = {y, w}};
    s[0].body = arena_printf(a,
                             "%%r: %s mirrored = dot %%a, %%b {contract_x=[3] "
                             "contract_y=[3]}\nyield %%r",
                             all);
    Str op = str_new(a);
    for (int i = 0; i < TAPS * TAPS; i++) {
        move_tap(a, &op, c, x, (const int[2]){i / TAPS, i % TAPS});
        if (!i)
            continue;
        str_addf(&op, "%%q%d: %s mirrored = add %s, %%p%d\n", i, x, sum, i);
        sum = arena_printf(a, "%%q%d", i);
    }
    str_addf(&op, "yield %s", sum);
    s[1] = (Step){.result = x, .types = {all}, .body = str_text(&op)};
}

/* The gradient of x as passes/autodiff/grad_rules_shape.c builds it, for images
 * whose size is a multiple of the stride. */
static void
steps_of_dx(Arena *a, const Conv *c, const char *x, const char *y, Step *s)
{
    if (c->in <= FEW_CHANNELS) {
        steps_by_taps(a, c, x, y, s);
        return;
    }
    int small = c->size / c->stride;
    const int dims[2] = {small, small};
    const char *w = image(a, TAPS, TAPS, c->in, c->out);
    Step *first = s;
    for (int i = 0; i < c->stride * c->stride; i++) {
        int place[2] = {i / c->stride, i % c->stride}, low[2], size[2], tap[2];
        for (int k = 0; k < 2; k++) {
            tap[k] = (place[k] + PADDING) % c->stride;
            size[k] = (TAPS - tap[k] + c->stride - 1) / c->stride;
            low[k] = size[k] - 1 - (place[k] + PADDING - tap[k]) / c->stride;
        }
        *s++ = turn_weights(a, c, w, tap, size);
        const char *part = image(a, c->rows, small, small, c->in);
        *s = convolve(a, "conv", part, y, s[-1].result, low, dims, 1);
        s++;
    }
    if (c->stride > 1)
        *s = interleave(a, c, first + 1, x);
}

static void
lines_of_conv(Arena *a, const Conv *c, Line *out)
{
    static const int low[2] = {PADDING, PADDING}, taps[2] = {TAPS, TAPS};
    int small = c->size / c->stride;
    const int windows[2] = {small, small};
    const char *x = image(a, c->rows, c->size, c->size, c->in);
    const char *y = image(a, c->rows, small, small, c->out);
    const char *w = image(a, TAPS, TAPS, c->in, c->out);
    double flops = 2.0 * c->rows * small * small * TAPS * TAPS * c->in * c->out;
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"", " dx", " dw"};
        out[i] = (Line){.flops = flops, .is_chain = true};
        out[i].name = arena_printf(a, "%s%s", c->name, names[i]);
    }
    out[0].steps[0] = convolve(a, "conv", y, x, w, low, windows, c->stride);
    steps_of_dx(a, c, x, y, out[1].steps);
    out[2].steps[0] =
        convolve(a, "conv_weights", w, x, y, low, taps, c->stride);
}

/* The gradient of x is a convolution with the weights turned round. */
static void
lines_of_depthwise(Arena *a, const Depthwise *c, Line *out)
{
    int small = c->size / c->stride, padding = c->taps / 2;
    const char *x = image(a, c->rows, c->size, c->size, c->channels);
    const char *y = image(a, c->rows, small, small, c->channels);
    const char *w = image(a, c->taps, c->taps, 1, c->channels);
    double flops =
        2.0 * c->rows * small * small * c->taps * c->taps * c->channels;
    for (int i = 0; i < 2; i++) {
        const char *op = arena_printf(
            a,
            "%%r: %s mirrored = %s %%a, %%b {low=[%d, %d] dims=[%d, %d] "
            "step=[%d, %d] groups=%d}\nyield %%r",
            i ? w : y, i ? "conv_weights" : "conv", padding, padding,
            i ? c->taps : small, i ? c->taps : small, c->stride, c->stride,
            c->channels);
        out[i] = (Line){.flops = flops, .is_chain = true};
        out[i].name = arena_printf(a, "%s%s", c->name, i ? " dw" : "");
        out[i].steps[0] = (Step){i ? w : y, {x, i ? y : w}, op};
    }
}

/* ---- kernels of a line --------------------------------------------------- */

typedef struct Call {
    const BeKernel *kernel;
    TfdKernel *code;
    void *arrays[MAX_ARRAYS];
    int64_t items;
} Call;

/* Memory, and the type that it was made for. */
typedef struct Array {
    const char *type;
    void *memory;
} Array;

typedef struct Calls {
    int num;
    Call call[MAX_KERNELS];
    double bytes; /* read and written, except values between steps */
    int num_arrays;
    Array arrays[MAX_KERNELS * MAX_ARRAYS];
} Calls;

static const char *
module_of(Arena *a, const Line *line)
{
    Str s = str_new(a);
    str_add(&s, "tfd-ir 1 phase replicated\n"
                "strategy mirrored devices \"cpu:0\" replicas 1\n");
    for (int i = 0; i < MAX_KERNELS && line->steps[i].result; i++) {
        const Step *k = &line->steps[i];
        str_addf(&s, "func @f%d(", i);
        for (int j = 0; k->types[j]; j++)
            str_addf(&s, "%s%%%d: %s mirrored", j ? ", " : "", j, k->types[j]);
        str_addf(&s, ") program {\n%%result: %s mirrored = kernel ", k->result);
        for (int j = 0; k->types[j]; j++)
            str_addf(&s, "%s%%%d", j ? ", " : "", j);
        str_add(&s, " (");
        for (int j = 0; k->types[j]; j++)
            str_addf(&s, "%s%%%c: %s mirrored", j ? ", " : "", 'a' + j,
                     k->types[j]);
        str_addf(&s, ") {\n%s\n}\nreturn %%result\n}\n", k->body);
    }
    return str_text(&s);
}

static void
fail(const char *what)
{
    fprintf(stderr, "kernels: %s\n", what);
    exit(1);
}

static BeKernels
kernels_of(Arena *a, const Line *line)
{
    const char *text = module_of(a, line);
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, line->name, text, strlen(text));
    IrModule *m = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    BeKernels kernels = {0};
    if (diag_num_errors(d) || !be_kernels_build(a, m, NULL, &kernels))
        fail(diag_text(d, a));
    return kernels;
}

/* In large pages, as the arena of a device is. */
static void *
memory_new(size_t bytes)
{
    bytes = bytes / ALIGN * ALIGN + ALIGN;
    void *p = aligned_alloc(ALIGN, bytes);
    if (!p)
        fail("no memory");
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

static void *
array_new(const KArray *of)
{
    size_t size = (size_t)of->size.c;
    void *p = memory_new(size * dtype_info[of->dtype].bytes);
    for (size_t i = 0; i < size; i++)
        scalar_store(of->dtype, p, (int64_t)i,
                     scalar_float(of->dtype, (double)(i * 37 % 64) / 64 - 0.5));
    return p;
}

static void *
array_of(Calls *calls, const Line *line, const char *type, const KArray *of)
{
    for (int i = 0; line->is_chain && i < calls->num_arrays; i++) {
        if (calls->arrays[i].type == type)
            return calls->arrays[i].memory;
    }
    Array *a = &calls->arrays[calls->num_arrays++];
    *a = (Array){type, array_new(of)};
    return a->memory;
}

/* Whether one step's result is another's operand. */
static bool
is_handed_on(const Line *line, const char *type)
{
    bool made = false, used = false;
    for (int i = 0; line->is_chain && line->steps[i].result; i++) {
        const Step *s = &line->steps[i];
        made |= s->result == type;
        for (int j = 0; s->types[j]; j++)
            used |= s->types[j] == type;
    }
    return made && used;
}

static void
call_open(Calls *calls, const Line *line, int number, const BeKernel *k,
          const RtCode *code)
{
    Call *c = &calls->call[number];
    const Step *s = &line->steps[number];
    union {
        TfdFunction *function;
        TfdKernel *kernel;
    } found = {.function = rt_code_function(code, k->name)};
    *c = (Call){.kernel = k, .code = found.kernel};
    c->items = be_kernel_items(k).c;
    int num = 0;
    for (int role = K_IN; role <= K_OUT; role++) {
        for (int i = 0; i < k->arrays[role].len; i++) {
            const KArray *array = k->arrays[role].data[i];
            const char *type = role == K_OUT ? s->result : s->types[i];
            c->arrays[num++] = array_of(calls, line, type, array);
            if (!is_handed_on(line, type))
                calls->bytes += (double)array->size.c *
                                (double)dtype_info[array->dtype].bytes;
        }
    }
}

static Calls
calls_open(const Line *line, const BeKernels *kernels, const RtCode *code)
{
    Calls calls = {.num = kernels->len};
    for (int i = 0; i < kernels->len; i++)
        call_open(&calls, line, i, kernels->data[i], code);
    return calls;
}

static void
calls_close(Calls *calls)
{
    for (int i = 0; i < calls->num_arrays; i++)
        free(calls->arrays[i].memory);
}

/* ---- work to be timed ---------------------------------------------------- */

typedef struct Work Work;
struct Work {
    void (*run)(const Work *w);
    int cores;
    RtPool *pool;
    const Calls *calls; /* of kernels */
    size_t bytes;       /* of a copy, read and written */
    char *to;
};

static void
run_items(void *data, int64_t begin, int64_t end)
{
    static const int64_t dims[1] = {0};
    const Call *c = data;
    c->code(c->arrays, dims, begin, end);
}

static void
run_calls(const Work *w)
{
    for (int i = 0; i < w->calls->num; i++) {
        Call c = w->calls->call[i];
        int64_t grain = be_cpu_kernel_grain(c.kernel);
        if (w->cores == 1 || !grain)
            run_items(&c, 0, c.items);
        else
            rt_pool_run(w->pool, run_items, &c, c.items, grain);
    }
}

static void
copy_part(void *data, int64_t begin, int64_t end)
{
    const Work *w = data;
    size_t half = w->bytes / 2;
    memcpy(w->to + begin, w->to + half + begin, (size_t)(end - begin));
}

static void
run_copy(const Work *w)
{
    Work copy = *w;
    int64_t half = (int64_t)w->bytes / 2;
    if (w->cores == 1)
        copy_part(&copy, 0, half);
    else
        rt_pool_run(w->pool, copy_part, &copy, half, GRAIN_BYTES);
}

enum { PEAK_ROUNDS = 20000, CHAINS = 12 };

static volatile float nobody;

#define PEAK(name, isa, vector, splat, fma)                                    \
    __attribute__((target(isa))) static void name(void)                        \
    {                                                                          \
        vector x[CHAINS], by = splat(0.999F);                                  \
        for (int i = 0; i < CHAINS; i++)                                       \
            x[i] = splat((float)i);                                            \
        for (int k = 0; k < PEAK_ROUNDS; k++)                                  \
            for (int i = 0; i < CHAINS; i++)                                   \
                x[i] = fma(x[i], by, by);                                      \
        float sum = 0;                                                         \
        for (int i = 0; i < CHAINS; i++)                                       \
            sum += x[i][0];                                                    \
        nobody = sum;                                                          \
    }

PEAK(peak_v3, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps)
PEAK(peak_v4, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps)

static bool wide; /* v4 */

static double
peak_flops(void)
{
    return 2.0 * CHAINS * PEAK_ROUNDS * (wide ? 16 : 8);
}

static void
peak_part(void *data, int64_t begin, int64_t end)
{
    (void)data;
    for (; begin < end; begin++)
        (wide ? peak_v4 : peak_v3)();
}

static void
run_peak(const Work *w)
{
    if (w->cores == 1)
        peak_part(NULL, 0, 1);
    else
        rt_pool_run(w->pool, peak_part, NULL, w->cores, 1);
}

/* ---- timing -------------------------------------------------------------- */

static double
seconds(int cores)
{
    struct timespec t;
    clock_gettime(cores == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Of one run, from as many as last long enough to be timed. */
static double
time_round(const Work *w, int *repeats)
{
    double begin = seconds(w->cores);
    for (int i = 0; i < *repeats; i++)
        w->run(w);
    double took = seconds(w->cores) - begin;
    if (took < round_seconds / 2)
        *repeats *= 2;
    return took / *repeats * (took < round_seconds / 2 ? 2 : 1);
}

enum { KERNELS, ADDS, COPY, NUM_WORKS };

/* The best times of all, in turn. */
static void
time_all(const Work *works, int rounds, double *best)
{
    int repeats[NUM_WORKS] = {1, 1, 1};
    for (int k = 0; k < NUM_WORKS; k++)
        best[k] = 1e9;
    for (int i = 0; i < rounds + 6; i++) { /* some to find the repeats */
        for (int k = 0; k < NUM_WORKS; k++) {
            double t = time_round(&works[k], &repeats[k]);
            best[k] = t < best[k] ? t : best[k];
        }
    }
}

typedef struct Bench {
    Arena *arena;
    RtPool *pool;
    int rounds;
    bool assembly;
    int num_words;
    char **words;
    bool only_products; /* all words were products of given sizes */
} Bench;

static void
measure(const Bench *b, const Line *line, const Calls *calls, int cores)
{
    Work works[NUM_WORKS] = {
        {.run = run_calls}, {.run = run_peak}, {.run = run_copy}};
    double times[NUM_WORKS], scale = 1e-9;
    for (int k = 0; k < NUM_WORKS; k++) {
        works[k].cores = cores;
        works[k].pool = b->pool;
    }
    works[KERNELS].calls = calls;
    works[COPY].bytes = (size_t)calls->bytes / 2 * 2;
    works[COPY].to = memory_new(works[COPY].bytes);
    time_all(works, b->rounds, times);
    double amount = line->flops ? line->flops : calls->bytes;
    double peak = peak_flops() * cores / (line->is_f64 ? 2 : 1) / times[ADDS];
    double copy = calls->bytes / times[COPY], rate = amount / times[KERNELS];
    double most = line->flops ? peak : copy;
    double least = fmax(amount / most, times[COPY]);
    printf(" %8.1f %7.1f %5.1f%% %5.1f%%", rate * scale, most * scale,
           100 * rate / most, 100 * least / times[KERNELS]);
    free(works[COPY].to);
}

static bool
is_chosen(const Bench *b, const char *name)
{
    bool any = b->num_words == 0;
    for (int i = 0; i < b->num_words; i++)
        any |= strstr(name, b->words[i]) != NULL;
    return any;
}

static void
do_line(const Bench *b, const Line *line)
{
    if (!is_chosen(b, line->name))
        return;
    Arena *a = arena_new(b->arena, "line");
    BeKernels kernels = kernels_of(a, line);
    if (b->assembly) {
        BeOptions options = {.level = 2};
        Str s = str_new(a);
        be_kernels_print(&s, &kernels);
        if (be_print_asm(&s, NULL, &kernels, &options))
            fail("no assembly");
        puts(str_text(&s));
    } else {
        double begin = seconds(1);
        RtCode *code = run_compile(&kernels, "native", 2);
        double compiled = seconds(1) - begin;
        Calls calls = calls_open(line, &kernels, code);
        printf("%-32s", line->name);
        for (int cores = 1; cores <= CORES; cores++)
            measure(b, line, &calls, cores);
        printf(" %7.1f\n", compiled * 1e3);
        calls_close(&calls);
        rt_code_close(code);
    }
    fflush(stdout);
    arena_release(a);
}

/* Whether a word asks for a product: [bBATCH]{n,t}{n,t}:MxNxK[+]. */
static bool
parse_product(const char *word, Product *p, bool *bias)
{
    char x, y;
    int read = 0;
    *p = (Product){.name = word, .dtype = "f32"};
    if (sscanf(word, "b%d", &p->batch) == 1)
        word += 1 + strspn(word + 1, "0123456789");
    if (sscanf(word, "%c%c:%dx%dx%d%n", &x, &y, &p->m, &p->n, &p->k, &read) !=
        5)
        return false;
    *bias = strcmp(word + read, "+") == 0;
    if (word[read] && !*bias)
        return false;
    p->x_turned = x == 't';
    p->y_turned = y == 't';
    return strchr("nt", x) && strchr("nt", y) && p->m > 0 && p->n > 0 &&
           p->k > 0;
}

/* Those that are asked for by their sizes, in place of the words. */
static void
do_products_of_words(Bench *b)
{
    int num = 0;
    for (int i = 0; i < b->num_words; i++) {
        Product p;
        bool bias;
        if (!parse_product(b->words[i], &p, &bias)) {
            b->words[num++] = b->words[i];
            continue;
        }
        Line line = line_of_product(b->arena, &p, bias);
        line.name = b->words[i];
        Bench all = *b;
        all.num_words = 0;
        do_line(&all, &line);
    }
    b->only_products = num == 0 && b->num_words > 0;
    b->num_words = num;
}

static void
do_lines(const Bench *b)
{
    for (int i = 0; i < NUM_PRODUCTS; i++) {
        Line line = line_of_product(b->arena, &products[i], false);
        do_line(b, &line);
    }
    for (int i = 0; i < NUM_CONVS; i++) {
        Line lines[3];
        lines_of_conv(b->arena, &convs[i], lines);
        for (int j = 0; j < 3; j++)
            do_line(b, &lines[j]);
    }
    for (int i = 0; i < NUM_DEPTHWISE; i++) {
        Line lines[2];
        lines_of_depthwise(b->arena, &depthwise[i], lines);
        for (int j = 0; j < 2; j++)
            do_line(b, &lines[j]);
    }
    for (int i = 0; i < NUM_OTHERS; i++)
        do_line(b, &others[i]);
}

int
main(int argc, char **argv)
{
    Bench b = {.arena = arena_new(NULL, "kernels"), .rounds = 9};
    b.words = argv;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            b.rounds = atoi(argv[++i]);
        else if (strcmp(argv[i], "--asm") == 0)
            b.assembly = true;
        else
            b.words[b.num_words++] = argv[i];
    }
    const char *here = target_here();
    wide = here && strncmp(here, "x86-64-v4", strlen("x86-64-v4")) == 0;
    if (!here || !target_allow(target_find(here)))
        fail("this processor runs none of our targets");
    if (rt_pool_open(CORES, true, &b.pool))
        fail("no threads");
    if (!b.assembly)
        printf("%s, best of %d rounds; products in GF/s, others in GB/s read "
               "and written\n%-32s %30s %30s %7s\n%-32s %8s %7s %6s %6s %8s "
               "%7s %6s %6s %7s\n",
               here, b.rounds, "", "one core  ", "two cores  ", "compile", "",
               "rate", "peak", "", "roof", "rate", "peak", "", "roof", "ms");
    do_products_of_words(&b);
    if (!b.only_products)
        do_lines(&b);
    rt_pool_close(b.pool);
    arena_release(b.arena);
    return 0;
}
