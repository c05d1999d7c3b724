/*
 * plan_test.c - plans written, read back, and damaged
 */
#include "tests/unit/unit.h"
#include "tests/unit/arena.h"
#include "tests/unit/status.h"

#include <time.h>
#include <zip.h>
#include "ir/base/io/file.h"
#include "ir/base/hash/hash.h"
#include "ir/plan/abi.h"
#include "ir/plan/plan.h"
#include "ir/plan/plan_impl.h"
#include "ir/plan/target.h"

/* The numbers of the ABI and the format, as text. */
#define NUMBER_TEXT(x) #x
#define NUMBER(x) NUMBER_TEXT(x)
#define ABI NUMBER(TFD_ABI)
#define FORMAT NUMBER(PLAN_FORMAT)

static const char program_text[] =
    "tfd-ir 1 phase placed\n"
    "source 0 \"lib/p.tfd\"\n"
    "strategy default devices \"cpu:0\" replicas 1\n"
    "param @lr: f32 = 0.5 at 2:7+2\n"
    "\n"
    "func @main() main bytes 0 at 1:1+4 {\n"
    "  return\n"
    "}\n";
static const char source_text[] = "main { }\nparam lr: f32 = 0.5\n";

typedef struct Bytes {
    const char *data;
    size_t len;
} Bytes;

static PlanWriter *
writer_of(const char *ir, const char *target)
{
    PlanWriter *w = plan_writer_new(arena);
    plan_set_ir(w, ir, strlen(ir));
    plan_add_object(w, target, "k_b", "object b", 8);
    plan_add_object(w, target, "k_a", "object a", 8);
    plan_add_source(w, "lib/p.tfd", source_text, strlen(source_text));
    return w;
}

static Bytes
written(const PlanWriter *w)
{
    Bytes b;
    assert_null(plan_write_bytes(w, arena, &b.data, &b.len));
    return b;
}

static Bytes
good_plan(void)
{
    return written(writer_of(program_text, target_here()));
}

static void
assert_refused(Bytes b, const char *part)
{
    Plan *p;
    Status st = plan_read_bytes(arena, "x.tfp", b.data, b.len, &p);
    assert_non_null(st);
    assert_null(strchr(status_message(st), '\n'));
    assert_status_says(st, STATUS_INPUT, part);
}

static void
what_is_written_is_read(void **state)
{
    Plan *p;
    size_t len;
    Bytes b = good_plan();
    (void)state;
    assert_null(plan_read_bytes(arena, "x.tfp", b.data, b.len, &p));
    assert_string_equal(p->path, "x.tfp");
    assert_string_equal(p->compiler, "tfdc " TFD_VERSION);
    assert_string_equal(p->hash, hash_text(arena, b.data, b.len));
    assert_int_equal(p->num_codes, 1);
    assert_string_equal(p->codes[0].name, target_here());
    assert_int_equal(p->codes[0].num_objects, 2);
    assert_memory_equal(p->codes[0].objects[0].bytes, "object a", 8);
    assert_memory_equal(p->codes[0].objects[1].bytes, "object b", 8);
    uint16_t file = p->module->sources.data[0];
    assert_string_equal(diag_source_name(p->diag, file), "lib/p.tfd");
    assert_string_equal(diag_source_text(p->diag, file, &len), source_text);
    assert_int_equal(p->module->phase, PHASE_PLACED);
    assert_int_equal(p->module->params.data[0]->loc.line, 2);
    assert_int_equal(p->module->params.data[0]->loc.file, file);
}

static void
files_are_plans_too(void **state)
{
    Plan *p;
    char path[] = "/tmp/plan_test_XXXXXX";
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_null(plan_write(writer_of(program_text, target_here()), path));
    assert_null(plan_read(arena, path, &p));
    unlink(path);
    Status st = plan_read(arena, path, &p);
    assert_non_null(st);
    status_free(st);
}

/* What libzip takes for the time. */
static time_t seconds_later;

time_t
time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time_t t = now.tv_sec + seconds_later;
    if (out)
        *out = t;
    return t;
}

