/*
 * objects_test.c - objects and their cache, and their errors
 */
#include "tests/codegen/run.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include "backend/objects.h"
#include "tests/unit/unit.h"
#include "tests/unit/status.h"
#include "tests/unit/work_dir.h"

static const char text[] = "kernel a\n"
                           "in in0: f32[100]\n"
                           "out out0: f32[1]\n"
                           "grid {\n"
                           "  %0: f32 = reduce add vector i0 < 100 {\n"
                           "    %1: f32 = load in0[i0]\n"
                           "    %2: f32 = exp %1\n"
                           "    yield %2\n"
                           "  }\n"
                           "  store out0[0], %0\n"
                           "}\n"
                           "kernel b\n"
                           "in in0: i64[100]\n"
                           "out out0: i64[100]\n"
                           "grid vector i0 < 100 {\n"
                           "  %0: i64 = load in0[i0]\n"
                           "  %1: i64 = mul %0, %0\n"
                           "  store out0[i0], %1\n"
                           "}\n";

static BeKernels
read_kernels(Arena *a)
{
    BeKernels kernels = {0};
    Diag *d = diag_new(a);
    uint16_t file = diag_add_source(d, "two.kernels", text, strlen(text));
    assert_true(be_kernel_parse(&kernels, a, d, file, text, strlen(text)));
    assert_int_equal(kernels.len, 2);
    return kernels;
}

static BeCode
compile(Arena *a, const BeOptions *options)
{
    BeKernels kernels = read_kernels(a);
    BeCode code;
    Status st = be_compile_kernels(a, &kernels, options, &code);
    if (st)
        fail_msg("%s", status_message(st));
    return code;
}

static void
expect_same_code(const BeCode *x, const BeCode *y)
{
    assert_int_equal(x->objects.len, y->objects.len);
    for (int i = 0; i < x->objects.len; i++) {
        const BeObject *o = &x->objects.data[i], *p = &y->objects.data[i];
        assert_string_equal(o->name, p->name);
        assert_string_equal(o->target, p->target);
        assert_int_equal(o->size, p->size);
        assert_memory_equal(o->bytes, p->bytes, o->size);
    }
}

static struct {
    void (*visit)(const char *path);
    int num;
} walk;

static int
visit_file(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)at;
    if (kind != FTW_F || !strstr(path, ".o"))
        return 0;
    walk.num++;
    if (walk.visit)
        walk.visit(path);
    return 0;
}

/* Calls visit, if there is one, with the path of each object in dir and below;
 * returns their number. */
static int
each_file(const char *dir, void (*visit)(const char *path))
{
    walk.visit = visit;
    walk.num = 0;
    assert_int_equal(nftw(dir, visit_file, 8, FTW_PHYS), 0);
    return walk.num;
}

/* ---- tests -------------------------------------------------------------- */

static void
bytes_do_not_depend_on_threads(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    BeOptions options = {.targets = "x86-64-v3,x86-64-v4",
                         .level = 2,
                         .cache = "",
                         .num_threads = 1};
    BeCode one = compile(a, &options);
    assert_int_equal(one.objects.len, 4);
    for (int threads = 2; threads <= 4; threads++) {
        options.num_threads = threads;
        BeCode more = compile(a, &options);
        expect_same_code(&one, &more);
    }
    arena_release(a);
}

static void
cut_in_half(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size / 2), 0);
}

static void
flip_last_byte(const char *path)
{
    char last;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_true(lseek(fd, -1, SEEK_END) > 0);
    assert_int_equal(read(fd, &last, 1), 1);
    last ^= 1;
    assert_true(lseek(fd, -1, SEEK_END) > 0);
    assert_int_equal(write(fd, &last, 1), 1);
    close(fd);
}

static void
expect_cached(const BeCode *code, bool cached)
{
    for (int i = 0; i < code->objects.len; i++)
        assert_true(code->objects.data[i].cached == cached);
}

static void
a_second_compilation_is_free(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    const char *dir = work_dir(a);
    BeOptions options = {
        .targets = "x86-64-v3,sm_80", .level = 2, .cache = dir};
    BeCode first = compile(a, &options), second = compile(a, &options);
    expect_cached(&first, false);
    expect_cached(&second, true);
    expect_same_code(&first, &second);
    assert_int_equal(each_file(dir, NULL), 4);
    static const char *const others[] = {"x86-64-v4", "sm_90"};
    for (int i = 0; i < 2; i++) {
        options.targets = others[i];
        BeCode other = compile(a, &options);
        expect_cached(&other, false);
    }
    options.targets = "sm_80";
    BeCode ptx = compile(a, &options);
    expect_cached(&ptx, true);
    arena_release(a);
}

static void
a_damaged_cache_is_ignored_and_mended(void **state)
{
    (void)state;
    static void (*const damages[])(const char *path) = {cut_in_half,
                                                        flip_last_byte};
    Arena *a = arena_new(NULL, "test");
    const char *dir = work_dir(a);
    BeOptions options = {.targets = "x86-64-v3", .level = 2, .cache = dir};
    BeCode sound = compile(a, &options);
    for (int i = 0; i < 2; i++) {
        each_file(dir, damages[i]);
        BeCode damaged = compile(a, &options), mended = compile(a, &options);
        expect_cached(&damaged, false);
        expect_same_code(&sound, &damaged);
        expect_cached(&mended, true);
    }
    arena_release(a);
}

