/*
 * cases.c - kernels of step IR, compiled and compared with the evaluator
 */
#include "tests/codegen/cases.h"

#include <string.h>
#include "ir/plan/target.h"
#include "ir/rules/pairs.h"
#include "ir/text/text.h"
#include "tests/unit/unit.h"

/* text with dtype for T. */
static void
add_typed(Str *s, const char *text, const char *dtype)
{
    for (; *text; text++) {
        if (text[0] == 'T' && (text[1] == '[' || text[1] == ' '))
            str_add(s, dtype);
        else
            str_addc(s, *text);
    }
}

static void
add_operands(Str *s, const CodegenCase *c, const char *dtype, char name)
{
    for (int i = 0; i < 5 && c->types[i]; i++) {
        str_addf(s, "%s%%%c: ", i ? ", " : "", name + i);
        add_typed(s, c->types[i], dtype);
        str_add(s, " per_replica");
    }
}

static void
add_function(Str *s, const CodegenCase *c, const char *dtype, int number)
{
    str_addf(s, "func @f%d(", number);
    add_operands(s, c, dtype, 'A');
    str_add(s, ") program {\n%z: ");
    add_typed(s, c->result, dtype);
    str_add(s, " per_replica = kernel ");
    for (int i = 0; i < 5 && c->types[i]; i++)
        str_addf(s, "%s%%%c", i ? ", " : "", 'A' + i);
    str_add(s, " (");
    add_operands(s, c, dtype, 'a');
    str_add(s, ") {\n");
    add_typed(s, c->body, dtype);
    str_add(s, "\nyield %r\n}\nreturn %z\n}\n");
}

static void
set_one_chain(IrOp *op, void *data)
{
    (void)data;
    if (ir_adds_pairs(op))
        ir_set_int(op, A_one_chain, true);
}

BeKernels
cases_kernels(Arena *a, const CodegenCase *cases, int num, const char *dtype,
              int bound)
{
    bool one_chain = !strcmp(dtype, CASES_ONE_CHAIN);
    dtype = one_chain ? "bf16" : dtype;
    Str s = str_new(a);
    str_addf(&s,
             "tfd-ir 1 phase replicated\n"
             "strategy mirrored devices \"cpu:0\" replicas 1\n"
             "symbols n <= %d, N <= %d\n",
             bound, 2 * bound);
    for (int i = 0; i < num; i++)
        add_function(&s, &cases[i], dtype, i);
    const char *text = str_text(&s);
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, "cases", text, strlen(text));
    IrModule *m = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    for (IrFunc *fn = m ? m->first : NULL; fn && one_chain; fn = fn->next)
        ir_walk(fn->body, set_one_chain, NULL);
    BeKernels kernels = {0};
    bool good = !diag_num_errors(d) && be_kernels_build(a, m, NULL, &kernels);
    if (!good)
        print_error("%s", diag_text(d, a));
    assert_true(good);
    return kernels;
}

void
cases_check(Arena *a, const BeKernels *kernels, RtCode *const *codes, int num,
            int64_t n)
{
    for (int i = 0; i < kernels->len; i++) {
        int64_t dims[RUN_MAX_DIMS];
        run_dims(kernels->data[i], n, dims);
        int num_values = n > 1 ? RUN_NUM_FOR_PRODUCTS : RUN_NUM_VALUES;
        for (int v = 0; v < num_values; v++) {
            /* the first operand is sparse: it is A, mostly */
            int seed = v == RUN_SPARSE_FINITE ? 2 * i + 1 : v + i;
            RunCase c = {kernels->data[i], dims, seed, (RunValues)v};
            const char *wrong = run_compare(a, codes, num, &c);
            if (wrong)
                print_error("n = %d, %s\n", (int)n, wrong);
            assert_null(wrong);
        }
    }
}

void
cases_run(const CodegenCase *cases, int num_cases, const char *dtype)
{
    static const struct {
        const char *name, *dtype; /* NULL: it has code of its own for all */
    } targets[] = {{"x86-64-v3", NULL},
                   {"x86-64-v4", NULL},
                   {"x86-64-v4+bf16", CASES_ONE_CHAIN},
                   {"x86-64-v4+amx", "bf16"}};
    static const int64_t rows[] = {0, 1, 37};
    Arena *a = arena_new(NULL, "cases");
    BeKernels kernels = cases_kernels(a, cases, num_cases, dtype, 600);
    run_sample(&kernels);
    RtCode *codes[2 * 4];
    int num = 0;
    for (int t = 0; t < 4; t++) {
        const char *name = targets[t].name, *own = targets[t].dtype;
        if ((own && strcmp(dtype, own)) || !target_runs_here(name))
            continue;
        codes[num++] = run_compile(&kernels, name, 0);
        codes[num++] = run_compile(&kernels, name, 2);
    }
    for (int i = 0; i < 3; i++)
        cases_check(a, &kernels, codes, num, rows[i]);
    for (int i = 0; i < num; i++)
        rt_code_close(codes[i]);
    arena_release(a);
}