/* Independent of user, time, and order of the objects. */
static void
equal_contents_are_equal_bytes(void **state)
{
    Bytes a = good_plan();
    PlanWriter *w = plan_writer_new(arena);
    (void)state;
    plan_add_source(w, "lib/p.tfd", source_text, strlen(source_text));
    plan_add_object(w, target_here(), "k_a", "object a", 8);
    plan_add_object(w, target_here(), "k_b", "object b", 8);
    plan_set_ir(w, program_text, strlen(program_text));
    seconds_later = 3600;
    Bytes b = written(w);
    seconds_later = 0;
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
}

static void
strangers_are_refused(void **state)
{
    static const char text[] = "main { print(1) }\n";
    Plan *p;
    (void)state;
    assert_refused((Bytes){text, strlen(text)}, "it is not a plan");
    assert_refused((Bytes){"", 0}, "it is not a plan");
    Status st = plan_read_bytes(arena, "x.tfd", text, strlen(text), &p);
    assert_non_null(strstr(status_message(st), "tfdc x.tfd makes the plan"));
    status_free(st);
}

/* ---- code ---------------------------------------------------------------- */

/* A plan with code of "host" and two kernels for each target of a list. */
static Bytes
plan_for(const char *list)
{
    PlanWriter *w = plan_writer_new(arena);
    char *rest = arena_strdup(arena, list);
    plan_set_ir(w, program_text, strlen(program_text));
    for (char *name; (name = strsep(&rest, ","));) {
        const TargetInfo *t = target_find(name);
        plan_add_object(w, name, "k_2", arena_printf(arena, "%s 2", name),
                        strlen(name) + 2);
        plan_add_object(w, name, "k_1", arena_printf(arena, "%s 1", name),
                        strlen(name) + 2);
        if (!t || target_formats[t->device].hosts)
            plan_add_object(w, name, "host", "host", 4);
    }
    return written(w);
}

static Plan *
read_plan(Bytes b)
{
    Plan *p = NULL;
    Status st = plan_read_bytes(arena, "x.tfp", b.data, b.len, &p);
    if (st)
        fail_msg("%s", status_message(st));
    return p;
}

static void
codes_are_in_the_order_of_the_table(void **state)
{
    (void)state;
    Plan *p = read_plan(plan_for("z80,sm_80,x86-64-v3,sm_90,arm,x86-64-v4"));
    static const char *const order[] = {"x86-64-v4", "x86-64-v3", "sm_90",
                                        "sm_80",     "arm",       "z80"};
    assert_int_equal(p->num_codes, 6);
    for (int i = 0; i < 6; i++) {
        assert_string_equal(p->codes[i].name, order[i]);
        assert_ptr_equal(p->codes[i].target, target_find(order[i]));
    }
}

/* Kernel 1 of the plan is kernel 1 of each target. */
static void
kernels_have_numbers(void **state)
{
    (void)state;
    Plan *p = read_plan(plan_for("sm_80,x86-64-v3,arm"));
    assert_int_equal(p->num_kernels, 2);
    assert_string_equal(p->kernels[0], "k_1");
    assert_string_equal(p->kernels[1], "k_2");
    for (int i = 0; i < p->num_codes; i++) {
        const PlanCode *code = &p->codes[i];
        bool hosts = strcmp(code->name, "sm_80") != 0;
        assert_int_equal(code->num_objects, hosts ? 3 : 2);
        assert_int_equal(code->bytes,
                         2 * (strlen(code->name) + 2) + (hosts ? 4 : 0));
        for (int k = 0; k < 2; k++) {
            const char *bytes = arena_printf(arena, "%s %d", code->name, k + 1);
            assert_int_equal(code->kernels[k].size, strlen(bytes));
            assert_string_equal(code->kernels[k].bytes, bytes);
        }
    }
}

static const char *
chosen(const Plan *p, IrDeviceKind device, int level)
{
    const PlanCode *code;
    Status st = plan_choose_code(p, device, level, &code);
    if (st)
        fail_msg("%s", status_message(st));
    return code ? code->name : NULL;
}

static const char *
chosen_here(const Plan *p)
{
    const PlanCode *code;
    Status st = plan_choose_code_here(p, &code);
    if (st)
        fail_msg("%s", status_message(st));
    return code->name;
}

static bool
cpu_is(const char *vendor)
{
    char line[256];
    bool is = false;
    FILE *f = fopen("/proc/cpuinfo", "r");
    assert_non_null(f);
    while (!is && fgets(line, sizeof line, f))
        is = strncmp(line, "vendor_id", 9) == 0 && strstr(line, vendor);
    fclose(f);
    return is;
}