static void
a_cache_that_cannot_be_made_is_none(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    BeOptions options = {.targets = "x86-64-v3", .cache = "/dev/null/no"};
    BeCode code = compile(a, &options);
    expect_cached(&code, false);
    arena_release(a);
}

/* Returns its number. */
static Status
return_number(BeUnit *u, const void *number, const BeTarget *t)
{
    (void)t;
    be_func_begin(u, "k_number", u->i32, NULL, 0, true);
    LLVMBuildRet(u->builder, be_int(u->i32, *(const int *)number));
    be_func_end(u);
    return OK;
}

/* Whether the object of this text and number was in the cache. */
static bool
is_cached_as(Arena *a, const char *dir, const char *job_text, int number,
             bool by_module)
{
    const BeTarget *targets;
    int num;
    assert_null(be_targets_parse(a, "x86-64-v3", &targets, &num));
    BeJob job = {.name = "k_number",
                 .text = job_text,
                 .text_len = strlen(job_text),
                 .emit = return_number,
                 .what = &number,
                 .target = targets};
    BeObjectOptions options = {.num_threads = 1,
                               .cache = be_cache_open(a, dir),
                               .by_module = by_module};
    assert_null(be_objects_make(a, &job, 1, &options));
    return job.cached;
}

static bool
is_cached(Arena *a, const char *dir, const char *job_text, int number)
{
    return is_cached_as(a, dir, job_text, number, false);
}

/* Under a text that is of another number. */
static bool
module_is_cached(Arena *a, const char *dir, int number)
{
    return is_cached_as(a, dir, "four", number, true);
}

/* As for another build of the compiler, whose kernels have other keys. */
static void
modules_are_keys_where_that_is_wanted(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    const char *dir = work_dir(a);
    assert_false(is_cached(a, dir, "one", 1));
    assert_false(is_cached(a, dir, "two", 1));
    setenv("TFD_CACHE_MODULES", "1", 1);
    assert_false(is_cached(a, dir, "three", 1));
    assert_true(is_cached(a, dir, "four", 1));
    assert_false(is_cached(a, dir, "five", 2));
    assert_true(module_is_cached(a, dir, 1));
    assert_false(module_is_cached(a, dir, 3));
    assert_true(module_is_cached(a, dir, 3));
    unsetenv("TFD_CACHE_MODULES");
    assert_false(is_cached(a, dir, "six", 1));
    assert_true(is_cached(a, dir, "four", 1));
    arena_release(a);
}

static void
targets_are_named(void **state)
{
    (void)state;
    Arena *a = arena_new(NULL, "test");
    const BeTarget *targets;
    int num;
    Status st =
        be_targets_parse(a, "x86-64-v4,x86-64-v3,x86-64-v4", &targets, &num);
    assert_null(st);
    assert_int_equal(num, 2);
    assert_string_equal(targets[1].name, "x86-64-v3");
    st = be_targets_parse(a, "sm_80,x86-64-v3,native,sm_90", &targets, &num);
    assert_null(st);
    assert_string_equal(targets[num - 1].name, "sm_80");
    assert_string_equal(targets[num - 2].name, "sm_90");
    assert_int_equal(targets[0].device, DEVICE_cpu);
    st = be_targets_parse(a, "native", &targets, &num);
    assert_null(st);
    assert_int_equal(num, 1);
    st = be_targets_parse(a, "x86-64-v5", &targets, &num);
    assert_status(st, STATUS_USAGE,
                  "unknown target \"x86-64-v5\"; did you mean x86-64-v4?");
    arena_release(a);
}

/* An instruction that the target does not have. */
static Status
emit_nonsense(BeUnit *u, const void *what, const BeTarget *t)
{
    (void)what, (void)t;
    be_func_begin(u, "k_nonsense", u->nothing, NULL, 0, true);
    Val zero = LLVMConstInt(u->i8, 0, 0);
    Val tiles[] = {zero};
    be_intrinsic(u, "llvm.x86.tilezero", NULL, 0, tiles, 1);
    LLVMBuildRetVoid(u->builder);
    be_func_end(u);
    return OK;
}

static void
compile_nonsense(void)
{
    Arena *a = arena_new(NULL, "test");
    const BeTarget *targets;
    int num;
    Status st = be_targets_parse(a, "x86-64-v3", &targets, &num);
    BeJob job = {.name = "k_nonsense", .text = "", .emit = emit_nonsense};
    job.target = targets;
    BeObjectOptions options = {.num_threads = 1};
    if (!st)
        st = be_objects_make(a, &job, 1, &options);
    status_free(st);
    arena_release(a);
}

static void
what_llvm_cannot_compile_ends_the_program(void **state)
{
    (void)state;
    assert_int_equal(exit_status_of(compile_nonsense), 1);
}

int
main(void)
{
    unsetenv("TFD_CACHE_MODULES"); /* that ./setup test sets */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_do_not_depend_on_threads),
        cmocka_unit_test(a_second_compilation_is_free),
        cmocka_unit_test(a_damaged_cache_is_ignored_and_mended),
        cmocka_unit_test(a_cache_that_cannot_be_made_is_none),
        cmocka_unit_test(modules_are_keys_where_that_is_wanted),
        cmocka_unit_test(targets_are_named),
        cmocka_unit_test(what_llvm_cannot_compile_ends_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
