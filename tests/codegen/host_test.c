/*
 * host_test.c - compiled functions of placed programs, with a fake runtime
 *
 * The hooks record their calls.  print records its operands; an iterator has
 * the number of elements that the test sets; a safepoint can stop.
 */
#include "ir/text/text.h"
#include "tests/codegen/run.h"

#include "ir/analysis/hooks.h"
#include "tests/unit/unit.h"

typedef struct Paper {
    TfdCall call; /* first: hooks are handed its address */
    TfdHooks hooks;
    IrHooks list;         /* of the function called */
    _Atomic int32_t stop; /* the word that loops look at */
    Str log;
    int elements, left;      /* of the iterator, when it is opened, and now */
    int stop_op, stop_point; /* which one returns STOPPED; counts down */
} Paper;

enum { STOPPED = 7, FRAME = 4096 };

static const char *
address_of(const Paper *p, const IrValue *v)
{
    if (v->place.space == SPACE_IN)
        return p->call.in[v->place.offset];
    if (v->place.space == SPACE_OUT)
        return p->call.out[v->place.offset];
    return p->call.base + v->place.offset;
}

static int32_t
on_op(TfdCall *call, int32_t index)
{
    Paper *p = (Paper *)call;
    const IrOp *op = p->list.ops.data[index];
    if (p->stop_op-- == 0)
        return STOPPED;
    if (op->kind == OP_iter_open)
        p->left = p->elements;
    if (op->kind == OP_iter_has_next)
        *(char *)(uintptr_t)address_of(p, op->results[0]) = p->left-- > 0;
    if (op->kind != OP_print)
        return 0;
    str_add(&p->log, ir_text(op, A_format));
    for (int i = 0; i < op->num_operands; i++) {
        const IrValue *v = op->operands[i];
        Scalar x = scalar_load(v->type.dtype, address_of(p, v), 0);
        str_addf(&p->log, " %lld", (long long)x.i);
    }
    str_add(&p->log, "; ");
    return 0;
}

static int32_t
on_parallel(TfdCall *call, TfdKernel *kernel, void *const *ptrs,
            const int64_t *dims, int64_t count, int64_t grain)
{
    Paper *p = (Paper *)call;
    str_addf(&p->log, "%lld items by %s; ", (long long)count,
             grain > 0 && grain < count ? "some" : "all");
    for (int64_t i = 0; i < count; i += grain)
        kernel(ptrs, dims, i, i + grain < count ? i + grain : count);
    return 0;
}

static int32_t
on_safepoint(TfdCall *call, int32_t index)
{
    Paper *p = (Paper *)call;
    str_addf(&p->log, "safe %d; ", index);
    if (p->stop_point-- == 0) {
        call->resume = index;
        return STOPPED;
    }
    return 0;
}

/* ---- compiling ---------------------------------------------------------- */

typedef struct Program {
    Arena *arena;
    IrModule *module;
    RtCode *code;
    Paper paper;
} Program;

static const char prologue[] =
    "tfd-ir 1 phase placed\n"
    "strategy mirrored devices \"cpu:0\" replicas 1\n"
    "symbols n <= 4, N <= 8, m <= 1000, M <= 2000\n"
    "var @v: f32[70] mirrored [arena+0] sync(on_write) aggregate(none)\n"
    "dataset @data {\n"
    "  range start=0 stop=4 : i64\n"
    "}\n"
    "iter @it of @data shard auto\n";

static IrModule *
parse(Arena *a, const char *functions)
{
    const char *text = arena_printf(a, "%s%s", prologue, functions);
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, "host.tir", text, strlen(text));
    IrModule *m = ir_parse(a, intern_new(a), d, file, text, strlen(text));
    if (!m)
        fail_msg("%s", diag_text(d, a));
    return m;
}

static void
must(Status st)
{
    if (st)
        fail_msg("%s", status_message(st));
}

