/*
 * instructions_test.c - the emulator against NVIDIA's manual
 *
 * Each row of manual.def becomes a program.  Besides: modules, launches, and
 * texts that end too early.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/arena.h"
#include "tests/cuda/ptx/mix.h"
#include "tests/cuda/ptx/ptx.h"
#include "tests/unit/sweep.h"

enum { CELL = 8, MAX_CELLS = 256, NUM_INPUT = 256 };

#define OUT_ADDRESS UINT64_C(0x10000)
#define IN_ADDRESS UINT64_C(0x80000)

static PtxMachine *machine;

/* ---- programs ----------------------------------------------------------- */

/* The code begins at this line of the text. */
enum { FIRST_LINE = 13 };

static const char before[] = ".version 7.0\n"
                             ".target sm_80\n"
                             ".address_size 64\n"
                             ".entry k(.param .u64 out, .param .u64 in)\n"
                             "{\n"
                             ".reg .pred %p<4>; .reg .b16 %h<8>;\n"
                             ".reg .b32 %r<8>; .reg .b64 %d<10>;\n"
                             ".reg .f32 %f<8>; .reg .f64 %g<8>;\n"
                             ".shared .align 16 .b8 sh[256];\n"
                             ".local .align 16 .b8 lo[16];\n"
                             "ld.param.u64 %d8, [out]; ld.param.u64 %d9, [in];"
                             " mov.u32 %r0, %tid.x; add.s64 %d7, %d8, 1024;\n"
                             "mad.wide.u32 %d0, %r0, 8, %d8;\n";

static const char *
text_of(Arena *a, const char *code, const char *result)
{
    return arena_printf(a, "%s%s\n%s\nret;\n}\n", before, code, result);
}

static void
close_module(void *m)
{
    ptx_module_close(m);
}

static PtxModule *
open_text(Arena *a, const char *text)
{
    PtxError error;
    PtxModule *m = ptx_module_open(text, strlen(text), 0, &error);
    if (!m)
        fail_msg("line %d: %s\n%s", error.line, error.text, text);
    arena_on_release(a, close_module, m);
    return m;
}

/* ---- launches ----------------------------------------------------------- */

typedef struct Memory {
    uint8_t out[CELL * MAX_CELLS], valid[CELL * MAX_CELLS], in[NUM_INPUT];
} Memory;

static bool
find_memory(void *context, uint64_t address, PtxRange *out)
{
    Memory *m = context;
    if (address >= IN_ADDRESS)
        *out = (PtxRange){.begin = IN_ADDRESS,
                          .end = IN_ADDRESS + sizeof m->in,
                          .host = m->in,
                          .read_only = true};
    else
        *out = (PtxRange){.begin = OUT_ADDRESS,
                          .end = OUT_ADDRESS + sizeof m->out,
                          .host = m->out,
                          .valid = m->valid};
    return address >= out->begin && address < out->end;
}

/* What is at %d7 has been written before the launch. */
static void
begin_memory(Memory *m)
{
    memset(m, 0, sizeof *m);
    memset(m->valid + 1024, 1, 8);
    for (int i = 0; i < NUM_INPUT; i++)
        m->in[i] = (uint8_t)i;
}

static bool
launch(const PtxKernel *k, int threads, int blocks, uint64_t seed, Memory *m,
       PtxReport *report)
{
    const uint64_t params[] = {OUT_ADDRESS, IN_ADDRESS};
    begin_memory(m);
    PtxLaunch l = {.kernel = k,
                   .grid = {(uint32_t)blocks, 1, 1},
                   .block = {(uint32_t)threads, 1, 1},
                   .params = params,
                   .param_bytes = sizeof params,
                   .memory = {find_memory, m},
                   .checks = PTX_CHECK_ALL,
                   .seed = seed,
                   .max_instructions = 10000};
    return ptx_launch(machine, &l, report);
}

/* ---- values ------------------------------------------------------------- */

typedef struct Value {
    const char *section, *code, *store;
    uint64_t want;
} Value;

#define U64(section, code, result)                                             \
    {section, code, "st.global.u64 [%d0], %d2;", result},
#define U32(section, code, result)                                             \
    {section, code, "st.global.u32 [%d0], %r2;", result},
#define F32(section, code, result)                                             \
    {section, code, "st.global.f32 [%d0], %f2;", result},
