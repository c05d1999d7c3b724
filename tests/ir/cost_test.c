/*
 * cost_test.c - what kernels cost that read or change parts of large values
 */
#include "tests/unit/unit.h"

#include "ir/analysis/cost.h"
#include "ir/text/text.h"

/* Kernels of a table %t of 1000 rows of 16, two numbers of rows, and two rows:
 * the bytes that each reads and writes, and its operations. */
static const struct {
    const char *body, *result;
    double bytes, operations;
} kernels[] = {
    /* two rows are read and written, and their numbers read */
    {"%r: f32[2, 16] mirrored = take %x, %k {axis=0}\n", "2", 16 + 2 * 128, 32},
    /* twice: from memory at most all of the table */
    {"%a: f32[2, 16] mirrored = take %x, %k {axis=0}\n"
     "%r: f32[2, 16] mirrored = add %a, %a\n",
     "2", 16 + 2 * 128, 64},
    {"%r: f32[3, 16] mirrored = slice %x {start=[5, 0] dims=[3, 16] "
     "step=[1, 1]}\n",
     "3", 2 * 192, 48},
    /* all is read for another operation */
    {"%a: f32[1000, 16] mirrored = neg %x\n"
     "%b: f32[3, 16] mirrored = slice %x {start=[5, 0] dims=[3, 16] "
     "step=[1, 1]}\n"
     "%c: f32[3, 16] mirrored = slice %a {start=[5, 0] dims=[3, 16] "
     "step=[1, 1]}\n"
     "%r: f32[3, 16] mirrored = add %b, %c\n",
     "3", 64000 + 192, 16000 + 3 * 48},
    /* in place: rows are read, changed and written */
    {"%r: f32[1000, 16] mirrored = scatter %x, %k, %y {mode=add}\n", "1000",
     16 + 3 * 128, 32},
};

static IrOp *
kernel_of(Arena *a, int i)
{
    const char *text = arena_printf(
        a,
        "tfd-ir 1 phase replicated\n"
        "strategy one_device devices \"cpu:0\" replicas 1\n"
        "func @f(%%t: f32[1000, 16] mirrored, %%i: i64[2] mirrored, "
        "%%n: f32[2, 16] mirrored) program {\n"
        "%%all: f32[%s, 16] mirrored = kernel %%t%s%s "
        "(%%x: f32[1000, 16] mirrored%s%s) {\n%syield %%r\n}\n"
        "return %%all\n}\n",
        kernels[i].result, strstr(kernels[i].body, "%k") ? ", %i" : "",
        strstr(kernels[i].body, "%y") ? ", %n" : "",
        strstr(kernels[i].body, "%k") ? ", %k: i64[2] mirrored" : "",
        strstr(kernels[i].body, "%y") ? ", %y: f32[2, 16] mirrored" : "",
        kernels[i].body);
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, "kernels", text, strlen(text));
    IrModule *m = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    if (diag_num_errors(d))
        fail_msg("%s", diag_text(d, a));
    return m->first->body->first;
}

static void
parts_cost_what_they_are(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "kernels");
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const IrOp *kernel = kernel_of(a, (int)i);
        IrKernelWork w = ir_kernel_work(kernel->module, kernel);
        if (w.bytes != kernels[i].bytes ||
            w.operations != kernels[i].operations)
            fail_msg("kernel %zu: %g bytes, %g operations", i, w.bytes,
                     w.operations);
    }
    arena_release(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_cost_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