static Program
program(const char *functions)
{
    Program p = {.arena = arena_new(NULL, "host test")};
    p.module = parse(p.arena, functions);
    BeKernels kernels;
    assert_true(be_kernels_build(p.arena, p.module, NULL, &kernels));
    BeOptions options = {.cache = "", .verify = true};
    BeCode code;
    must(be_compile(p.arena, p.module, &kernels, &options, &code));
    PlanObject objects[32];
    for (int i = 0; i < code.objects.len; i++) {
        const BeObject *o = &code.objects.data[i];
        objects[i] = (PlanObject){o->name, o->bytes, o->size};
    }
    must(rt_code_open(objects, code.objects.len, &p.code));
    p.paper.call = (TfdCall){.abi = TFD_ABI, .replica = 3, .resume = -1};
    p.paper.call.base = arena_alloc(p.arena, FRAME);
    p.paper.hooks = (TfdHooks){.abi = TFD_ABI,
                               .op = on_op,
                               .parallel = on_parallel,
                               .safepoint = on_safepoint};
    p.paper.log = str_new(p.arena);
    p.paper.stop_op = p.paper.stop_point = -1;
    return p;
}

static int32_t
call(Program *p, const char *name, const char *symbol)
{
    TfdFunction *fn = rt_code_function(p->code, symbol);
    assert_non_null(fn);
    p->paper.list = ir_hooks(p->arena, ir_func_find(p->module, name));
    p->paper.call.hooks = &p->paper.hooks;
    p->paper.call.stop = &p->paper.stop;
    return fn(&p->paper.call);
}

static void
program_end(Program *p)
{
    rt_code_close(p->code);
    arena_release(p->arena);
}

#define expect_log(p, expected)                                                \
    assert_string_equal(str_text(&(p)->paper.log), expected)

/* ---- tests -------------------------------------------------------------- */

static void
values_are_copied_where_places_differ(void **state)
{
    (void)state;
    Program p = program(
        "func @copies(%x: f32[70] mirrored [in 0]) program bytes 2048 {\n"
        "  %old: f32[70] mirrored [arena+512] = read {var=@v}\n"
        "  %same: f32[70] mirrored [arena+0] = read {var=@v}\n"
        "  write %x {var=@v mode=set}\n"
        "  %r: f32[7, 10] mirrored [arena+1024] = reshape %x {dims=[7, 10]}\n"
        "  return %old, %r, %r\n"
        "}\n");
    float x[70], *base = (float *)p.paper.call.base, out[3][70];
    for (int i = 0; i < 70; i++) {
        x[i] = (float)i;
        base[i] = (float)-i;
    }
    char *in[] = {(char *)x};
    char *outs[] = {(char *)out[0], (char *)out[1], (char *)out[2]};
    p.paper.call.in = in;
    p.paper.call.out = outs;
    assert_int_equal(call(&p, "copies", "p_copies"), 0);
    for (int i = 0; i < 70; i++) {
        assert_true(base[i] == (float)i);
        assert_true(out[0][i] == (float)-i);
        assert_true(out[1][i] == (float)i && out[2][i] == (float)i);
    }
    program_end(&p);
}

#define CONSTANT(name, type, dtype, place, value)                              \
    "%" name ": " type " " place " = kernel {\n"                               \
    "  %" name "k: " type " = constant {dims=[] dtype=" dtype " data=[" value  \
    "]}\n"                                                                     \
    "  yield %" name "k\n"                                                     \
    "}\n"

/* x + y of i32 scalars in main. */
#define ADD(name, place, x, y)                                                 \
    "%" name ": i32 " place " = kernel %" x ", %" y " (%p: i32, %q: i32) {\n"  \
    "  %s: i32 = add %p, %q\n"                                                 \
    "  yield %s\n"                                                             \
    "}\n"

static const char loops[] = "func @main() main bytes 64 {\n" CONSTANT(
    "three", "i32", "i32", "[frame+0]", "3")
    CONSTANT("zero", "i32", "i32", "[frame+4]", "0")
    /* The places of the initial value, argument, yield and result differ. */
    "%sum: i32 [frame+20] = for %three, %zero (%i: i32 [frame+8], %acc: i32 "
    "[frame+12]) {\n" ADD("next", "[frame+16]", "acc",
                          "i") "print %i, %next {format=\"i\"}\n"
                               "yield %next\n"
                               "}\n"
                               "print %sum {format=\"sum\"}\n"
                               "return\n"
                               "}\n";