#define F64(section, code, result)                                             \
    {section, code, "st.global.f64 [%d0], %g2;", result},
#define H16(section, code, result)                                             \
    {section, code, "st.global.b16 [%d0], %h2;", result},
#define PRED(section, code, result)                                            \
    {section, code, "selp.b32 %r2, 1, 0, %p2; st.global.u32 [%d0], %r2;",      \
     result},
#define LANES(...)
#define VIOLATION(...)
#define REFUSED(...)
static const Value values[] = {
#include "tests/cuda/manual.def"
};
#undef U64
#undef U32
#undef F32
#undef F64
#undef H16
#undef PRED
#undef LANES
#undef VIOLATION
#undef REFUSED

static void
results_are_those_of_the_manual(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const Value *v = &values[i];
        Arena *a = arena_new(NULL, "value");
        Memory m;
        PtxReport report;
        uint64_t got;
        PtxModule *module = open_text(a, text_of(a, v->code, v->store));
        if (!launch(ptx_module_kernel(module, 0), 1, 1, 0, &m, &report))
            fail_msg("%s: %s", v->code, report.text);
        memcpy(&got, m.out, sizeof got);
        if (got != v->want)
            fail_msg("%s: %s is 0x%llx, not 0x%llx", v->section, v->code,
                     (unsigned long long)got, (unsigned long long)v->want);
        arena_release(a);
    }
}

/* ---- lanes -------------------------------------------------------------- */

typedef struct Lanes {
    const char *section, *code;
    uint32_t (*want)(uint32_t l);
} Lanes;

#define U64(...)
#define U32(...)
#define F32(...)
#define F64(...)
#define H16(...)
#define PRED(...)
#define VIOLATION(...)
#define REFUSED(...)
#define PASTE(a, b) a##b
#define WANT(line) PASTE(want_, line)
#define LANES(section, code, result)                                           \
    static uint32_t WANT(__LINE__)(uint32_t l)                                 \
    {                                                                          \
        (void)l;                                                               \
        return (uint32_t)(result);                                             \
    }
#include "tests/cuda/manual.def"
#undef LANES
#define LANES(section, code, result) {section, code, WANT(__LINE__)},
static const Lanes lanes[] = {
#include "tests/cuda/manual.def"
};
#undef LANES
#undef VIOLATION
#undef REFUSED

static void
check_lanes(const Lanes *v, uint64_t seed)
{
    Arena *a = arena_new(NULL, "lanes");
    Memory m;
    PtxReport report;
    PtxModule *module =
        open_text(a, text_of(a, v->code, "st.global.u32 [%d0], %r2;"));
    if (!launch(ptx_module_kernel(module, 0), 32, 1, seed, &m, &report))
        fail_msg("%s: %s", v->code, report.text);
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t got;
        memcpy(&got, m.out + CELL * l, sizeof got);
        if (got != v->want(l))
            fail_msg("%s: lane %u of %s is %u, not %u", v->section, l, v->code,
                     got, v->want(l));
    }
    arena_release(a);
}

static void
lanes_are_those_of_the_manual(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        for (uint64_t seed = 0; seed < 2; seed++)
            check_lanes(&lanes[i], seed);
}

/* ---- violations --------------------------------------------------------- */

typedef struct Violation {
    const char *section;
    int threads, blocks;
    const char *code;
    PtxKind kind;
    int line;
} Violation;

#define LANES(...)
#define REFUSED(...)
#define VIOLATION(section, threads, blocks, code, kind, line)                  \
    {section, threads, blocks, code, PTX_##kind, line},
static const Violation violations[] = {
#include "tests/cuda/manual.def"
};
#undef VIOLATION
#undef REFUSED

static void
what_is_undefined_is_reported(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof violations / sizeof *violations; i++) {
        const Violation *v = &violations[i];
        Arena *a = arena_new(NULL, "violation");
        Memory m;
        PtxReport report;
        PtxModule *module = open_text(a, text_of(a, v->code, ""));
        if (launch(ptx_module_kernel(module, 0), v->threads, v->blocks, 0, &m,
                   &report))
            fail_msg("%s: nothing is reported of %s", v->section, v->code);
        if (report.kind != v->kind || report.line != FIRST_LINE + v->line - 1)
            fail_msg("%s: not line %d, %d: %s\n%s", v->section,
                     FIRST_LINE + v->line - 1, (int)v->kind, report.text,
                     v->code);
        arena_release(a);
    }
}