/* A higher level may run, and be slower, and is taken where there is no other
 * code. */
static void
vdpbf16ps_of_intel_is_a_last_resort(void **state)
{
    (void)state;
    bool runs = target_runs_here("x86-64-v4+bf16");
    bool has_amx = target_runs_here("x86-64-v4+amx");
    bool is_intel = runs && !has_amx && cpu_is("GenuineIntel");
    const char *highest =
        target_of_level(DEVICE_cpu, target_level_here())->name;
    assert_string_equal(target_here(), is_intel ? "x86-64-v4" : highest);
    Plan *p = read_plan(plan_for("x86-64-v4,x86-64-v4+bf16"));
    if (runs)
        assert_string_equal(chosen_here(p),
                            is_intel ? "x86-64-v4" : "x86-64-v4+bf16");
    p = read_plan(plan_for("x86-64-v4+bf16"));
    if (runs)
        assert_string_equal(chosen_here(p), "x86-64-v4+bf16");
}

static void
the_best_target_of_a_kind_is_taken(void **state)
{
    (void)state;
    Plan *p = read_plan(
        plan_for("z80,x86-64-v3,x86-64-v4,x86-64-v4+bf16,x86-64-v4+amx,sm_80,"
                 "sm_90"));
    assert_string_equal(chosen_here(p), target_here());
    assert_string_equal(chosen(p, DEVICE_cpu, 3), "x86-64-v3");
    assert_string_equal(chosen(p, DEVICE_cpu, 4), "x86-64-v4");
    assert_string_equal(chosen(p, DEVICE_cpu, 5), "x86-64-v4+bf16");
    assert_string_equal(chosen(p, DEVICE_cpu, 9), "x86-64-v4+amx");
    p = read_plan(plan_for("x86-64-v3,x86-64-v4"));
    assert_string_equal(chosen(p, DEVICE_cpu, 5), "x86-64-v4");
    p = read_plan(plan_for("z80,x86-64-v3,sm_80,sm_90"));
    assert_string_equal(chosen(p, DEVICE_cuda, 86), "sm_80");
    assert_string_equal(chosen(p, DEVICE_cuda, 120), "sm_90");
    assert_null(chosen(p, DEVICE_null, 0));
    PlanWriter *w = plan_writer_new(arena);
    plan_set_ir(w, program_text, strlen(program_text));
    plan_add_object(w, "x86-64-v3", "host", "", 0);
    p = read_plan(written(w));
    assert_null(chosen(p, DEVICE_cuda, 90));
    assert_string_equal(chosen(p, DEVICE_cpu, 4), "x86-64-v3");
}

static Plan *
plan_with_calls(const char *calls)
{
    PlanWriter *w = writer_of(program_text, target_here());
    if (calls)
        plan_set_calls(w, calls, strlen(calls));
    return read_plan(written(w));
}

/* The module has one operation and one source. */
static void
calls_are_of_the_module(void **state)
{
    static const char *const wrong[] = {
        "",
        "library\n",
        "library 7\nops 1x0\n",
        "library\ncall 1 0 1 1 1 f -\nops 1x0\n",
        "library\ncall 0 0 1 1 1 f\nops 1x0\n",
        "library\ncall 0 9 1 1 1 f -\nops 1x0\n",
        "library\nops 1x1\n",
        "library\nops 0x0\n",
        "library\nops 2x0\n",
        "library\nops 99999999999999999999x0\n",
        "library\nops 1x0\nmore\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Status st = plan_load_calls(plan_with_calls(wrong[i]));
        assert_status_says(st, STATUS_INPUT,
                           "the plan is damaged (calls.txt is not of its "
                           "program)");
    }
    Plan *p = plan_with_calls("library 0\ncall 0 0 2 7 2 Net.call net.fc\n"
                              "ops 1x1\n");
    assert_null(plan_load_calls(p));
    const IrCall *call = ir_main(p->module)->body->first->calls;
    assert_string_equal(call->function, "Net.call");
    assert_string_equal(call->layer, "net.fc");
    assert_int_equal(call->loc.line, 2);
    assert_true(diag_is_library(p->diag, call->loc.file));
    assert_null(plan_load_calls(plan_with_calls(NULL)));
}