static void
loops_count_and_carry(void **state)
{
    (void)state;
    Program p = program(loops);
    assert_int_equal(call(&p, "main", "tfd_main"), 0);
    expect_log(&p, "i 0 0; i 1 1; i 2 3; sum 3; ");
    program_end(&p);
}

static void
the_first_status_ends_a_function(void **state)
{
    (void)state;
    Program p = program(loops);
    p.paper.stop_op = 2;
    assert_int_equal(call(&p, "main", "tfd_main"), STOPPED);
    expect_log(&p, "i 0 0; i 1 1; ");
    program_end(&p);
}

/* Two epochs over a dataset, which is within a while that counts. */
static const char training[] = "func @main() main bytes 64 {\n" CONSTANT(
    "two", "i32", "i32", "[frame+0]", "2") CONSTANT("zero", "i32", "i32",
                                                    "[frame+4]", "0")
    CONSTANT("one", "i32", "i32", "[frame+8]",
             "1") "for %two (%epoch: i32 [frame+12]) {\n"
                  "iter_open {iter=@it}\n"
                  "%n: i32 [frame+20] = while %zero (%a: i32 [frame+16]) {\n"
                  "  %more: bool [frame+24] = iter_has_next {iter=@it}\n"
                  "  yield %more\n"
                  "} (%b: i32 [frame+16]) {\n" ADD(
                      "c", "[frame+28]", "b",
                      "one") "print %epoch, %c {format=\"step\"}\n"
                             "yield %c\n"
                             "}\n"
                             "print %n {format=\"epoch of\"}\n"
                             "yield\n"
                             "}\n"
                             "return\n"
                             "}\n";

/* Closures are joined in each round of the loop inside. */
static const char joining[] = "func @main() main bytes 64 {\n" CONSTANT(
    "two", "i32", "i32", "[frame+0]", "2") CONSTANT("zero", "i32", "i32",
                                                    "[frame+4]", "0")
    CONSTANT("one", "i32", "i32", "[frame+8]",
             "1") "for %two (%i: i32 [frame+12]) {\n"
                  "%n: i32 [frame+20] = for %two, %zero (%k: i32 [frame+24], "
                  "%a: i32 [frame+16]) {\n" ADD(
                      "c", "[frame+28]", "a",
                      "one") "join\n"
                             "print %i, %k, %c {format=\"round\"}\n"
                             "yield %c\n"
                             "}\n"
                             "print %n {format=\"rounds of\"}\n"
                             "yield\n"
                             "}\n"
                             "return\n"
                             "}\n";

static const char *
run_training(const char *main, int elements, int stop_after)
{
    static char text[1000];
    Program p = program(main);
    p.paper.elements = elements;
    p.paper.stop_point = stop_after;
    int32_t status = call(&p, "main", "tfd_main");
    while (status == STOPPED) {
        /* A new process: nothing is left but the frame and the log. */
        char *frame = arena_alloc(p.arena, FRAME);
        memcpy(frame, p.paper.call.base, FRAME);
        memset(p.paper.call.base, 0xff, FRAME);
        p.paper.call.base = frame;
        status = call(&p, "main", "tfd_main");
    }
    assert_int_equal(status, 0);
    snprintf(text, sizeof text, "%s", str_text(&p.paper.log));
    program_end(&p);
    return text;
}

static void
main_resumes_at_every_safepoint(void **state)
{
    (void)state;
    static const char whole[] =
        "step 0 1; safe 0; step 0 2; safe 0; epoch of 2; "
        "step 1 1; safe 0; step 1 2; safe 0; epoch of 2; ";
    for (int stop = -1; stop < 4; stop++)
        assert_string_equal(run_training(training, 2, stop), whole);
    assert_string_equal(run_training(training, 0, -1),
                        "epoch of 0; epoch of 0; ");
}

static void
loops_that_join_have_safepoints(void **state)
{
    (void)state;
    static const char whole[] =
        "round 0 0 1; safe 0; round 0 1 2; safe 0; rounds of 2; "
        "round 1 0 1; safe 0; round 1 1 2; safe 0; rounds of 2; ";
    for (int stop = -1; stop < 4; stop++)
        assert_string_equal(run_training(joining, 0, stop), whole);
}