/* Each check can be switched off alone; the others go on. */
static void
checks_can_be_switched(void **state)
{
    (void)state;
    static const struct {
        PtxCheck check;
        const char *code;
    } cases[] = {
        {PTX_CHECK_ALIGNMENT, "ld.global.u32 %r2, [%d9+2];"},
        {PTX_CHECK_VALID, "ld.shared.u32 %r2, [sh];"},
        {PTX_CHECK_REGISTERS, "add.s32 %r2, %r5, 1;"},
        {PTX_CHECK_SHARED_RACES, "st.shared.u32 [sh], %r0;"},
        {PTX_CHECK_GLOBAL_RACES, "st.global.u32 [%d8], %r0;"},
    };
    enum { NUM = sizeof cases / sizeof *cases };
    const uint64_t params[] = {OUT_ADDRESS, IN_ADDRESS};
    for (int i = 0; i < 2 * NUM; i++) {
        bool off = i >= NUM;
        Arena *a = arena_new(NULL, "checks");
        Memory m;
        PtxReport report;
        begin_memory(&m);
        PtxModule *module = open_text(a, text_of(a, cases[i % NUM].code, ""));
        PtxLaunch l = {.kernel = ptx_module_kernel(module, 0),
                       .grid = {1, 1, 1},
                       .block = {2, 1, 1},
                       .params = params,
                       .param_bytes = sizeof params,
                       .memory = {find_memory, &m}};
        l.checks = PTX_CHECK_ALL & ~(off ? (unsigned)cases[i % NUM].check : 0u);
        assert_int_equal(ptx_launch(machine, &l, &report), off);
        arena_release(a);
    }
}

/* ---- refusals ----------------------------------------------------------- */

typedef struct Refusal {
    const char *section, *code, *message;
} Refusal;

#define VIOLATION(...)
#define REFUSED(section, code, message) {section, code, message},
static const Refusal refusals[] = {
#include "tests/cuda/manual.def"
};

static void
what_is_unknown_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const Refusal *r = &refusals[i];
        Arena *a = arena_new(NULL, "refusal");
        PtxError error;
        const char *text = text_of(a, r->code, "");
        PtxModule *m = ptx_module_open(text, strlen(text), 0, &error);
        if (m)
            fail_msg("%s: not refused: %s", r->section, r->code);
        if (strcmp(error.text, r->message) || error.line < FIRST_LINE ||
            error.line > FIRST_LINE + 2)
            fail_msg("%s: line %d: %s\n%s", r->code, error.line, error.text,
                     r->message);
        arena_release(a);
    }
}

/* ---- modules and launches ----------------------------------------------- */

static const char module_text[] =
    ".version 7.8\n.target sm_90a\n.address_size 64\n"
    ".global .align 8 .b8 table[8] = {1, 2, 3};\n"
    ".global .align 4 .u32 words[2] = {5, -1};\n"
    ".extern .shared .align 32 .b8 more[];\n"
    ".visible .entry one(.param .u32 n, .param .align 8 .b8 t[24],\n"
    " .param .u64 out)\n.reqntid 64, 1, 1\n.minnctapersm 2\n"
    "{ .reg .b32 %r<3>; .reg .b64 %rd<4>; .shared .b8 s[5];\n"
    "mov.u32 %r1, more; ld.param.u64 %rd1, [out];\n"
    "ld.global.nc.u32 %r2, [words+4]; mov.u64 %rd2, t;\n"
    "ld.param.u64 %rd3, [%rd2+16]; { .reg .pred p; setp.eq.s32 p, 1, 1; }\n"
    "st.global.v2.u32 [%rd1], {%r1, %r2}; st.global.u64 [%rd1+8], %rd3;\n"
    "ret; }\n"
    ".visible .entry two() { ret; }\n";