/* What the plan has, for what, and how it is refused. */
static void
code_that_does_not_fit_is_refused(void **state)
{
    static const struct {
        const char *have;
        IrDeviceKind device;
        int level;
        const char *why;
    } rows[] = {
        {"x86-64-v4", DEVICE_cpu, 3,
         "its code is for x86-64-v4, which this CPU is not; tfdc --target "
         "x86-64-v3 makes a plan that fits"},
        {"x86-64-v4", DEVICE_cpu, 0,
         "its code is for x86-64-v4, and this CPU has not even the "
         "instructions of x86-64-v3"},
        {"sm_80,x86-64-v4,z80", DEVICE_cpu, 3,
         "its code is for x86-64-v4, which this CPU is not; tfdc --target "
         "x86-64-v3,sm_80 makes a plan that fits"},
        {"x86-64-v3,sm_90", DEVICE_cuda, 86,
         "its code is for sm_90, which this GPU is not; tfdc --target "
         "x86-64-v3,sm_80 makes a plan that fits"},
        {"x86-64-v3,sm_90", DEVICE_cuda, 70,
         "its code is for sm_90, and this GPU has not even the instructions "
         "of sm_80"},
        {"sm_90", DEVICE_cpu, 4,
         "its code is for sm_90, and none of it for CPUs; tfdc --target "
         "x86-64-v4,sm_90 makes a plan that fits"},
        {"z80", DEVICE_cpu, 0,
         "its code is for z80, and none of it for CPUs; tfdc --target "
         "x86-64-v3 makes a plan that fits"},
        {"x86-64-v3,x86-64-v4", DEVICE_cuda, 90,
         "its code is for x86-64-v4, x86-64-v3, and none of it for GPUs; tfdc "
         "--target x86-64-v4,x86-64-v3,sm_80 makes a plan that fits"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const PlanCode *code;
        Plan *p = read_plan(plan_for(rows[i].have));
        Status st = plan_choose_code(p, rows[i].device, rows[i].level, &code);
        assert_status(
            st, STATUS_INPUT,
            arena_printf(arena, "cannot run \"x.tfp\": %s", rows[i].why));
    }
}

/* Entries of a sound plan for two targets, changed. */
static void
entries_of_code_are_checked(void **state)
{
    PlanWriter *fewer = plan_writer_new(arena);
    PlanWriter *other = plan_writer_new(arena);
    PlanWriter *more = plan_writer_new(arena);
    PlanWriter *writers[] = {fewer, other, more};
    (void)state;
    for (int i = 0; i < 3; i++) {
        plan_set_ir(writers[i], program_text, strlen(program_text));
        plan_add_object(writers[i], "x86-64-v3", "host", "", 0);
        plan_add_object(writers[i], "x86-64-v3", "k_1", "", 0);
        plan_add_object(writers[i], "sm_80", i == 1 ? "k_0" : "k_1", "", 0);
    }
    plan_add_object(fewer, "x86-64-v3", "k_2", "", 0);
    plan_add_object(more, "sm_80", "k_2", "", 0);
    assert_refused(written(fewer),
                   "the plan is damaged (its code for x86-64-v3 has \"k_2\", "
                   "and that for sm_80 has not)");
    assert_refused(written(other),
                   "its code for sm_80 has \"k_0\", and that for x86-64-v3");
    assert_refused(written(more),
                   "its code for sm_80 has \"k_2\", and that for x86-64-v3");
}

/* The whole page, but for the machine that the test runs on. */
static void
plans_are_put_in_words(void **state)
{
    (void)state;
    Str s = str_new(arena);
    plan_print_info(&s, read_plan(plan_for("z80,sm_80,x86-64-v3")));
    char *text = arena_strdup(arena, str_text(&s));
    char *last = strstr(text, "  this machine's CPU");
    assert_non_null(last);
    assert_non_null(strstr(last, target_here()));
    *last = '\0';
    assert_string_equal(
        text,
        "x.tfp: a plan of format " FORMAT " and ABI " ABI
        ", by tfdc " TFD_VERSION "\n\n"
        "  replicas                           1  on cpu:0\n"
        "  device programs                    0\n"
        "  kernels                            2\n\n"
        "code, in bytes\n"
        "  x86-64-v3                         26  ELF objects for cpu devices: "
        "x86-64 with AVX2 and FMA\n"
        "  sm_80                             14  PTX for cuda devices: NVIDIA "
        "GPUs of compute capability 8.0 and newer\n"
        "  z80                               14  for a machine that this "
        "version does not know\n");
}

static void
plans_without_code_are_refused(void **state)
{
    PlanWriter *empty = plan_writer_new(arena);
    (void)state;
    plan_set_ir(empty, program_text, strlen(program_text));
    assert_refused(written(empty), "the plan is damaged (it has no code)");
}

static void
damaged_programs_are_refused(void **state)
{
    static const char earlier[] =
        "tfd-ir 1 phase ir\n"
        "strategy default devices \"cpu:0\" replicas 1\n"
        "func @main() main {\n  return\n}\n";
    (void)state;
    assert_refused(written(writer_of("nonsense\n", target_here())),
                   "its program is damaged: placed.tir:1:");
    assert_refused(written(writer_of(earlier, target_here())),
                   "its program is not placed");
}

/* ---- zips that are no plans ---------------------------------------------- */

typedef struct Entry {
    const char *name, *text;
} Entry;

/* A zip of these entries, as another program makes them. */
static Bytes
zip_of(int n, const Entry *entries, zip_int32_t method)
{
    Bytes b;
    zip_error_t error;
    zip_source_t *out = zip_source_buffer_create(NULL, 0, 0, &error);
    zip_source_keep(out);
    zip_t *zip = zip_open_from_source(out, ZIP_TRUNCATE, &error);
    assert_non_null(zip);
    for (int i = 0; i < n; i++) {
        zip_source_t *text =
            zip_source_buffer(zip, entries[i].text, strlen(entries[i].text), 0);
        zip_int64_t at = zip_file_add(zip, entries[i].name, text, 0);
        zip_set_file_compression(zip, (zip_uint64_t)at, method, 0);
    }
    assert_int_equal(zip_close(zip), 0);
    zip_stat_t info;
    assert_int_equal(zip_source_stat(out, &info), 0);
    char *data = arena_alloc(arena, info.size);
    b = (Bytes){data, info.size};
    zip_source_open(out);
    assert_int_equal(zip_source_read(out, data, info.size), b.len);
    zip_source_close(out);
    zip_source_free(out);
    return b;
}

static Bytes
zip_with_manifest(const char *manifest)
{
    Entry entries[] = {{"manifest.json", manifest},
                       {"placed.tir", program_text}};
    return zip_of(2, entries, ZIP_CM_STORE);
}

static void
manifests_are_checked(void **state)
{
    static const struct {
        const char *manifest, *why;
    } cases[] = {
        {"", "its manifest cannot be read"},
        {"[1]", "has no number \"format\""},
        {"{\"format\": 1.5}", "has no number \"format\""},
        {"{\"format\": 99}", "needs a newer tfd-run (format 99"},
        {"{\"format\": 0}", "an older tfdc made it"},
        {"{\"format\": " FORMAT ", \"abi\": 99}",
         "needs a newer tfd-run (abi 99"},
        {"{\"format\": " FORMAT ", \"abi\": " ABI "}",
         "does not list \"placed.tir\""},
        {"{\"format\": " FORMAT ", \"abi\": " ABI ", \"files\": 7}",
         "does not list"},
        {"{\"format\": " FORMAT ", \"abi\": " ABI
         ", \"files\": {\"placed.tir\": \"00\"}}",
         "checksum of \"placed.tir\""},
        {"{\"format\": 1, \"format\": 1}", "its manifest cannot be read"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(zip_with_manifest(cases[i].manifest), cases[i].why);
}

static void
missing_files_are_noticed(void **state)
{
    const char *hash = hash_text(arena, program_text, strlen(program_text));
    (void)state;
    assert_refused(zip_with_manifest(arena_printf(
                       arena,
                       "{\"format\": " FORMAT ", \"abi\": " ABI ", \"files\": "
                       "{\"placed.tir\": \"%s\", \"code/a.o\": \"00\"}}",
                       hash)),
                   "1 of 2 files");
}

/* Code that runs here, and n names more, from a function. */
static Bytes
zip_of_names(int n, const char *(*name_of)(int i))
{
    Entry *entries = NEW_ARRAY(arena, Entry, (size_t)n + 2);
    const char *code = arena_printf(arena, "code/%s/a.o", target_here());
    const char *hash = hash_text(arena, "x", 1);
    Str manifest = str_new(arena);
    str_addf(&manifest,
             "{\"format\": " FORMAT ", \"abi\": " ABI
             ", \"files\": {\"%s\": \"%s\"",
             code, hash);
    entries[1] = (Entry){code, "x"};
    for (int i = 0; i < n; i++) {
        entries[i + 2] = (Entry){name_of(i), "x"};
        str_addf(&manifest, ", \"%s\": \"%s\"", name_of(i), hash);
    }
    str_add(&manifest, "}}");
    entries[0] = (Entry){"manifest.json", str_text(&manifest)};
    return zip_of(n + 2, entries, ZIP_CM_STORE);
}

static const char *
source_name(int i)
{
    return i ? arena_printf(arena, "source/%d/a.tfd", i - 1) : "placed.tir";
}

static void
modules_are_needed(void **state)
{
    (void)state;
    assert_refused(zip_of_names(0, source_name), "it has no placed.tir");
    PlanWriter *w = writer_of(program_text, target_here());
    plan_add_source(w, "more.tfd", "", 0);
    assert_refused(written(w), "it has texts of more sources than the 1 that "
                               "its program names");
}

static const char *
code_name(int i)
{
    static const char *const names[] = {
        "placed.tir",           "code/k_1.o",        "code/x86-64-v3/k_1",
        "code/x86-64-v3/k.ptx", "code/sm_80/k_1.o",  "code/sm_80/host.ptx",
        "code//k_1.o",          "code/x86-64-v3/.o", "code/sm_80/a/k_1.ptx",
    };
    return names[i];
}

static const char *bad_name;

static const char *
program_or_bad_name(int i)
{
    return i ? bad_name : "placed.tir";
}

static void
names_of_code_are_checked(void **state)
{
    (void)state;
    for (int i = 1; i < 9; i++) {
        bad_name = code_name(i);
        assert_refused(zip_of_names(2, program_or_bad_name),
                       arena_printf(arena,
                                    "it has \"%s\", which is code of no target",
                                    bad_name));
    }
}

/* The manifest lists as many names as there are entries, but two of these have
 * one name, and one is missing. */
static void
doubled_entries_are_refused(void **state)
{
    (void)state;
    Bytes b = plan_for("x86-64-v3,sm_80");
    char *bytes = arena_copy(arena, b.data, b.len);
    static const char from[] = "code/sm_80/k_2.ptx",
                      to[] = "code/sm_80/k_1.ptx";
    size_t n = strlen(from);
    for (size_t i = 0; i + n <= b.len; i++)
        if (memcmp(bytes + i, "PK", 2) == 0)
            for (size_t k = 30; k <= 46 && i + k + n <= b.len; k += 16)
                if (memcmp(bytes + i + k, from, n) == 0)
                    memcpy(bytes + i + k, to, n);
    assert_refused((Bytes){bytes, b.len}, "the plan is damaged (File already");
}

static void
other_zips_are_refused(void **state)
{
    static const char zeros[] = "0000000000000000000000000000000000000000000";
    Entry entries[] = {{"manifest.json", zeros}, {"placed.tir", zeros}};
    (void)state;
    assert_refused(zip_of(2, entries, ZIP_CM_DEFLATE),
                   "not one that tfdc made");
    assert_refused(zip_of(1, &entries[1], ZIP_CM_STORE),
                   "a zip without the manifest of a plan");
}

/* ---- damage -------------------------------------------------------------- */

/* The bytes in memory of just their size, so that no one reads beyond. */
static void
read_copy(const char *data, size_t len)
{
    Plan *p;
    Arena *a = arena_new(NULL, "damaged");
    char *copy = malloc(len ? len : 1);
    memcpy(copy, data, len);
    Status st = plan_read_bytes(a, "x.tfp", copy, len, &p);
    if (st) {
        assert_int_equal(status_kind(st), STATUS_INPUT);
        assert_null(strchr(status_message(st), '\n'));
    }
    status_free(st);
    free(copy);
    arena_release(a);
}

/* A byte in an entry of each target. */
static void
damaged_code_is_named(void **state)
{
    static const char *const rows[][2] = {
        {"x86-64-v3 2", "checksum of \"code/x86-64-v3/k_2.o\""},
        {"sm_80 1", "checksum of \"code/sm_80/k_1.ptx\""},
    };
    (void)state;
    for (int i = 0; i < 2; i++) {
        Bytes b = plan_for("x86-64-v3,sm_80");
        char *bytes = arena_copy(arena, b.data, b.len);
        char *at = memmem(bytes, b.len, rows[i][0], strlen(rows[i][0]));
        assert_non_null(at);
        *at ^= 1;
        assert_refused((Bytes){bytes, b.len}, rows[i][1]);
    }
}

static void
truncated_plans_are_refused(void **state)
{
    Bytes b = plan_for("x86-64-v3,sm_80");
    Plan *p;
    (void)state;
    for (size_t n = 0; n < b.len; n++) {
        Status st = plan_read_bytes(arena, "x.tfp", b.data, n, &p);
        assert_non_null(st);
        status_free(st);
        read_copy(b.data, n);
    }
}

/* With the checksums, and without: then the damage gets further. */
static void
damaged_plans_are_survived(void **state)
{
    static const unsigned char flips[] = {0x01, 0x20, 0xff};
    Bytes b = plan_for("x86-64-v3,sm_80");
    char *bytes = arena_copy(arena, b.data, b.len);
    (void)state;
    for (int checked = 0; checked < 2; checked++) {
        setenv("TFD_CHECKSUMS", checked ? "1" : "0", 1);
        for (size_t i = 0; i < b.len; i++) {
            for (size_t k = 0; k < sizeof flips; k++) {
                bytes[i] = (char)(b.data[i] ^ flips[k]);
                read_copy(bytes, b.len);
            }
            bytes[i] = b.data[i];
        }
    }
    unsetenv("TFD_CHECKSUMS");
}

/* Rows of a kind stand together, the highest level first. */
static void
targets_are_levels(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_TARGETS; i++) {
        const TargetInfo *t = &target_info[i];
        assert_ptr_equal(target_find(t->name), t);
        assert_non_null(target_formats[t->device].extension);
        if (i > 0)
            assert_true(t[-1].device == t->device ? t[-1].level > t->level
                                                  : t[-1].device < t->device);
    }
    assert_null(target_find("sm_8"));
    assert_string_equal(target_of_level(DEVICE_cuda, 89)->name, "sm_80");
    assert_null(target_of_level(DEVICE_cuda, 75));
    assert_string_equal(target_least(DEVICE_cpu)->name, "x86-64-v3");
}

static void
cpus_run_lower_levels(void **state)
{
    bool better = false;
    (void)state;
    for (int i = 0; i < NUM_TARGETS; i++) {
        bool runs = target_runs_here(target_info[i].name);
        if (target_info[i].device == DEVICE_cpu)
            assert_true(!better || runs);
        else
            assert_false(runs);
        better |= runs;
    }
    assert_true(target_runs_here(target_here()));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_levels),
        cmocka_unit_test(cpus_run_lower_levels),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(files_are_plans_too),
        cmocka_unit_test(equal_contents_are_equal_bytes),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(codes_are_in_the_order_of_the_table),
        cmocka_unit_test(kernels_have_numbers),
        cmocka_unit_test(the_best_target_of_a_kind_is_taken),
        cmocka_unit_test(vdpbf16ps_of_intel_is_a_last_resort),
        cmocka_unit_test(calls_are_of_the_module),
        cmocka_unit_test(code_that_does_not_fit_is_refused),
        cmocka_unit_test(entries_of_code_are_checked),
        cmocka_unit_test(plans_are_put_in_words),
        cmocka_unit_test(plans_without_code_are_refused),
        cmocka_unit_test(damaged_programs_are_refused),
        cmocka_unit_test(manifests_are_checked),
        cmocka_unit_test(missing_files_are_noticed),
        cmocka_unit_test(modules_are_needed),
        cmocka_unit_test(names_of_code_are_checked),
        cmocka_unit_test(doubled_entries_are_refused),
        cmocka_unit_test(other_zips_are_refused),
        cmocka_unit_test(damaged_code_is_named),
        cmocka_unit_test(truncated_plans_are_refused),
        cmocka_unit_test(damaged_plans_are_survived),
    };
    if (!target_here()) {
        printf("1..0 # SKIP this CPU runs none of our targets\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, new_arena, release_arena);
}