static void
a_while_stops_at_its_most_rounds(void **state)
{
    (void)state;
    Program p = program("func @main() main bytes 64 {\n" CONSTANT(
        "zero", "i32", "i32", "[frame+0]",
        "0") CONSTANT("one", "i32", "i32", "[frame+4]",
                      "1") "%n: i32 [frame+8] = while %zero {max=3} (%a: i32 "
                           "[frame+8]) {\n" CONSTANT(
                               "more", "bool", "bool", "[frame+12]",
                               "true") "  yield %more\n"
                                       "} (%b: i32 [frame+8]) "
                                       "{\n" ADD("c", "[frame+16]", "b",
                                                 "one") "yield %c\n"
                                                        "}\n"
                                                        "print %n "
                                                        "{format="
                                                        "\"n\"}\n"
                                                        "return\n"
                                                        "}\n");
    assert_int_equal(call(&p, "main", "tfd_main"), 0);
    expect_log(&p, "n 3; ");
    program_end(&p);
}

/* An endless loop of main, and one of a program. */
static const char endless[] =
    "func @main() main bytes 64 {\n"
    "  while {\n" CONSTANT(
        "more", "bool", "bool", "[frame+0]",
        "true") "    yield %more\n"
                "  } {\n"
                "    yield\n"
                "  }\n"
                "  return\n"
                "}\n"
                "func @step(%n: i64 [in 0]) program bytes 64 {\n"
                "  for %n (%i: i64 [arena+0]) {\n"
                "    yield\n"
                "  }\n"
                "  return\n"
                "}\n";

static void
each_round_of_a_loop_loads_the_stop_word(void **state)
{
    (void)state;
    Program p = program(endless);
    int64_t rounds = INT64_MAX;
    char *in[] = {(char *)&rounds};
    p.paper.call.in = in;
    p.paper.stop = STOPPED;
    assert_int_equal(call(&p, "main", "tfd_main"), STOPPED);
    assert_int_equal(call(&p, "step", "p_step"), STOPPED);
    p.paper.stop = 0;
    rounds = 3;
    assert_int_equal(call(&p, "step", "p_step"), 0);
    program_end(&p);
}