static void
modules_have_kernels_and_variables(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "module");
    PtxModule *m = open_text(a, module_text);
    size_t bytes;
    void *host;
    assert_int_equal(ptx_module_version(m), 78);
    assert_int_equal(ptx_module_target(m), 90);
    assert_int_equal(ptx_module_num_kernels(m), 2);
    assert_null(ptx_module_find(m, "three"));
    assert_int_equal(ptx_module_global(m, "none", NULL, NULL), 0);
    uint64_t at = ptx_module_global(m, "words", &bytes, &host);
    assert_int_equal(at % 4, 0);
    assert_int_equal(bytes, 8);
    assert_int_equal(((const uint32_t *)host)[1], 0xffffffff);
    const PtxKernelInfo *k = ptx_kernel_info(ptx_module_find(m, "one"));
    assert_int_equal(k->num_params, 3);
    assert_int_equal(k->params[1].offset, 8);
    assert_int_equal(k->params[2].offset, 32);
    assert_int_equal(k->param_bytes, 40);
    assert_int_equal(k->reqntid[0], 64);
    assert_int_equal(k->minnctapersm, 2);
    assert_int_equal(k->static_shared, 5);
    assert_true(k->uses_dynamic_shared);
    assert_int_equal(k->registers, 3 + 2 * 4);
    arena_release(a);
}

/* As ptxas has them: 4352 bytes before PTX 8.1. */
static void
parameters_have_a_limit(void **state)
{
    static const struct {
        const char *version;
        int bytes;
        const char *says; /* NULL: they are taken */
    } rows[] = {
        {"7.8", 4352, NULL},
        {"7.8", 4353, "over 4352 bytes of parameters"},
        {"8.1", 32764, NULL},
        {"8.1", 32765, "over 32764 bytes of parameters"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Arena *a = arena_new(NULL, "parameters");
        PtxError error = {.line = 0};
        const char *text = arena_printf(
            a,
            ".version %s\n.target sm_90\n.address_size 64\n"
            ".visible .entry k(.param .align 1 .b8 x[%d]) { ret; }\n",
            rows[i].version, rows[i].bytes);
        PtxModule *m = ptx_module_open(text, strlen(text), 0, &error);
        assert_int_equal(m != NULL, !rows[i].says);
        if (!m)
            assert_string_equal(error.text, rows[i].says);
        ptx_module_close(m);
        arena_release(a);
    }
}

/* Parameters by value, variables, dynamic shared memory behind the static. */
static void
launches_find_what_modules_have(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "launch");
    Memory m;
    PtxReport report;
    PtxModule *module = open_text(a, module_text);
    uint64_t params[] = {7, 1, 2, 3, OUT_ADDRESS};
    PtxLaunch l = {.kernel = ptx_module_find(module, "one"),
                   .grid = {1, 1, 1},
                   .block = {64, 1, 1},
                   .params = params,
                   .param_bytes = sizeof params,
                   .memory = {find_memory, &m}};
    uint64_t got[2];
    begin_memory(&m);
    assert_true(ptx_launch(machine, &l, &report));
    memcpy(got, m.out, sizeof got);
    assert_int_equal(got[0] & 0xffffffff, 32);
    assert_int_equal(got[0] >> 32, 0xffffffff);
    assert_int_equal(got[1], 3);
    l.block[0] = 32;
    assert_false(ptx_launch(machine, &l, &report));
    assert_int_equal(report.kind, PTX_BAD_LAUNCH);
    l.block[0] = 64;
    l.param_bytes = 16;
    assert_false(ptx_launch(machine, &l, &report));
    assert_int_equal(report.kind, PTX_BAD_LAUNCH);
    arena_release(a);
}

static const char grid_text[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".entry k(.param .u64 out)\n{ .reg .b32 %r<14>; .reg .b64 %rd<3>;\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;\n"
    "mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mov.u32 %r6, %ctaid.y;\n"
    "mad.lo.s32 %r7, %r3, %r5, %r2; mad.lo.s32 %r7, %r7, %r4, %r1;\n"
    "mad.lo.s32 %r8, %r6, 24, %r7; ld.param.u64 %rd1, [out];\n"
    "mad.wide.u32 %rd2, %r8, 4, %rd1; st.global.u32 [%rd2], %r8; ret; }\n";

/* Threads are numbered x first, then y, then z. */
static void
threads_have_three_dimensions(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "grid");
    Memory m;
    PtxReport report;
    uint64_t params[] = {OUT_ADDRESS};
    PtxModule *module = open_text(a, grid_text);
    PtxLaunch l = {.kernel = ptx_module_find(module, "k"),
                   .grid = {1, 3, 1},
                   .block = {4, 3, 2},
                   .params = params,
                   .param_bytes = sizeof params,
                   .memory = {find_memory, &m},
                   .checks = PTX_CHECK_ALL,
                   .seed = 5};
    begin_memory(&m);
    if (!ptx_launch(machine, &l, &report))
        fail_msg("%s", report.text);
    for (uint32_t i = 0; i < 72; i++)
        assert_memory_equal(m.out + 4 * i, &i, 4);
    arena_release(a);
}

