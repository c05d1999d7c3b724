/*
 * spills_test.c - accumulators of micro-kernels stay in registers
 *
 * A tile is chosen to fill the registers, and LLVM decides which values are in
 * them: a tile that is one row too large still computes the right bits, at a
 * third of the rate.  So the assembly of products of many shapes and layouts is
 * read, for every CPU whose code can be made here: no loop of a micro-kernel
 * may store a register to the stack, or load one from there.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "ir/plan/target.h"
#include "tests/codegen/cases.h"

/* Operands as they lie in memory: %a times %b with or without a bias. */
#define PRODUCT(m, n, a, b, x, y)                                              \
    {                                                                          \
        "T[" m ", " n "]", {"T[" a "]", "T[" b "]"},                           \
            "%r: T[" m ", " n "] per_replica = dot %a, %b {contract_x=[" x     \
            "] contract_y=[" y "]}"                                            \
    }
#define NN(m, n, k) PRODUCT(m, n, m ", " k, k ", " n, "1", "0")
#define NT(m, n, k) PRODUCT(m, n, m ", " k, n ", " k, "1", "1")
#define TN(m, n, k) PRODUCT(m, n, k ", " m, k ", " n, "0", "0")

static const CodegenCase cases[] = {
    NN("784", "1024", "256"),
    NN("800", "1000", "784"),
    NN("784", "48", "256"),
    NN("784", "16", "256"),
    NN("n", "70", "300"),
    NT("784", "1024", "256"),
    NT("800", "1000", "784"),
    NT("n", "70", "300"),
    TN("784", "1024", "256"),
    TN("768", "3072", "1024"),
    TN("800", "1000", "784"),
    TN("784", "48", "256"),
    TN("14", "1024", "256"),
    TN("12", "70", "n"),
    {"T[n, 1000]",
     {"T[n, 784]", "T[784, 1000]", "T[1000]"},
     "%d: T[n, 1000] per_replica = dot %a, %b {contract_x=[1] contract_y=[0]}\n"
     "%r: T[n, 1000] per_replica = add %d, %c"},
    /* im2col lines along m, and along k */
    {"T[n, 12, 12, 32]",
     {"T[n, 12, 12, 32]", "T[3, 3, 32, 32]"},
     "%r: T[n, 12, 12, 32] per_replica = conv %a, %b {low=[1, 1] "
     "dims=[12, 12] step=[1, 1]}"},
    {"T[3, 3, 32, 64]",
     {"T[32, 14, 14, 32]", "T[32, 14, 14, 64]"},
     "%r: T[3, 3, 32, 64] per_replica = conv_weights %a, %b {low=[1, 1] "
     "dims=[3, 3] step=[1, 1]}"},
};

/* ---- reading assembly ---------------------------------------------------- */

/* What is known of the block of assembly that is being read. */
typedef struct AsmBlock {
    char label[32];
    int multiplications, spills;
} AsmBlock;

/* The line without its end, and the text after it. */
static const char *
read_line(const char *at, char *line, size_t size)
{
    size_t n = strcspn(at, "\n"), copied = n < size ? n : size - 1;
    memcpy(line, at, copied);
    line[copied] = '\0';
    return at + n + (at[n] == '\n');
}

static bool
is_spill(const char *line)
{
    bool is_vector = strstr(line, "mm") != NULL;
    return is_vector && (strstr(line, "Spill") || strstr(line, "Reload"));
}

/* Whether a line jumps to the beginning of its own block. */
static bool
ends_loop(const AsmBlock *b, const char *line)
{
    const char *to = strstr(line, ".LBB");
    size_t n = strlen(b->label);
    return line[0] == '\t' && line[1] == 'j' && n && to &&
           strncmp(to, b->label, n) == 0 && strcspn(to, " \t") == n;
}

/* Loops that multiply, and those of them that spill. */
typedef struct Loops {
    int num, spilling;
} Loops;

static void
read_function(const char *text, Loops *loops)
{
    AsmBlock b = {0};
    char line[256];
    while (*text && strncmp(text, ".Lfunc_end", 10) != 0) {
        text = read_line(text, line, sizeof line);
        if (strncmp(line, ".LBB", 4) == 0) {
            size_t n = strcspn(line, ":");
            assert_true(n < sizeof b.label);
            b = (AsmBlock){0};
            memcpy(b.label, line, n);
        }
        b.multiplications +=
            strstr(line, "vfm") != NULL || strstr(line, "vdpbf16ps") != NULL;
        b.spills += is_spill(line);
        if (ends_loop(&b, line) && b.multiplications) {
            loops->num++;
            loops->spilling += b.spills > 0;
        }
    }
}

/* The micro-kernels' loops in an assembly. */
static Loops
read_loops(const char *text)
{
    static const char label[] = "\nmicro_kernel:";
    Loops loops = {0};
    while ((text = strstr(text, label))) {
        text += strlen(label);
        read_function(text, &loops);
    }
    return loops;
}

/* ---- the test ------------------------------------------------------------ */

static bool
is_free_of_spills(Arena *a, const CodegenCase *c, const char *dtype,
                  const TargetInfo *target)
{
    BeKernels kernels = cases_kernels(a, c, 1, dtype, 64);
    BeOptions options = {.targets = target->name, .level = 2};
    Str text = str_new(a);
    assert_false(be_print_asm(&text, NULL, &kernels, &options));
    Loops loops = read_loops(str_text(&text));
    bool good = loops.num && !loops.spilling;
    if (!good)
        print_error("%s of %s on %s: %d loops, %d with spills\n", c->body,
                    dtype, target->name, loops.num, loops.spilling);
    return good;
}

/* AMX has registers of its own for products of bf16. */
static bool
has_micro_kernel(const TargetInfo *target, const char *dtype)
{
    return target->device == DEVICE_cpu &&
           !(target->bf16 == TARGET_BF16_AMX && strcmp(dtype, "bf16") == 0);
}

static void
no_loop_spills(void **state)
{
    const char *dtype = *state;
    int wrong = 0;
    for (int t = 0; t < NUM_TARGETS; t++) {
        if (!has_micro_kernel(&target_info[t], dtype))
            continue;
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            Arena *a = arena_new(NULL, "spills");
            wrong += !is_free_of_spills(a, &cases[i], dtype, &target_info[t]);
            arena_release(a);
        }
    }
    assert_int_equal(wrong, 0);
}

/* The reader sees what it is there for. */
static void
spills_are_seen(void **state)
{
    (void)state;
    Loops loops = read_loops(
        "\nmicro_kernel:\n.LBB0_1:\n\tvmovups\t(%rsp), %zmm0 # 64-byte Reload\n"
        "\tvfmadd231ps\t%zmm1, %zmm2, %zmm0\n\tjne\t.LBB0_1\n"
        ".LBB0_2:\n\tvfmadd231ps\t%zmm1, %zmm2, %zmm0\n\tjne\t.LBB0_2\n"
        ".LBB0_3:\n\tmovq\t(%rsp), %rax # 8-byte Reload\n\tjne\t.LBB0_1\n"
        ".Lfunc_end0:\n");
    assert_int_equal(loops.num, 2);
    assert_int_equal(loops.spilling, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spills_are_seen),
        {"f32", no_loop_spills, NULL, NULL, "f32"},
        {"f64", no_loop_spills, NULL, NULL, "f64"},
        {"bf16", no_loop_spills, NULL, NULL, "bf16"},
        {CASES_ONE_CHAIN, no_loop_spills, NULL, NULL, CASES_ONE_CHAIN},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