static void
a_function_says_where_it_is(void **state)
{
    static const IrOpKind kinds[] = {OP_while, OP_kernel, OP_return};
    (void)state;
    Program p = program(endless);
    p.paper.stop = STOPPED;
    assert_int_equal(call(&p, "main", "tfd_main"), STOPPED);
    assert_int_equal(p.paper.list.positions.len, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(p.paper.list.positions.data[i]->kind, kinds[i]);
    assert_int_equal(p.paper.call.at, 1); /* in the while's condition */
    program_end(&p);
}

static void
a_branch_is_taken_by_a_byte_in_memory(void **state)
{
    (void)state;
    Program p = program(
        "func @choose(%c: bool mirrored [in 0], %x: i32 mirrored [in 1], "
        "%y: i32 mirrored [in 2]) program bytes 64 {\n"
        "  %r: i32 mirrored [out 0] = if %c {\n"
        "    yield %x\n"
        "  } {\n"
        "    yield %y\n"
        "  }\n"
        "  return %r\n"
        "}\n");
    bool c = true;
    int32_t x = 5, y = 6, r = 0;
    char *in[] = {(char *)&c, (char *)&x, (char *)&y}, *out[] = {(char *)&r};
    p.paper.call.in = in;
    p.paper.call.out = out;
    assert_int_equal(call(&p, "choose", "p_choose"), 0);
    assert_int_equal(r, 5);
    c = false;
    assert_int_equal(call(&p, "choose", "p_choose"), 0);
    assert_int_equal(r, 6);
    program_end(&p);
}

/* The kernel names the second pair first, then the first, then the replica. */
static void
kernels_get_the_words_they_name(void **state)
{
    (void)state;
    Program p = program(
        "func @words() program bytes 64 {\n"
        "  %r: i64 per_replica [out 0] = kernel {\n"
        "    %a: i64 mirrored = dim_size {dims=[M]}\n"
        "    %b: i64 per_replica = row_start {dims=[n]}\n"
        "    %c: i32 per_replica = replica_id\n"
        "    %d: i64 per_replica = cast %c {dtype=i64}\n"
        "    %ten: i64 mirrored = constant {dims=[] dtype=i64 data=[10]}\n"
        "    %e: i64 mirrored = mul %a, %ten\n"
        "    %f: i64 per_replica = add %e, %b\n"
        "    %g: i64 per_replica = mul %f, %ten\n"
        "    %h: i64 per_replica = add %g, %d\n"
        "    yield %h\n"
        "  }\n"
        "  return %r\n"
        "}\n");
    int64_t dims[] = {1, 2, 3, 4, 5, 6}, r = 0;
    char *out[] = {(char *)&r};
    p.paper.call.dims = dims;
    p.paper.call.out = out;
    assert_int_equal(call(&p, "words", "p_words"), 0);
    assert_int_equal(r, 533); /* M, row_start of n, replica */
    program_end(&p);
}

static void
long_kernels_are_shared_among_threads(void **state)
{
    (void)state;
    Program p = program(
        "func @big(%x: f64[m, 300] per_replica [in 0]) program bytes 64 {\n"
        "  %r: f64[m, 300] per_replica [out 0] = kernel %x (%p: f64[m, 300] "
        "per_replica) {\n"
        "    %e: f64[m, 300] per_replica = neg %p\n"
        "    yield %e\n"
        "  }\n"
        "  return %r\n"
        "}\n"
        "func @small(%x: f64[n] per_replica [in 0]) program bytes 64 {\n"
        "  %r: f64[n] per_replica [out 0] = kernel %x (%p: f64[n] "
        "per_replica) {\n"
        "    %e: f64[n] per_replica = neg %p\n"
        "    yield %e\n"
        "  }\n"
        "  return %r\n"
        "}\n");
    enum { ROWS = 700 };
    static double x[ROWS * 300], r[ROWS * 300];
    for (int i = 0; i < ROWS * 300; i++)
        x[i] = i;
    int64_t dims[] = {2, 4, 0, ROWS, ROWS, 0};
    char *in[] = {(char *)x}, *out[] = {(char *)r};
    p.paper.call.in = in;
    p.paper.call.out = out;
    p.paper.call.dims = dims;
    assert_int_equal(call(&p, "big", "p_big"), 0);
    expect_log(&p, "210000 items by some; ");
    for (int i = 0; i < ROWS * 300; i++)
        assert_true(r[i] == -x[i]);
    assert_int_equal(call(&p, "small", "p_small"), 0);
    expect_log(&p, "210000 items by some; ");
    program_end(&p);
}

static void
the_host_does_not_compute_in_a_device(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "host test");
    IrModule *m =
        parse(a, "func @main() main bytes 64 {\n"
                 "  %x: i32 [row+0] = kernel {\n"
                 "    %c: i32 = constant {dims=[] dtype=i32 data=[1]}\n"
                 "    yield %c\n"
                 "  }\n"
                 "  return\n"
                 "}\n");
    BeKernels kernels;
    assert_true(be_kernels_build(a, m, NULL, &kernels));
    BeOptions options = {.cache = ""};
    BeCode code;
    Status st = be_compile(a, m, &kernels, &options, &code);
    assert_non_null(st);
    assert_string_equal(
        status_message(st),
        "cannot compile @main: the host cannot reach into a device");
    status_free(st);
    arena_release(a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_copied_where_places_differ),
        cmocka_unit_test(loops_count_and_carry),
        cmocka_unit_test(the_first_status_ends_a_function),
        cmocka_unit_test(main_resumes_at_every_safepoint),
        cmocka_unit_test(loops_that_join_have_safepoints),
        cmocka_unit_test(a_while_stops_at_its_most_rounds),
        cmocka_unit_test(each_round_of_a_loop_loads_the_stop_word),
        cmocka_unit_test(a_function_says_where_it_is),
        cmocka_unit_test(a_branch_is_taken_by_a_byte_in_memory),
        cmocka_unit_test(kernels_get_the_words_they_name),
        cmocka_unit_test(long_kernels_are_shared_among_threads),
        cmocka_unit_test(the_host_does_not_compute_in_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