/* Three rounds of a loop by two warps, with one access of 16 bytes in each. */
static void
launches_count_what_they_execute(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "mix");
    Memory m;
    PtxReport report;
    uint64_t executed[64] = {0};
    const uint64_t params[] = {OUT_ADDRESS, IN_ADDRESS};
    PtxModule *module = open_text(
        a, text_of(a,
                   "mov.u32 %r5, 0; mov.f32 %f1, 0f3f800000;\n"
                   "L: ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%d9];\n"
                   "fma.rn.f32 %f1, %f2, %f3, %f1; add.s32 %r5, %r5, 1;\n"
                   "setp.lt.s32 %p1, %r5, 3; @%p1 bra L; bar.sync 0;",
                   "st.global.f32 [%d0], %f1;"));
    const PtxKernel *k = ptx_module_kernel(module, 0);
    PtxLaunch l = {.kernel = k,
                   .grid = {1, 1, 1},
                   .block = {64, 1, 1},
                   .params = params,
                   .param_bytes = sizeof params,
                   .memory = {find_memory, &m},
                   .checks = PTX_CHECK_ALL,
                   .executed = executed};
    begin_memory(&m);
    assert_true(ptx_kernel_info(k)->num_instructions <= 64);
    assert_true(ptx_launch(machine, &l, &report));
    PtxMix text = ptx_kernel_mix(k, NULL), run = ptx_kernel_mix(k, executed);
    assert_int_equal(text.all, ptx_kernel_info(k)->num_instructions);
    assert_int_equal(text.fma_f32, 1);
    assert_int_equal(run.fma_f32, 6);
    assert_int_equal(run.float_arithmetic, 6);
    assert_int_equal(run.loads_global, 6);
    assert_int_equal(run.stores_global, 2);
    assert_int_equal(run.branches, 6);
    assert_int_equal(run.barriers, 2);
    assert_int_equal(run.global_bytes_128, 6 * 512);
    assert_int_equal(run.global_bytes, 6 * 512 + 2 * 128);
    arena_release(a);
}

/* A text that ends anywhere, or has a wrong byte anywhere, is an error or a
 * module, and never a crash. */
static void
damaged_texts_do_no_harm(void **state)
{
    (void)state;
    size_t len = sizeof module_text - 1;
    char *text = malloc(len);
    for (size_t n = 0; n < len; n++) {
        PtxError error;
        memcpy(text, module_text, len);
        ptx_module_close(ptx_module_open(text, n, 0, &error));
        text[n] = (char)(sweep_random() % 256);
        ptx_module_close(ptx_module_open(text, len, 0, &error));
    }
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_manual),
        cmocka_unit_test(lanes_are_those_of_the_manual),
        cmocka_unit_test(what_is_undefined_is_reported),
        cmocka_unit_test(what_is_unknown_is_refused),
        cmocka_unit_test(checks_can_be_switched),
        cmocka_unit_test(modules_have_kernels_and_variables),
        cmocka_unit_test(parameters_have_a_limit),
        cmocka_unit_test(launches_find_what_modules_have),
        cmocka_unit_test(threads_have_three_dimensions),
        cmocka_unit_test(launches_count_what_they_execute),
        cmocka_unit_test(damaged_texts_do_no_harm),
    };
    machine = ptx_machine_new();
    int failed = cmocka_run_group_tests_name("instructions", tests, NULL, NULL);
    printf("# %zu programs for values, %zu for lanes, %zu that are wrong, %zu "
           "that are refused\n",
           sizeof values / sizeof *values, sizeof lanes / sizeof *lanes,
           sizeof violations / sizeof *violations,
           sizeof refusals / sizeof *refusals);
    ptx_machine_free(machine);
    return failed;
}
